// Package gateway is the entry point through which other machines reach a replica's actors.
//
// It checks that the sender may send the message, refuses messages beyond its limits, and passes
// the rest on: an agent's messages about its node go to the node's actor on the leader, its
// messages about jobs to the controllers on this replica, and the proposals of replicas to the log.
package gateway

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"weir/cluster/identity"
	"weir/messages/actorpb"
)

// Limits bounds the load that one replica accepts.
type Limits struct {
	// InFlight is how many requests may wait for their answer, and beside them how many registrations and
	// heartbeats: when all jobs ask at once, their nodes keep their leases. Default 8192: each
	// holds some KiB, and a leader answers within milliseconds.
	InFlight int
	// AgentInFlight is how many of the requests in flight may come from one agent. Default 256,
	// which is enough for an agent that requests the specs of all its jobs at once.
	AgentInFlight int
	// Waiting is how many requests for changes of instances, and for output of commands that people run, which
	// wait for seconds, may be open.
	// Default 16384.
	Waiting int
	// AgentWaiting is how many of the waiting requests may come from one agent. Default 256: an
	// agent sends one for each operation whose jobs use discovery.
	AgentWaiting int
	// RetryMillis is the time after which a refused sender is asked to retry.
	RetryMillis int64
}

// DefaultLimits returns sensible limits; change them only if measurements call for it.
func DefaultLimits() Limits {
	return Limits{InFlight: 8192, AgentInFlight: 256, Waiting: 16384, AgentWaiting: 256, RetryMillis: 200}
}

// Validate returns an error that names an invalid limit.
func (l Limits) Validate() error {
	if l.InFlight <= 0 || l.AgentInFlight <= 0 || l.Waiting <= 0 || l.AgentWaiting <= 0 || l.RetryMillis <= 0 {
		return fmt.Errorf("gateway limits: in flight %d, of one agent %d, waiting %d, of one agent %d, retry hint %d ms: all must be more than 0",
			l.InFlight, l.AgentInFlight, l.Waiting, l.AgentWaiting, l.RetryMillis)
	}
	return nil
}

// Busy returns the refusal of messages that do not reach the gateway, because its queue is full.
func Busy(l Limits) *actorpb.Refused {
	return &actorpb.Refused{Code: actorpb.CodeOverloaded, Reason: "too many messages waiting for the gateway", RetryMillis: l.RetryMillis}
}

// Doorkeeper counts the requests in flight and decides which messages are admitted. It is not safe
// for concurrent use.
type Doorkeeper struct {
	limits Limits
	// `leasing` counts registrations and heartbeats, `waiting` requests that wait for changes
	// of instances or for output of commands, `leading` all others of replicas, and `asking` all
	// others of agents. However many jobs agents start and end, followers can commit and read.
	leasing, waiting, leading, asking *crowd
}

// crowd counts the requests of a kind that have no answer yet.
type crowd struct {
	total          int
	byAgent        map[string]int
	limit, ofAgent int
}

// NewDoorkeeper returns a doorkeeper with nothing in flight.
func NewDoorkeeper(limits Limits) *Doorkeeper {
	return &Doorkeeper{
		limits:  limits,
		leasing: &crowd{byAgent: map[string]int{}, limit: limits.InFlight, ofAgent: limits.AgentInFlight},
		leading: &crowd{limit: limits.InFlight},
		asking:  &crowd{byAgent: map[string]int{}, limit: limits.InFlight, ofAgent: limits.AgentInFlight},
		waiting: &crowd{byAgent: map[string]int{}, limit: limits.Waiting, ofAgent: limits.AgentWaiting},
	}
}

// crowdOf returns the crowd in which a message is counted.
func (d *Doorkeeper) crowdOf(from identity.Identity, msg proto.Message) *crowd {
	switch msg.(type) {
	case *actorpb.RegisterAgent, *actorpb.Heartbeat:
		return d.leasing
	case *actorpb.InstancesRequest, *actorpb.Exec:
		return d.waiting
	}
	if from.Role == identity.Replica {
		return d.leading
	}
	return d.asking
}

// Enter returns nil if a message is admitted; Leave must be called when that message has been
// answered. Otherwise it returns the refusal.
func (d *Doorkeeper) Enter(from identity.Identity, msg proto.Message) *actorpb.Refused {
	refused, c := permit(from, msg), d.crowdOf(from, msg)
	switch {
	case refused != nil:
	case c.total >= c.limit:
		refused = &actorpb.Refused{Code: actorpb.CodeOverloaded, RetryMillis: d.limits.RetryMillis,
			Reason: fmt.Sprintf("%d requests already in flight, the limit of a replica", c.total)}
	case from.Role == identity.Agent && c.byAgent[from.Name] >= c.ofAgent:
		refused = &actorpb.Refused{Code: actorpb.CodeOverloaded, RetryMillis: d.limits.RetryMillis,
			Reason: fmt.Sprintf("%d requests of agent %q already in flight, the limit of one agent", c.byAgent[from.Name], from.Name)}
	}
	if refused != nil {
		return refused
	}
	c.total++
	if from.Role == identity.Agent {
		c.byAgent[from.Name]++
	}
	return nil
}

// Leave records that an admitted message has been answered.
func (d *Doorkeeper) Leave(from identity.Identity, msg proto.Message) {
	c := d.crowdOf(from, msg)
	c.total--
	if from.Role != identity.Agent {
		return
	}
	if c.byAgent[from.Name]--; c.byAgent[from.Name] == 0 {
		delete(c.byAgent, from.Name)
	}
}

// InFlight returns how many requests wait for their answer, without those that are `waiting`.
func (d *Doorkeeper) InFlight() int { return d.asking.total + d.leading.total + d.leasing.total }

// permit checks roles, and that an agent sends messages only for its own node; nil means that the
// message is permitted.
func permit(from identity.Identity, msg proto.Message) *actorpb.Refused {
	var sender identity.Role
	node := from.Name
	switch m := msg.(type) {
	case *actorpb.RegisterAgent, *actorpb.Heartbeat, *actorpb.JobSpecRequest, *actorpb.JobEnded, *actorpb.TellWord:
		sender, node = identity.Agent, m.(interface{ GetNode() string }).GetNode()
	case *actorpb.FindController, *actorpb.InstancesRequest:
		sender = identity.Agent
	case *actorpb.Propose, *actorpb.ReadIndexRequest, *actorpb.SchedulerViewRequest, *actorpb.PoolHistoryRequest, *actorpb.JobLiveRequest, *actorpb.ReadOutput, *actorpb.ReadFile, *actorpb.Exec:
		sender = identity.Replica
	}
	var reason string
	switch {
	case from.Role != identity.Agent && from.Role != identity.Replica:
		reason = fmt.Sprintf("certificates with role %s can only use the API", from.Role)
	case from.Role != sender:
		reason = fmt.Sprintf("%s is not for %ss", name(msg), from.Role)
	case node != from.Name:
		reason = fmt.Sprintf("%s: certificate of node %q cannot act for node %q", name(msg), from.Name, node)
	default:
		return nil
	}
	return &actorpb.Refused{Code: actorpb.CodeWrongIdentity, Reason: reason}
}

func name(msg proto.Message) string { return string(msg.ProtoReflect().Descriptor().Name()) }
