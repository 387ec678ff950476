// Command weir-jobproxy runs one job of a node agent and outlives the agent.
//
//	weir-jobproxy FOLDER
//
// FOLDER holds the job's spec.json; descriptor 3 is the socket on which the
// agent will connect. What is said there is described in package proxyproto.
//
// The proxy starts the command in control groups of its own, or where there are
// none as the foster parent of all its descendants, keeps its output within
// limits, measures it, and ends every process of it when the command has ended,
// when the agent says so, when a limit is met, or when the agent has not been
// heard from for the lease. The result is on disk before it is told.
//
// A job can be kept apart from its node (isolation). For that the agent starts the
// proxy in a mount namespace, in which it mounts the job's tmpfs; the strictest
// jobs also get an init, which is this program again (init.go), that makes what
// they see of the machine (rootfs.go) and gives up their rights (seccomp.go).
//
// What a job reads and writes, and what becomes of it, are streams (streams.go).
//
// One proxy runs beside each job, so it has to stay small: it needs the
// standard library, golang.org/x/sys and cespare/xxhash only and limits its own heap.
//
// One goroutine, supervisor.run, owns all that changes. The others only wait
// for something (the child, the socket, the pipes) and tell it.
package main
