package agent

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/scheduling"
)

// Ask is a question to a replica.
type Ask struct {
	// Number tells which question an answer belongs to.
	Number uint64
	To     Replica
	// Register: the question is a registration. Otherwise it is a heartbeat, with Sequence and
	// Term.
	Register bool
	Sequence uint64
	Term     uint64
	Timeout  time.Duration
}

// Outcome is what an answer means to the agent.
type Outcome struct {
	// Lease is the length of the lease that the leader granted, counted from when the question was
	// sent; 0: none.
	Lease time.Duration
	// Registered: the leader has registered the agent.
	Registered bool
	// Learned: the roster has changed.
	Learned bool
	// Trouble is the problem to log; nil: none. Severe: an operator has to fix it.
	Trouble error
	Severe  bool
	// Stale is the token of a leader that was rejected as stale; zero: none was. From is that
	// leader's id.
	Stale scheduling.Token
	From  string
}

// Session finds the leader and keeps in touch with it. At most one question is
// open at a time.
type Session struct {
	timing Timing
	roster *Roster
	fence  *Fence

	// leader is the replica that registered the agent; its ID is empty if none has.
	leader   Replica
	term     uint64
	sequence uint64
	period   time.Duration
	lease    time.Duration
	// first is when the first heartbeat is due after the registration was sent.
	first time.Duration
	// urgent: there is news for the leader. anew: the registration data has changed since the
	// last registration was sent.
	urgent, anew bool

	// open is the question that has no answer yet; asked is when the last question was sent.
	open  *Ask
	asked time.Time
	asks  uint64
	// notBefore is when the next question may be sent.
	notBefore time.Time

	// While there is no leader: hint is the replica to ask next, if set; otherwise turn is the
	// index in the roster of the replica to ask next. tries counts questions since the last pause.
	hint  string
	turn  int
	tries int
	pause backoff
	// busy is the pause before a leader is asked again that was too busy.
	busy backoff
}

// NewSession returns a session without a leader. chance returns numbers in [0, 1), which spread
// the questions of many agents.
func NewSession(timing Timing, roster *Roster, fence *Fence, chance func() float64) *Session {
	return &Session{
		timing: timing, roster: roster, fence: fence,
		pause: backoff{min: timing.SeekMin, max: timing.SeekMax, chance: chance},
		busy:  backoff{max: timing.SeekMax, chance: chance},
		turn:  int(chance() * float64(len(roster.All()))),
	}
}

// Hint makes the next registration go to a replica, if the roster has it.
func (s *Session) Hint(replica string) { s.hint = replica }

// Urge makes the next heartbeat due without waiting for the period, because there is news for
// the leader.
func (s *Session) Urge() { s.urgent = true }

// Anew makes the agent register again before its next heartbeat, because its registration data
// has changed, even if a registration is already on its way. The lease goes on.
func (s *Session) Anew() { s.anew = true }

// Registered reports whether a leader has registered the agent.
func (s *Session) Registered() bool { return s.leader.ID != "" }

// Next returns the question to send now. If it is nil, none is due before wake; a zero wake
// means that an answer must come first.
func (s *Session) Next(now time.Time) (ask *Ask, wake time.Time) {
	if s.open != nil {
		return nil, time.Time{}
	}
	if s.anew && s.Registered() {
		s.leader, s.hint, s.tries = Replica{}, s.leader.ID, 0
	}
	if due := s.due(); now.Before(due) {
		return nil, due
	}
	s.asks++
	s.asked = now
	s.urgent = false
	if s.Registered() {
		s.sequence++
		s.open = &Ask{Number: s.asks, To: s.leader, Sequence: s.sequence, Term: s.term, Timeout: max(s.timing.HeartbeatTimeout, s.period)}
	} else {
		s.anew = false
		s.open = &Ask{Number: s.asks, To: s.candidate(), Register: true, Timeout: max(s.timing.RegisterTimeout, s.period)}
	}
	return s.open, time.Time{}
}

func (s *Session) due() time.Time {
	due := s.notBefore
	if !s.Registered() {
		return due
	}
	next := s.asked.Add(s.period)
	if s.sequence == 0 {
		next = s.asked.Add(s.first)
	}
	if s.urgent {
		next = s.asked.Add(s.timing.Gap(s.period))
	}
	if due.Before(next) {
		due = next
	}
	return due
}

