// Package engine schedules one pool tree: events and time go in, plans come out.
//
// The engine has a single writer and no clock, lock or I/O of its own. Equal
// events in equal order give equal plans: decisions go by slices and heaps of
// total order, and maps only find things by id.
//
// # Plans and commits
//
// Heartbeat plans starts. From that moment the resources of a start are used and
// its job is no longer pending, so that the next heartbeat can be planned while
// the proposal is under way. The start is in flight, under a Ticket, until it is
// settled: Commit makes an allocation of it, Reject takes it back.
//
// # Who subtracts
//
// SetDemand gives the pending jobs of a task as the replicated state has them,
// where a job is pending until its start is committed. The engine subtracts what
// is in flight:
//
//	effective pending = committed pending - in flight, and at least 0
//
// Commit lowers both terms by one, for the state has taken the job out of the
// pending ones with that very entry. So the effective number does not change,
// and a SetDemand is needed only when the number changes for another reason, or
// as confirmation. Both are taken from the log: give, for each entry, first its
// commits and then the demand after it. If the order is broken, the engine plans
// a start too few until the next SetDemand, or one too many, which the state
// refuses; never is a job started twice.
//
// # Groups
//
// Jobs of one task may need different memory: group 0 gets what the task has learned to
// need, another one as many bytes as its number says. Each group has its own demand, and
// what a group needs may change while jobs of it wait; what has started keeps what it got.
//
// # Gangs
//
// Jobs of a task that is a gang start all in one plan, or none does. One gang at a time
// gathers: where it is its turn, a claim is made for a job instead of a start, until all
// have one that can be met, or the gang_timeout of the tree is over.
//
// # Preemption
//
// Heartbeat plans preemptions too (F.12.3). From that moment the allocation is leaving: it
// holds its part of the node, is usage of its operation no more, and is in none of its
// groups. Leave says that the order is committed, and so does it of orders that others
// gave; Stay takes the plan back. What those leave that go for somebody is held by a claim
// on the node, which counts as usage of the beneficiary until its job is started there,
// before all others. Claims are the engine's own, and follow from the orders: a new engine
// that is told of the allocations, the demand and then the orders has the same ones.
//
// That preemption ends when nothing changes is up to three rules: the groups protect the
// allocation that crosses a bound; nobody is left with less of its fair share than who
// starves has; and within an age, in which only what jobs use moves shares, nobody takes
// back what was taken from it.
//
// # Questions
//
// Why something is as it is takes long to say. So it is asked by an Inquiry, for which the
// engine's goroutine notes a little at a time. Package explain finds beside it what follows.
//
// # Resources
//
// The resources of an allocation are free again at RemoveAllocation only, after
// the job has gone. A node or an operation that is removed before its
// allocations stays, and gets nothing new, until the last of them is removed.
package engine
