// Package clock tells the time of a replica, and the time since the machine booted.
//
// The wall clock of a machine can be wrong, and it can jump. The time of a replica is that of the
// wall clock when the replica started; from then on it advances with the boot clock, which cannot
// jump, and follows small corrections of the wall clock only. Replicas tell each other their times:
// one that differs from a majority goes on with the time of the majority. So a wrong wall clock of
// one replica changes nothing but who leads.
//
// The time never goes back on a replica, and the leader's is that of the replicated state: if the
// state is ahead of the clocks, its time goes on from there, slightly slower than the clocks, until
// they have caught up. A replica that has not compared its clock since it started goes on with the
// time of the state too.
package clock
