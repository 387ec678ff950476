// Package discoveryjson defines the messages between a job and the agent of its node on the job's
// discovery socket, and the content of the job's notice file.
//
// Each message is one line of JSON. docs/discovery.md describes them for users. The
// package needs the standard library only.
package discoveryjson

import (
	"cmp"
	"net"
	"strconv"
	"time"

	"weir/messages/changes"
)

// Bounds of messages, in bytes with the newline.
const (
	// MaxRequest is the longest line that an agent accepts.
	MaxRequest = 4 << 10
	// MaxAnswer is the longest line that an agent sends.
	MaxAnswer = 16 << 20
)

// Request is a message of a job: a question, an action or a report about itself. One of Ask, Do and
// Say is set.
type Request struct {
	Ask string `json:"ask,omitempty"`
	Do  string `json:"do,omitempty"`
	Say string `json:"say,omitempty"`
	// Changes, with AskWatch, says that the job accepts Changes. An agent that does not know this
	// field rejects the request.
	Changes bool `json:"changes,omitempty"`
}

// Values of Ask, Do and Say.
const (
	// AskPeers requests the current Peers.
	AskPeers = "peers"
	// AskWatch requests the Peers and the Notice now and after each change, until the connection
	// ends or the operation is over. With Changes, the first Peers are followed by Changes wherever
	// these are shorter.
	AskWatch = "watch"
	// AskNotice requests the current Notice.
	AskNotice = "notice"
	// DoAcknowledge reports that the job, which has to leave, has saved its state.
	DoAcknowledge = "acknowledge"
	// SayReady reports that the job accepts requests. SayNotReady reports that it accepts none for
	// now. SayDraining reports that it accepts no further requests, because it is about to leave by
	// itself.
	SayReady    = "ready"
	SayNotReady = "not_ready"
	SayDraining = "draining"
)

// Answer is a message of the agent: one of its fields is set.
type Answer struct {
	Peers        *Peers   `json:"peers,omitempty"`
	Changes      *Changes `json:"changes,omitempty"`
	Notice       *Notice  `json:"notice,omitempty"`
	Acknowledged bool     `json:"acknowledged,omitempty"`
	// Said is the report that was accepted.
	Said string `json:"said,omitempty"`
	// Error says what is wrong with a request, or why it cannot be answered now.
	Error string `json:"error,omitempty"`
}

// Peers are the jobs of the operation, the asking job included.
type Peers struct {
	Operation string `json:"operation"`
	// AsOf is when a replica last confirmed the Instances, by the clock of the node.
	AsOf      time.Time  `json:"as_of"`
	Instances []Instance `json:"instances"`
	// Omitted is how many further jobs did not fit into the answer.
	Omitted int `json:"omitted,omitempty"`
	// Over: the operation has ended; nothing will change.
	Over bool `json:"over,omitempty"`
	// Revision numbers the Peers: the next Changes have the next number. It is 0 if no Changes
	// follow.
	Revision uint64 `json:"revision,omitempty"`
}

// Changes are the differences from the Peers sent before on the same connection.
type Changes struct {
	// Revision is the number of the Peers with these changes applied, one more than the previous
	// number. A job that has missed a revision sends a new request.
	Revision uint64    `json:"revision"`
	AsOf     time.Time `json:"as_of"`
	// Instances are new or have changed.
	Instances []Instance `json:"instances,omitempty"`
	// Forgotten are the job ids of instances that are no longer listed.
	Forgotten []string `json:"forgotten,omitempty"`
	Omitted   int      `json:"omitted,omitempty"`
	Over      bool     `json:"over,omitempty"`
}

// instanceChanges applies changes of lists of instances, ordered by task, cookie and job.
var instanceChanges = changes.Kind[Instance]{
	ID: func(i Instance) string { return i.Job },
	Compare: func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Cookie, b.Cookie), cmp.Compare(a.Job, b.Job))
	},
}

// After returns the previous Peers with the changes applied. ok is false if the changes do not have
// the next revision.
func (c *Changes) After(before *Peers) (now *Peers, ok bool) {
	if before == nil || before.Revision == 0 || c.Revision != before.Revision+1 {
		return nil, false
	}
	return &Peers{
		Operation: before.Operation, AsOf: c.AsOf, Omitted: c.Omitted, Over: c.Over, Revision: c.Revision,
		Instances: instanceChanges.Apply(before.Instances, c.Instances, c.Forgotten),
	}, true
}

// Instance is a job that others may want to reach.
type Instance struct {
	Job    string `json:"job"`
	Task   string `json:"task"`
	Cookie int32  `json:"cookie"`
	Node   string `json:"node"`
	Host   string `json:"host"`
	// Ports are the ports that the job has in WEIR_PORT_0, WEIR_PORT_1 and so on.
	Ports []int32 `json:"ports,omitempty"`
	// Self: the instance is the asking job.
	Self bool `json:"self,omitempty"`
	// State is Live, Draining or Gone.
	State string `json:"state"`
	// Ready: the instance is live and accepts requests, according to its own report or to the
	// readiness probe of its task. Without either of these, every live instance is ready.
	Ready bool `json:"ready,omitempty"`
	// Unready is why the instance is not ready, such as the finding of its probe.
	Unready string `json:"unready,omitempty"`
	// Reason is why a draining instance was ordered to leave. Deadline is when it is killed.
	Reason    string     `json:"reason,omitempty"`
	Deadline  *time.Time `json:"deadline,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
}

// States of an Instance.
const (
	// Live: the instance has a node to run on, and need not leave. Ready says whether to send it
	// work.
	Live = "live"
	// Draining: the instance is about to leave, by order or by itself, and finishes its work.
	Draining = "draining"
	// Gone: the instance has ended.
	Gone = "gone"
)

// Address returns host:port of the instance's port number n; empty if it has none.
func (i *Instance) Address(n int) string {
	if n < 0 || n >= len(i.Ports) {
		return ""
	}
	return net.JoinHostPort(i.Host, strconv.Itoa(int(i.Ports[n])))
}

// Notice says whether the job has to leave, and why.
type Notice struct {
	// Leaving: the job has been ordered to leave. If it is false, no other field is set.
	Leaving bool `json:"leaving"`
	// Deadline is when the remaining processes of the job are killed.
	Deadline *time.Time `json:"deadline,omitempty"`
	// Reason is the abort reason of the job if it is killed at the deadline.
	Reason string `json:"reason,omitempty"`
	// Interruption is why the job has to leave: preemption, user_request, node_drain or operation_abort.
	Interruption string `json:"interruption,omitempty"`
	// Preemption is the kind of a preemption. PreemptedFor is the operation that gets the job's
	// resources, if it is known.
	Preemption   string `json:"preemption,omitempty"`
	PreemptedFor string `json:"preempted_for,omitempty"`
	// Message is for people.
	Message string `json:"message,omitempty"`
	// Time is when the job was ordered to leave, by the clock of its node.
	Time *time.Time `json:"time,omitempty"`
}
