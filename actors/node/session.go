// Package node speaks for one node, on the leader.
//
// One actor a node holds the session of the node's agent: its lease, the jobs
// that it said it has, and what it has been told. Whenever the committed state or
// the agent's word changes, it compares what the agent should have with what it
// has and sends the difference. Nothing depends on a message that arrives once.
package node

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling/resource"
)

// Timing is how long things around a node's lease take.
type Timing struct {
	// Heartbeat is the period that agents are told.
	Heartbeat time.Duration
	// Lease is how long an agent may go on after the heartbeat that was last
	// acknowledged, from when it sent it.
	Lease time.Duration
	// Kill is how long an agent may take to end its jobs after its lease.
	Kill time.Duration
	// Drift is by how much clocks may differ in speed.
	Drift float64
	// Resend is the pause before an agent is told again what it did not do.
	Resend time.Duration
}

// DefaultTiming gives a cluster on one machine or in one building its figures.
func DefaultTiming() Timing {
	return Timing{
		Heartbeat: time.Second,
		Lease:     5 * time.Second,
		Kill:      500 * time.Millisecond,
		Drift:     0.01,
		Resend:    2 * time.Second,
	}
}

// Validate returns an error that names what does not fit together.
func (t Timing) Validate() error {
	switch {
	case t.Heartbeat <= 0:
		return fmt.Errorf("heartbeat period %s: must be more than 0", t.Heartbeat)
	case t.Lease < 2*t.Heartbeat:
		return fmt.Errorf("lease %s: must be at least twice the heartbeat period of %s", t.Lease, t.Heartbeat)
	case t.Kill <= 0 || t.Drift < 0 || t.Resend <= 0:
		return fmt.Errorf("kill time %s, drift %g, resend pause %s: must be more than 0 (drift: not less)", t.Kill, t.Drift, t.Resend)
	}
	return nil
}

// wait is how long the leader waits after a node's last heartbeat before it
// gives the node's jobs to others: longer than the agent's own lease.
func (t Timing) wait() time.Duration {
	return time.Duration(float64(t.Lease)*(1+t.Drift)) + t.Kill
}

// silence is after how long a node counts as unheard: one heartbeat before its agent may end its
// jobs, but not as long as a heartbeat is late by less than half a period. Validate keeps it within
// the lease.
func (t Timing) silence() time.Duration { return max(t.Lease-t.Heartbeat, t.Heartbeat*3/2) }

// Session is what the leader knows of an agent beside the committed state. The
// zero value is a node that has not been heard.
type Session struct {
	timing Timing
	// expires is when the node counts as lost.
	expires time.Time
	// incarnation is the node's life that is registered; 0: none in this term.
	// process is the agent process that registered it.
	incarnation uint64
	process     uint64
	sequence    uint64
	// closed is why the agent takes no new jobs; empty: it takes them.
	closed    string
	heard     time.Time
	resources resource.Amounts
	held      map[string]*actorpb.HeldJob
	// files is what it keeps of the files of jobs; nil: it does not say.
	files *actorpb.FileCache
	// missing are the granted jobs that had ended or vanished when the agent was first heard since
	// the node was doubted, or registered; nil: it has not been heard since.
	missing map[string]bool
	// told is when, and until when to leave, the agent was last told about a job.
	told map[string]told
}

// told is an order that was sent: when, and with which deadline of the job.
type told struct{ at, deadline time.Time }

// NewSession returns the session of a node that a leader found online when it
// was elected at now. The node has a whole lease to be heard.
func NewSession(now time.Time, timing Timing) *Session {
	return &Session{timing: timing, expires: now.Add(timing.wait()), held: map[string]*actorpb.HeldJob{}, told: map[string]told{}}
}

// Greet decides whether an agent may register. While an agent with this name has
// been heard of late, it refuses others: those of another life, and those whose
// process began before, which only a copy of the state folder can have. An agent
// that was started again is let in at once.
func (s *Session) Greet(now time.Time, m *actorpb.RegisterAgent) *actorpb.Refused {
	if reason := faultOf(m); reason != "" {
		return &actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: fmt.Sprintf("register node %q: %s", m.GetNode(), reason)}
	}
	inUse := 2*s.timing.Heartbeat - now.Sub(s.heard)
	if s.incarnation == 0 || inUse <= 0 || s.incarnation == m.GetIncarnation() && s.process <= m.GetSession() {
		return nil
	}
	return &actorpb.Refused{
		Code: actorpb.CodeNameInUse,
		Reason: fmt.Sprintf("register node %q: another agent with this name was active %s ago; give each agent its own name, certificate and state folder",
			m.GetNode(), now.Sub(s.heard).Round(time.Millisecond)),
		RetryMillis: max(inUse.Milliseconds(), 100),
	}
}

