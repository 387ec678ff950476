// Package node represents one node, on the leader.
//
// One actor per node holds the session of the node's agent: its lease, the jobs that it reported,
// and the orders that were sent to it. Whenever the committed state or the agent's report changes,
// the actor compares the jobs that the agent should have with those that it has and sends the
// difference. Lost messages are repeated, so no single message has to arrive.
package node

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/raftstore/state"
	"weir/scheduling/resource"
)

// Timing holds the times of a node's lease.
type Timing struct {
	// Heartbeat and Lease are the pace of agents; with Follow, only in a cluster of up to
	// 2,000 nodes (Pace).
	Heartbeat, Lease time.Duration
	Follow           bool
	// Kill is how long an agent may at least take to end its jobs after its lease has expired.
	Kill time.Duration
	// Drift is the maximum difference in the speed of clocks, as a fraction.
	Drift float64
	// Resend is the pause before an order that an agent has not carried out is sent again.
	Resend time.Duration
}

// DefaultTiming returns times for a cluster on one machine or in one building.
func DefaultTiming() Timing {
	return Timing{
		Heartbeat: time.Second,
		Lease:     5 * time.Second,
		Follow:    true,
		Kill:      500 * time.Millisecond,
		Drift:     0.01,
		Resend:    2 * time.Second,
	}
}

// Validate returns an error that names times that are invalid together.
func (t Timing) Validate() error {
	switch {
	case t.Heartbeat < time.Millisecond:
		return fmt.Errorf("heartbeat period %s: must be at least 1ms", t.Heartbeat)
	case t.Lease < 2*t.Heartbeat:
		return fmt.Errorf("lease %s: must be at least twice the heartbeat period of %s", t.Lease, t.Heartbeat)
	case t.Kill <= 0 || t.Drift < 0 || t.Resend <= 0:
		return fmt.Errorf("kill time %s, drift %g, resend pause %s: kill time and resend pause must be more than 0, drift must not be negative", t.Kill, t.Drift, t.Resend)
	}
	return nil
}

// Session is the leader's uncommitted state of an agent. The zero value is for a node that has not
// been heard.
type Session struct {
	timing Timing
	pacer  Pacer
	// pace is what the agent was told last; what any agent may have been told, if it was not told yet.
	pace Pace
	// expires is when the node counts as lost: never earlier than it was, because the agent may not
	// have heard of a shorter lease. silent is when it counts as unheard.
	expires, silent time.Time
	// incarnation is the registered incarnation of the node; 0 if the node has not registered in
	// this term. process is the agent process that registered it.
	incarnation uint64
	process     uint64
	sequence    uint64
	// closed is why the agent accepts no new jobs; empty if it accepts them.
	closed    string
	heard     time.Time
	resources resource.Amounts
	held      map[string]*actorpb.HeldJob
	news      bool
	// files is the state of the agent's file cache; nil if the agent reports none.
	files *actorpb.FileCache
	// credentials are what the agent holds; nil if it has not told, or works without certificates.
	credentials *actorpb.HeldCredentials
	// can is the highest version of the cluster that the registered agent works with.
	can uint32
	// missing are the granted jobs that had ended or vanished in the agent's first report after
	// Doubt, or after the registration; nil if there has been no report yet.
	missing map[string]bool
	// told holds the last orders sent to the agent, by job.
	told map[string]told
}

// told is when an order was sent, and the job's deadline in that order.
type told struct{ at, deadline time.Time }

// NewSession returns the session of a node that is online when a leader is elected, at the time
// `now`. The node has a whole lease to send a heartbeat: the longest that its agent may have.
func NewSession(now time.Time, timing Timing, pacer Pacer) *Session {
	s := &Session{timing: timing, pacer: pacer, held: map[string]*actorpb.HeldJob{}, told: map[string]told{}}
	s.expect(now, pacer.Bound())
	return s
}

// expect gives the node time from now on, by the pace that its agent has.
func (s *Session) expect(now time.Time, pace Pace) {
	s.pace, s.silent = pace, now.Add(pace.silence())
	if expires := now.Add(s.timing.Wait(pace)); expires.After(s.expires) {
		s.expires = expires
	}
}

// Greet decides whether an agent may register. If an agent with this name has been heard recently,
// it refuses agents of another incarnation of the node, and older processes of the same
// incarnation. Such a process can only run on a copy of the state folder. A restarted agent is
// admitted at once.
func (s *Session) Greet(now time.Time, m *actorpb.RegisterAgent) *actorpb.Refused {
	if reason := faultOf(m); reason != "" {
		return &actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: fmt.Sprintf("register node %q: %s", m.GetNode(), reason)}
	}
	inUse := 2*s.pace.Heartbeat - now.Sub(s.heard)
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

// tooOld refuses an agent whose program does not know the version of the cluster; nil if it does.
func tooOld(m *actorpb.RegisterAgent, version uint32) *actorpb.Refused {
	if max(m.GetCan(), versions.Oldest) >= version {
		return nil
	}
	return &actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: "register: " + versions.TooOld(
		fmt.Sprintf("the agent of node %q, weir %s,", m.GetNode(), m.GetVersion()), m.GetCan(), version).Error()}
}

