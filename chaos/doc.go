// Package chaos presses a cluster and finds out whether it keeps its promises.
//
// A run has these phases: load from clients, faults on top of it by a schedule that
// was decided before the start, healing, quiet until every operation has ended, and
// final reads. Clients, witnesses (the jobs), and the nemesis write histories; see
// package history. Nothing is judged while the run goes on: package check does that
// afterwards, from the histories alone.
//
// The package acts on a Cluster that the caller provides; it starts no process.
package chaos
