// Package gateway is the one name by which other machines reach a replica's
// actors.
//
// It checks that who speaks may say what is said, refuses what would be too much,
// and passes the rest on: what agents say of themselves to their node actors on
// the leader, what they say of jobs to the controllers of this replica, and
// replicas' proposals to the log.
package gateway

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"weir/cluster/identity"
	"weir/messages/actorpb"
)

// Limits bounds what one replica takes on.
type Limits struct {
	// InFlight is how many requests may wait for their answer. Default 8192: each
	// holds some KiB, and a leader answers within milliseconds.
	InFlight int
	// AgentInFlight is how many of them may be of one agent. Default 256: an agent
	// that asks for the specs of all its jobs at once stays below.
	AgentInFlight int
	// RetryMillis is the hint that goes with a refusal.
	RetryMillis int64
}

// DefaultLimits returns the limits that fit unless measured otherwise.
func DefaultLimits() Limits { return Limits{InFlight: 8192, AgentInFlight: 256, RetryMillis: 200} }

// Validate returns an error that names the limit that cannot work.
func (l Limits) Validate() error {
	if l.InFlight <= 0 || l.AgentInFlight <= 0 || l.RetryMillis <= 0 {
		return fmt.Errorf("gateway limits: in flight %d, of one agent %d, retry hint %d ms: must be more than 0", l.InFlight, l.AgentInFlight, l.RetryMillis)
	}
	return nil
}

// Busy returns the refusal of what does not even get to the gateway's door, because
// too much waits before it.
func Busy(l Limits) *actorpb.Refused {
	return &actorpb.Refused{Code: actorpb.CodeOverloaded, Reason: "too many messages wait for the gateway", RetryMillis: l.RetryMillis}
}

// Doorkeeper counts what is in flight and decides who may come in. It is not safe
// for concurrent use.
type Doorkeeper struct {
	limits  Limits
	total   int
	byAgent map[string]int
}

// NewDoorkeeper returns a doorkeeper with nothing in flight.
func NewDoorkeeper(limits Limits) *Doorkeeper {
	return &Doorkeeper{limits: limits, byAgent: map[string]int{}}
}

// Enter decides about a message. nil: it may come in, and Leave must follow its
// answer.
func (d *Doorkeeper) Enter(from identity.Identity, msg proto.Message) *actorpb.Refused {
	refused := permit(from, msg)
	switch {
	case refused != nil:
	case d.total >= d.limits.InFlight:
		refused = &actorpb.Refused{Code: actorpb.CodeOverloaded, RetryMillis: d.limits.RetryMillis,
			Reason: fmt.Sprintf("%d requests wait for their answer already, the limit of a replica", d.total)}
	case from.Role == identity.Agent && d.byAgent[from.Name] >= d.limits.AgentInFlight:
		refused = &actorpb.Refused{Code: actorpb.CodeOverloaded, RetryMillis: d.limits.RetryMillis,
			Reason: fmt.Sprintf("%d requests of agent %q wait for their answer already, the limit of one agent", d.byAgent[from.Name], from.Name)}
	}
	if refused != nil {
		return refused
	}
	d.total++
	if from.Role == identity.Agent {
		d.byAgent[from.Name]++
	}
	return nil
}

// Leave says that a message has been answered.
func (d *Doorkeeper) Leave(from identity.Identity) {
	d.total--
	if from.Role != identity.Agent {
		return
	}
	if d.byAgent[from.Name]--; d.byAgent[from.Name] == 0 {
		delete(d.byAgent, from.Name)
	}
}

// InFlight is how many requests wait for their answer.
func (d *Doorkeeper) InFlight() int { return d.total }

// permit checks roles, and that an agent speaks for its own node only. nil: it
// may.
func permit(from identity.Identity, msg proto.Message) *actorpb.Refused {
	node, ofAgent := nodeOf(msg)
	switch {
	case from.Role == identity.Agent && !ofAgent:
		return &actorpb.Refused{Code: actorpb.CodeWrongIdentity, Reason: fmt.Sprintf("%s is not for agents", name(msg))}
	case from.Role == identity.Agent && node != from.Name && !aboutNobody(msg):
		return &actorpb.Refused{Code: actorpb.CodeWrongIdentity,
			Reason: fmt.Sprintf("%s: the certificate is of node %q, it cannot speak for node %q", name(msg), from.Name, node)}
	case from.Role == identity.Replica && !ofReplica(msg):
		return &actorpb.Refused{Code: actorpb.CodeWrongIdentity, Reason: fmt.Sprintf("%s is not for replicas", name(msg))}
	case from.Role != identity.Agent && from.Role != identity.Replica:
		return &actorpb.Refused{Code: actorpb.CodeWrongIdentity, Reason: fmt.Sprintf("a certificate with role %s reaches the API only", from.Role)}
	default:
		return nil
	}
}

// nodeOf returns the node that a message of an agent speaks for; ofAgent is false
// for what agents do not say.
func nodeOf(msg proto.Message) (node string, ofAgent bool) {
	switch m := msg.(type) {
	case *actorpb.RegisterAgent:
		return m.GetNode(), true
	case *actorpb.Heartbeat:
		return m.GetNode(), true
	case *actorpb.JobSpecRequest:
		return m.GetNode(), true
	case *actorpb.JobEnded:
		return m.GetNode(), true
	case *actorpb.FindController:
		return "", true
	default:
		return "", false
	}
}

// aboutNobody reports whether a message of an agent speaks for no node.
func aboutNobody(msg proto.Message) bool {
	_, ok := msg.(*actorpb.FindController)
	return ok
}

func ofReplica(msg proto.Message) bool {
	switch msg.(type) {
	case *actorpb.Propose, *actorpb.ReadIndexRequest, *actorpb.SchedulerViewRequest, *actorpb.PoolHistoryRequest, *actorpb.JobLiveRequest, *actorpb.ReadOutput:
		return true
	default:
		return false
	}
}

func name(msg proto.Message) string { return string(msg.ProtoReflect().Descriptor().Name()) }
