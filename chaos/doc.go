// Package chaos injects faults into a cluster under load and checks that it keeps its promises.
//
// A run has these phases: load from clients, faults during the load by a schedule made before
// the start, healing, a quiet time until every operation has ended, and final reads. Clients,
// witnesses (the jobs) and the nemesis write histories; see package history. Nothing is judged
// during the run: package check does that afterwards, from the histories alone.
//
// The package acts on a Cluster that the caller provides; it starts no process.
package chaos