// candidate returns the replica to ask for a registration.
func (s *Session) candidate() Replica {
	s.tries++
	hinted := s.roster.Find(s.hint)
	s.hint = ""
	if hinted.Address != "" {
		return hinted
	}
	all := s.roster.All()
	replica := all[s.turn%len(all)]
	s.turn = (s.turn + 1) % len(all)
	return replica
}

// Answer handles the answer to a question, or the error that came instead. Answers to anything but
// the open question are ignored.
func (s *Session) Answer(now time.Time, number uint64, reply proto.Message, err error) Outcome {
	if s.open == nil || s.open.Number != number {
		return Outcome{}
	}
	ask := s.open
	s.open = nil
	switch m := reply.(type) {
	case *actorpb.AgentRegistered:
		if ask.Register {
			return s.registered(now, ask, m)
		}
	case *actorpb.HeartbeatAck:
		if !ask.Register {
			return s.acknowledged(now, ask, m)
		}
	case *actorpb.Redirect:
		return s.redirected(now, ask, m)
	case *actorpb.Refused:
		return s.refused(now, ask, m)
	}
	if err == nil {
		err = fmt.Errorf("unexpected answer %T", reply)
	}
	return s.seek(now, s.trouble(ask, err))
}

func (s *Session) registered(now time.Time, ask *Ask, m *actorpb.AgentRegistered) Outcome {
	lease := millis(m.GetLeaseMillis())
	period := millis(m.GetHeartbeatMillis())
	if period <= 0 || lease <= period {
		return s.seek(now, s.trouble(ask, fmt.Errorf("lease %v is not longer than the heartbeat period, %v", lease, period)))
	}
	if err := s.fence.Term(m.GetTerm()); err != nil {
		return s.stale(now, ask, m.GetTerm(), err)
	}
	s.leader, s.term, s.sequence = ask.To, m.GetTerm(), 0
	s.pace(period, lease)
	// Agents of a large cluster that have registered together are not to send all their heartbeats together.
	s.first = s.period - time.Duration(s.pause.chance()*float64(min(s.spread(), s.period/2)))
	s.tries, s.hint = 0, ""
	s.pause.reset()
	s.busy.reset()
	return Outcome{Lease: lease, Registered: true, Learned: s.roster.Learn(m.GetReplicas())}
}

func (s *Session) acknowledged(now time.Time, ask *Ask, m *actorpb.HeartbeatAck) Outcome {
	switch {
	case m.GetSequence() != ask.Sequence:
		return s.seek(now, s.trouble(ask, fmt.Errorf("acknowledgement of heartbeat %d, want %d", m.GetSequence(), ask.Sequence)))
	case m.GetTerm() != s.term:
		return s.seek(now, s.trouble(ask, fmt.Errorf("acknowledgement from term %d, but registered in term %d", m.GetTerm(), s.term)))
	}
	// A plan of a later leader may have arrived since.
	if err := s.fence.Term(s.term); err != nil {
		return s.stale(now, ask, s.term, err)
	}
	if lease, period := millis(m.GetLeaseMillis()), millis(m.GetHeartbeatMillis()); period > 0 && lease > period {
		s.pace(period, lease)
	}
	s.busy.reset()
	return Outcome{Lease: s.lease, Learned: s.roster.Learn(m.GetReplicas())}
}

// stale leaves a leader whose term is over.
func (s *Session) stale(now time.Time, ask *Ask, term uint64, err error) Outcome {
	outcome := s.seek(now, s.trouble(ask, err))
	outcome.Stale, outcome.From = scheduling.Token{Term: term}, ask.To.ID
	return outcome
}

