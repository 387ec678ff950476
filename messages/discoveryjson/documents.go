// Package discoveryjson is what a job and the agent of its node say to each other on the
// job's discovery socket, and what the agent writes into the job's notice file.
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
	// MaxRequest is the longest line that an agent takes.
	MaxRequest = 4 << 10
	// MaxAnswer is the longest line that an agent writes.
	MaxAnswer = 16 << 20
)

// Request is what a job asks for, does, or says of itself: one of the three.
type Request struct {
	Ask string `json:"ask,omitempty"`
	Do  string `json:"do,omitempty"`
	Say string `json:"say,omitempty"`
	// Changes, with AskWatch, says that the job takes Changes. An agent that does not know
	// of them refuses that.
	Changes bool `json:"changes,omitempty"`
}

// What can be asked, done and said.
const (
	// AskPeers wants the Peers as they are now.
	AskPeers = "peers"
	// AskWatch wants the Peers and the Notice now and after each change, until the
	// connection ends or the operation is over; with Changes, after the first Peers, only
	// what has changed of them.
	AskWatch = "watch"
	// AskNotice wants the Notice as it is now.
	AskNotice = "notice"
	// DoAcknowledge says that a job which has to leave has saved what it needs to.
	DoAcknowledge = "acknowledge"
	// SayReady says that the job takes requests, SayNotReady that it does not for now, and
	// SayDraining that it does not any more, since it is about to leave by itself.
	SayReady    = "ready"
	SayNotReady = "not_ready"
	SayDraining = "draining"
)

// Answer is what the agent says: one of its fields is set.
type Answer struct {
	Peers        *Peers   `json:"peers,omitempty"`
	Changes      *Changes `json:"changes,omitempty"`
	Notice       *Notice  `json:"notice,omitempty"`
	Acknowledged bool     `json:"acknowledged,omitempty"`
	// Said is the word that was taken.
	Said string `json:"said,omitempty"`
	// Error says what is wrong with a request, or why it cannot be answered now.
	Error string `json:"error,omitempty"`
}

// Peers are the jobs of the operation, the one that asks among them.
type Peers struct {
	Operation string `json:"operation"`
	// AsOf is when a replica has last said so, by the clock of the node.
	AsOf      time.Time  `json:"as_of"`
	Instances []Instance `json:"instances"`
	// Omitted is how many more there are than an answer holds.
	Omitted int `json:"omitted,omitempty"`
	// Over: the operation has ended, nothing will change any more.
	Over bool `json:"over,omitempty"`
	// Revision is what Changes count on from; 0: there will be none.
	Revision uint64 `json:"revision,omitempty"`
}

// Changes are what is different from the Peers that were told before, on one connection.
type Changes struct {
	// Revision is that of the Peers with the changes: one more than before. Who has not
	// heard of the one before asks anew.
	Revision uint64    `json:"revision"`
	AsOf     time.Time `json:"as_of"`
	// Instances are new, or other than before.
	Instances []Instance `json:"instances,omitempty"`
	// Forgotten are the jobs of those that are not listed any more.
	Forgotten []string `json:"forgotten,omitempty"`
	Omitted   int      `json:"omitted,omitempty"`
	Over      bool     `json:"over,omitempty"`
}

// instanceChanges are those of instances, by task, cookie and job. Here they are only applied.
var instanceChanges = changes.Kind[Instance]{
	ID: func(i Instance) string { return i.Job },
	Compare: func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Cookie, b.Cookie), cmp.Compare(a.Job, b.Job))
	},
}

// After returns the peers with the changes. ok is false if they are changes of others.
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
	// Ports are those that it finds in WEIR_PORT_0 and on.
	Ports []int32 `json:"ports,omitempty"`
	// Self: it is the one that asks.
	Self bool `json:"self,omitempty"`
	// State is Live, Draining or Gone.
	State string `json:"state"`
	// Ready: it is live and takes requests, by its own word, by the readiness of its task, or
	// because neither says otherwise.
	Ready bool `json:"ready,omitempty"`
	// Unready is why it is not ready, as its probe has found it.
	Unready string `json:"unready,omitempty"`
	// Reason and Deadline say why a draining one leaves, and until when.
	Reason    string     `json:"reason,omitempty"`
	Deadline  *time.Time `json:"deadline,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
}

// States of an Instance.
const (
	// Live: it has a place to run, and need not leave. Ready says whether to send it work.
	Live = "live"
	// Draining: it has been told to go, and ends what it has.
	Draining = "draining"
	// Gone: it has ended.
	Gone = "gone"
)

// Address is host:port of its n-th port; empty: it has none.
func (i *Instance) Address(n int) string {
	if n < 0 || n >= len(i.Ports) {
		return ""
	}
	return net.JoinHostPort(i.Host, strconv.Itoa(int(i.Ports[n])))
}

// Notice says whether the job has to leave, and why.
type Notice struct {
	// Leaving: it has been told to go. Otherwise nothing else is set.
	Leaving bool `json:"leaving"`
	// Deadline is when what is left of it is killed.
	Deadline *time.Time `json:"deadline,omitempty"`
	// Reason is the abort reason that it then has.
	Reason string `json:"reason,omitempty"`
	// Interruption is why it is asked: preemption, user_request, node_drain or
	// operation_abort.
	Interruption string `json:"interruption,omitempty"`
	// Preemption is the kind of a preemption, PreemptedFor the operation that gets what
	// the job leaves, if one does.
	Preemption   string `json:"preemption,omitempty"`
	PreemptedFor string `json:"preempted_for,omitempty"`
	// Message is for people.
	Message string `json:"message,omitempty"`
	// Time is when it was asked, by the clock of its node.
	Time *time.Time `json:"time,omitempty"`
}
