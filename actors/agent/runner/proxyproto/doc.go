// Package proxyproto is the protocol between a node agent and weir-jobproxy.
//
// A job has a folder. The agent writes the job's Spec there (SpecFile), opens
// the listening socket (SocketFile) and starts weir-jobproxy with that socket
// as descriptor 3. The proxy serves one connection, the newest. It greets with
// a Hello, which carries the protocol's Version, and then repeats what has
// happened so far: Started if the command was started, Exited if the job has
// ended. The Result is sent on every new connection until the agent sends
// Release. When no agent is connected, it is on disk too (ResultFile, synced),
// unless that disk hangs: a connected agent keeps it in its journal.
//
// Instead of exiting, a proxy may say Free once its job is released, and get another job with Run: one whose
// Spec is in the same folder, under another name. The agent has written the proxy's Identity into the log by then.
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

import (
	"strings"
	"time"
)

// Version is the protocol's version. A proxy outlives its agent, and the next agent may be of
// another build. An agent adopts proxies of the versions Oldest to Version, sends each only
// messages that the proxy understands, and kills proxies of other versions. Within a version,
// messages and fields may be added to what proxies send; an agent must do without them. A field or
// message may be added to what agents send, if an agent sends it only after a proxy's Hello has said that it
// is understood. Nothing else may change within a version. A proxy accepts only specs of its own
// version.
//
// Version 2 adds the message Interrupt. Version 3 adds isolation, input and outputs to the
// spec, and the counts of input and output to the result. Version 4 allows an Interrupt
// without a signal. Version 5 adds the message Probe. Version 6 adds the end of the lease to the spec.
// Version 7 adds secrets, separate and the user's own to the spec.
const Version = 7

// Oldest is the oldest version of a proxy that an agent supports.
const Oldest = 1

// MaxLine limits one message, in bytes, newline included.
const MaxLine = 64 << 10

// Names in a job's folder.
const (
	// SpecFile holds the Spec.
	SpecFile = "spec.json"
	// SocketFile is the socket on which the proxy listens.
	SocketFile = "control.sock"
	// IdentityFile holds the Identity of a proxy of an earlier build; other proxies write it to
	// LogFile.
	IdentityFile = "proxy.json"
	// ResultFile holds the Result. It is written when no agent is connected that could keep it.
	ResultFile = "result.json"
	// LogFile begins with the proxy's Identity, written before the command starts, by the agent if the proxy has
	// run another job before. The proxy's own errors follow.
	LogFile = "proxy.log"
	// WorkspaceFolder is the job's working directory.
	WorkspaceFolder = "work"
)

// TimerSlack is how late the kernel may let a proxy's timers fire. With the usual slack the
// monitor thread of Go's runtime wakes every 20 µs while other threads run or wait for a
// processor. The job gets UsualTimerSlack, the kernel's default.
const (
	TimerSlack      = time.Millisecond
	UsualTimerSlack = 50 * time.Microsecond
)

// CheckArgument is given to weir-jobproxy in place of a job's folder, followed by an
// isolation and the name of the caller's mount namespace. weir-jobproxy then tests, in
// namespaces of its own, whether that isolation works, and prints why it does not.
const CheckArgument = "--check"

// ListenerDescriptor is the number of the listening socket in the proxy.
const ListenerDescriptor = 3

// SecretsDescriptor is the number, in the proxy, of a file in memory that holds the job's secrets, if
// it has any.
const SecretsDescriptor = 4

// JoinSecrets returns the content of that file.
func JoinSecrets(secrets []string) string { return strings.Join(secrets, "\x00") }

// SplitSecrets reads the content of that file.
func SplitSecrets(content string) []string { return strings.Split(content, "\x00") }

// TreeVariable is set in the environment of every job to the job's folder. Where
// there are no cgroups, it identifies processes that have detached from their parents.
const TreeVariable = "WEIR_PROCESS_TREE"

// ProxyVariable is set in the environment of every proxy to the job's folder. No job gets it,
// but a process that the proxy has forked shows it until it executes its own program, with
// TreeVariable.
const ProxyVariable = "WEIR_PROXY_OF"