// faultOf names the fault of a registration; empty if there is none.
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

// unregistered answers an agent whose registration was refused by the state. The agent should retry
// only if the refusal is for a stale term, because then another replica leads. All other causes
// need an operator.
func unregistered(refusal *commandpb.Refusal, retry time.Duration) *actorpb.Refused {
	if refusal.GetCode() == state.CodeStaleTerm {
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: refusal.GetMessage(), RetryMillis: retry.Milliseconds()}
	}
	return &actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: refusal.GetMessage()}
}

// description is an agent's description of its node, in a message and in the record.
type description interface {
	GetIncarnation() uint64
	GetResources() *statepb.Resources
	GetTags() []string
	GetVersion() string
	GetCaveat() string
	GetHost() string
	GetFirstPort() int32
	GetPortCount() int32
	GetSharedUser() string
}

// describe returns the part of a node's record that its agent determines.
func describe(d description) *statepb.Node {
	return &statepb.Node{
		Incarnation: d.GetIncarnation(), Resources: statepb.NewResources(d.GetResources().Amounts()), Tags: d.GetTags(),
		Version: d.GetVersion(), Caveat: d.GetCaveat(), Host: d.GetHost(), FirstPort: d.GetFirstPort(), PortCount: d.GetPortCount(),
		SharedUser: d.GetSharedUser(),
	}
}

// Changed reports whether the committed record differs from the agent's description of its node.
func Changed(record *statepb.Node, m *actorpb.RegisterAgent) bool {
	return record.GetState() != statepb.NodeOnline || !proto.Equal(describe(record), describe(m))
}

// Open begins a session, after the registration was committed.
func (s *Session) Open(now time.Time, m *actorpb.RegisterAgent) {
	s.incarnation, s.process = m.GetIncarnation(), m.GetSession()
	s.sequence, s.closed = 0, m.GetClosed()
	s.resources = m.GetResources().Amounts()
	s.told = map[string]told{}
	s.missing = nil
	clear(s.held)
	s.credentials, s.can = m.GetCredentials(), max(m.GetCan(), versions.Oldest)
	s.hear(now)
	s.hold(m.GetJobs())
}

// Heartbeat processes a heartbeat in the leader's term, and returns a refusal if it is not valid. A
// late heartbeat of a registration in an earlier term is refused too, because its sequence number
// is not comparable with those of this term.
//
// A heartbeat with changes alone lists what is new since one that the leader has acknowledged, so it
// brings up to date what any later one has left.
func (s *Session) Heartbeat(now time.Time, term uint64, m *actorpb.Heartbeat) *actorpb.Refused {
	if s.incarnation == 0 || s.incarnation != m.GetIncarnation() || s.process != m.GetSession() || m.GetTerm() != term {
		return &actorpb.Refused{Code: actorpb.CodeNotRegistered, Reason: fmt.Sprintf("heartbeat of node %q: agent not registered in this term; register again", m.GetNode())}
	}
	if m.GetSequence() <= s.sequence {
		return &actorpb.Refused{Code: actorpb.CodeStale, Reason: fmt.Sprintf("heartbeat %d of node %q is out of date: heartbeat %d has already arrived", m.GetSequence(), m.GetNode(), s.sequence)}
	}
	s.sequence = m.GetSequence()
	s.news = !m.GetOnlyChanges() || len(m.GetJobs())+len(m.GetGone()) > 0 || m.GetCredentials() != nil || !proto.Equal(s.files, m.GetFiles())
	s.files = m.GetFiles()
	if told := m.GetCredentials(); told != nil {
		s.credentials = told
	}
	s.hear(now)
	if !m.GetOnlyChanges() {
		clear(s.held)
	}
	for _, id := range m.GetGone() {
		delete(s.held, id)
	}
	s.hold(m.GetJobs())
	return nil
}

func (s *Session) hear(now time.Time) {
	s.heard = now
	s.expect(now, s.pacer.Tell())
}

func (s *Session) hold(jobs []*actorpb.HeldJob) {
	for _, job := range jobs {
		s.held[job.GetJobId()] = job
	}
}

// News reports whether the last heartbeat may have told anything new but that the agent lives.
func (s *Session) News() bool { return s.news }

// Live reports whether the agent is registered in this term and its lease holds.
func (s *Session) Live(now time.Time) bool { return s.incarnation != 0 && now.Before(s.expires) }

// Silent returns when the node counts as unheard unless a heartbeat arrives earlier.
func (s *Session) Silent() time.Time { return s.silent }

// Pace returns the pace for the answer to what the agent said last.
func (s *Session) Pace() Pace { return s.pace }

// Expires returns when the node counts as lost unless a heartbeat arrives earlier.
func (s *Session) Expires() time.Time { return s.expires }

// Knows reports whether the registered agent, if there is one, works with a version of the cluster.
func (s *Session) Knows(version uint32) bool { return s.incarnation == 0 || s.can >= version }

// Close ends the session: the node is lost and has to register again.
func (s *Session) Close() {
	s.incarnation, s.credentials, s.can = 0, nil, 0
	clear(s.held)
	clear(s.told)
}
