// Command weir-jobproxy runs a job of a node agent and outlives the agent.
//
//	weir-jobproxy FOLDER
//
// FOLDER holds the job's spec.json; descriptor 3 is the socket on which the
// agent will connect. Package proxyproto describes the protocol.
//
// The proxy starts the command in control groups of its own. Without control groups it adopts
// all descendants of the command. It keeps the output within limits and measures the job. It
// kills every process of the job when the command has ended, when the agent orders it, when a
// limit is exceeded, or when no agent has renewed the lease. It sends the result to its agent, or writes
// it to a file for one that connects later.
//
// A job can be isolated from its node. For that the agent starts the proxy in a mount
// namespace, in which it mounts the job's tmpfs. The proxy of a separate job is also the first process
// of a namespace: the kernel ends the job with it (separate.go). The job has a view of the machine's
// files of its own (rootfs.go), and rights are taken from it (seccomp.go). A strictly isolated command,
// each probe, and each command that a person runs in the job (exec.go), is this program first (become.go).
//
// The job's input, and the output and files that are kept, are handled by streams (streams.go).
//
// After a job that leaves nothing in it, a proxy runs another one if its agent wants that (stay.go).
//
// One proxy runs beside each job, so it has to stay small: it needs only the standard library,
// golang.org/x/sys and cespare/xxhash, and limits its own heap.
//
// One goroutine, supervisor.run, owns all state. The others only wait for something (the child,
// the socket, the pipes) and send it to that goroutine.
package main