// faultOf names what is wrong with a registration; empty: nothing.
func faultOf(m *actorpb.RegisterAgent) string {
	r := m.GetResources().Amounts()
	switch {
	case m.GetNode() == "" || m.GetIncarnation() == 0:
		return "name and incarnation are required"
	case r.Validate() != nil:
		return "resources: " + r.Validate().Error()
	case r.UserSlots == 0:
		return "resources: user_slots is 0, so no job can run; set it to the number of jobs the node may run at once"
	case r.CPU == 0 || r.Memory == 0:
		return "resources: cpu and memory must be more than 0"
	default:
		return ""
	}
}

// unregistered answers an agent whose registration was refused by the state. Only what
// passes by itself is worth another try, after retry: another replica leads by now.
// The rest is for people to mend.
func unregistered(refusal *commandpb.Refusal, retry time.Duration) *actorpb.Refused {
	if refusal.GetCode() == state.CodeStaleTerm {
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: refusal.GetMessage(), RetryMillis: retry.Milliseconds()}
	}
	return &actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: refusal.GetMessage()}
}

// description is what an agent says of its node, and what is recorded of that.
type description interface {
	GetIncarnation() uint64
	GetResources() *statepb.Resources
	GetTags() []string
	GetVersion() string
	GetCaveat() string
	GetHost() string
	GetFirstPort() int32
	GetPortCount() int32
}

// describe returns the part of a node's record that is its agent's to say.
func describe(d description) *statepb.Node {
	return &statepb.Node{
		Incarnation: d.GetIncarnation(), Resources: statepb.NewResources(d.GetResources().Amounts()), Tags: d.GetTags(),
		Version: d.GetVersion(), Caveat: d.GetCaveat(), Host: d.GetHost(), FirstPort: d.GetFirstPort(), PortCount: d.GetPortCount(),
	}
}

// Changed reports whether the committed record differs from what the agent says
// of its node.
func Changed(record *statepb.Node, m *actorpb.RegisterAgent) bool {
	return record.GetState() != statepb.NodeOnline || !proto.Equal(describe(record), describe(m))
}

// Open begins a session: the registration has been committed.
func (s *Session) Open(now time.Time, m *actorpb.RegisterAgent) {
	s.incarnation, s.process = m.GetIncarnation(), m.GetSession()
	s.sequence, s.closed = 0, m.GetClosed()
	s.resources = m.GetResources().Amounts()
	s.told = map[string]told{}
	s.missing = nil
	s.hear(now, m.GetJobs())
}

// Heartbeat takes an agent's word in the leader's term. It answers what cannot be
// taken: also a late heartbeat of a registration in a former term, whose sequence
// tells nothing of this one.
func (s *Session) Heartbeat(now time.Time, term uint64, m *actorpb.Heartbeat) *actorpb.Refused {
	if s.incarnation == 0 || s.incarnation != m.GetIncarnation() || s.process != m.GetSession() || m.GetTerm() != term {
		return &actorpb.Refused{Code: actorpb.CodeNotRegistered, Reason: fmt.Sprintf("heartbeat of node %q: agent not registered in this term; register again", m.GetNode())}
	}
	if m.GetSequence() <= s.sequence {
		return &actorpb.Refused{Code: actorpb.CodeStale, Reason: fmt.Sprintf("heartbeat %d of node %q: already received %d", m.GetSequence(), m.GetNode(), s.sequence)}
	}
	s.sequence = m.GetSequence()
	s.files = m.GetFiles()
	s.hear(now, m.GetJobs())
	return nil
}

func (s *Session) hear(now time.Time, jobs []*actorpb.HeldJob) {
	s.heard = now
	s.expires = now.Add(s.timing.wait())
	clear(s.held)
	for _, job := range jobs {
		s.held[job.GetJobId()] = job
	}
}

// Live reports whether the agent is registered in this term and its lease holds.
func (s *Session) Live(now time.Time) bool { return s.incarnation != 0 && now.Before(s.expires) }

// Silent is when the node counts as unheard unless it is heard before.
func (s *Session) Silent() time.Time { return s.expires.Add(s.timing.silence() - s.timing.wait()) }

// Expires is when the node counts as lost unless it is heard before.
func (s *Session) Expires() time.Time { return s.expires }

// Close ends the session: the node is lost and has to register again.
func (s *Session) Close() {
	s.incarnation = 0
	clear(s.held)
	clear(s.told)
}