// redirected follows a replica's redirect to the leader.
func (s *Session) redirected(now time.Time, ask *Ask, m *actorpb.Redirect) Outcome {
	learned := s.roster.Learn(m.GetReplicas())
	leader := m.GetLeader()
	if leader.GetId() == "" || leader.GetId() == ask.To.ID {
		outcome := s.seek(now, s.trouble(ask, errors.New("it is not the leader, and knows of none")))
		outcome.Learned = learned
		return outcome
	}
	if leader.GetAddress() != "" && s.roster.Find(leader.GetId()).Address != leader.GetAddress() {
		known := []*actorpb.Replica{leader}
		for _, r := range s.roster.All() {
			known = append(known, &actorpb.Replica{Id: r.ID, Address: r.Address})
		}
		learned = s.roster.Learn(known) || learned
	}
	registered := s.Registered()
	outcome := s.seek(now, nil)
	s.hint = leader.GetId()
	if soon := now.Add(s.timing.SeekMin); !registered && soon.Before(s.notBefore) {
		s.notBefore = soon
	}
	outcome.Learned = learned
	return outcome
}

func (s *Session) refused(now time.Time, ask *Ask, m *actorpb.Refused) Outcome {
	// Wait no longer than while seeking a leader: the cause may pass at any moment, when a
	// majority is back or a lease has expired.
	retry := min(millis(m.GetRetryMillis()), s.timing.SeekMax)
	err := fmt.Errorf("%s: %s", m.GetCode(), m.GetReason())
	busy := m.GetCode() == actorpb.CodeOverloaded || m.GetCode() == actorpb.CodeUnavailable
	if busy && !ask.Register {
		s.notBefore, s.urgent = now.Add(s.busy.beyond(max(retry, s.timing.SeekMin))), true
		return Outcome{Trouble: s.trouble(ask, err)}
	}
	outcome := s.seek(now, s.trouble(ask, err))
	switch m.GetCode() {
	case actorpb.CodeNotRegistered, actorpb.CodeStale:
		s.hint = ask.To.ID
	case actorpb.CodeOverloaded, actorpb.CodeUnavailable:
		if retry > 0 {
			// The replica leads, and gives a retry time, perhaps the same one to many agents.
			s.hint, s.notBefore = ask.To.ID, now.Add(s.busy.beyond(retry))
		}
	case actorpb.CodeNameInUse:
		s.hint, s.notBefore, outcome.Severe = ask.To.ID, now.Add(cmp.Or(retry, s.timing.SeekMax)), true
	case actorpb.CodeWrongIdentity, actorpb.CodeBadRequest:
		// A retry time means that the leader expects the cause to pass; another may lead by
		// then.
		s.notBefore = now.Add(s.timing.SeekMax)
		if retry == 0 {
			s.notBefore, outcome.Severe = now.Add(s.timing.SlowRetry), true
		}
	}
	return outcome
}

// seek drops the leader, if there is one, and directs the next question to another replica: at
// once, or after a pause if each has been asked or the cluster is large.
func (s *Session) seek(now time.Time, trouble error) Outcome {
	s.notBefore = now
	if s.Registered() {
		s.turn = s.roster.index(s.leader.ID) + 1
		s.leader = Replica{}
		s.tries = 0
		s.notBefore = now.Add(time.Duration(s.pause.chance() * float64(s.spread())))
	}
	s.hint = ""
	if s.tries >= len(s.roster.All()) {
		s.tries = 0
		s.notBefore = now.Add(s.pause.pause())
	}
	return Outcome{Trouble: trouble}
}

// pace takes over the pace that a leader has told. Agents of a large cluster do not look for the next leader often: while
// there is none, each of them would ask every replica time and again, and all would find it in the same moment.
func (s *Session) pace(period, lease time.Duration) {
	s.period, s.lease = period, lease
	s.pause.min, s.pause.max = max(s.timing.SeekMin, s.spread()/8), max(s.timing.SeekMax, s.spread()/4)
}

// spread is the longest pause of an agent that has lost its leader. All agents of a large cluster, which is one with rare
// heartbeats, lose it together, and the next leader has to hear them all. Their leases leave them time for that.
func (s *Session) spread() time.Duration {
	return max(0, min(2*(s.period-time.Second), (s.lease-2*s.period)/2))
}

func (s *Session) trouble(ask *Ask, err error) error {
	if ask.Register {
		return fmt.Errorf("register with %s: %w", ask.To.ID, err)
	}
	return fmt.Errorf("heartbeat %d to %s: %w", ask.Sequence, ask.To.ID, err)
}
