// Package proxyproto is what a node agent and weir-jobproxy say to each other.
//
// A job has a folder. The agent writes the job's Spec there (SpecFile), opens
// the listening socket (SocketFile) and starts weir-jobproxy with that socket
// as descriptor 3. The proxy serves whoever connects; the newest connection
// wins. It greets with a Hello, which carries the protocol's Version, and
// tells at once what has happened so far: Started when the command runs,
// Exited when the job has ended. The Result is on disk (ResultFile, synced)
// before it is told, unless that disk hangs, and is told again on every new
// connection, until the agent sends Release.
//
// Each message is one line of JSON that holds an object with exactly one key,
// the name of the message:
//
//	{"renew":{"lease_millis":15000}}
//
// A line that is no message, or is longer than MaxLine, is answered with an
// Error that names it; the connection and the job go on.
//
// The package needs the standard library only, as it is part of the proxy.
package proxyproto

import "time"

// Version is the protocol's version. A proxy outlives its agent, and the next one
// may be of another build: it adopts the proxies of the versions from Oldest on, tells
// them what they understand, and ends the others. Within a version messages and fields
// may be added to what a proxy says, and an agent does without those that a proxy does
// not have. A field may be added to what an agent says, which does not say it before a
// proxy's Hello has said that it is understood. Nothing else changes. A proxy takes specs
// of its own version alone.
//
// Version 2 has the message Interrupt. Version 3 has no message more; its specs say how a
// job is kept apart from its node, what it is fed and what of it is kept, and its results
// what it read and wrote. In version 4 an Interrupt may be without a signal. Version 5 has the
// message Probe.
const Version = 5

// Oldest is the oldest version of a proxy that an agent can speak with.
const Oldest = 1

// MaxLine limits one message, in bytes, newline included.
const MaxLine = 64 << 10

// Names in a job's folder.
const (
	// SpecFile holds the Spec.
	SpecFile = "spec.json"
	// SocketFile is the socket on which the proxy listens.
	SocketFile = "control.sock"
	// IdentityFile holds the Identity of a proxy of an earlier build.
	IdentityFile = "proxy.json"
	// ResultFile holds the Result, from before it is told.
	ResultFile = "result.json"
	// LogFile begins with the proxy's Identity, from before the command starts, and takes
	// what the proxy itself has to complain about.
	LogFile = "proxy.log"
	// WorkspaceFolder is the job's working directory.
	WorkspaceFolder = "work"
)

// TimerSlack is by how much the kernel may let the timers of a proxy be late. Without it a
// thread of Go's runtime looks at the others every 20 µs while they work, and as they wait
// for a processor. The job gets UsualTimerSlack, that of every process which asks for none.
const (
	TimerSlack      = time.Millisecond
	UsualTimerSlack = 50 * time.Microsecond
)

// CheckArgument is given to weir-jobproxy in place of a job's folder. Followed by an
// isolation and the name of the mount namespace of who asks, it has weir-jobproxy try, in
// namespaces of its own, what that isolation needs, and say why it cannot.
const CheckArgument = "--check"

// ListenerDescriptor is the number of the listening socket in the proxy.
const ListenerDescriptor = 3

// TreeVariable is set in the environment of every job to the job's folder. Where
// there are no cgroups, a process that left its parents is found by it.
const TreeVariable = "WEIR_PROCESS_TREE"

// ProxyVariable is set in the environment of every proxy to the job's folder. No job gets it,
// but a process that the proxy has forked shows it until it has a program of its own, and
// the TreeVariable.
const ProxyVariable = "WEIR_PROXY_OF"
