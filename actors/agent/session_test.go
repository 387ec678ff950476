package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/scheduling"
)

var epoch = time.Unix(1_000_000, 0)

func replicas(ids ...string) []Replica {
	var all []Replica
	for _, id := range ids {
		all = append(all, Replica{ID: id, Address: id + ":1"})
	}
	return all
}

func never0() float64 { return 0 }

func newTestSession(ids ...string) (*Session, *Roster, *Fence) {
	roster, fence := NewRoster(replicas(ids...), nil), NewFence(scheduling.Token{})
	return NewSession(DefaultTiming(), roster, fence, never0), roster, fence
}

func registered(term uint64) *actorpb.AgentRegistered {
	return &actorpb.AgentRegistered{Term: term, LeaseMillis: 5000, HeartbeatMillis: 1000}
}

func (a *Ask) String() string {
	if a.Register {
		return "register " + a.To.ID
	}
	return fmt.Sprintf("beat %d %s", a.Sequence, a.To.ID)
}

// step moves the clock to the next question and answers it.
type step struct {
	// after is how long the question comes after the last answer.
	after time.Duration
	want  string
	// anew: while the question is open, what registrations say changes.
	anew  bool
	reply proto.Message
	err   error
}

// errGone is what a question to a replica ends with that cannot be reached.
var errGone = errors.New("peer gone")

func refused(code string, retry int64) proto.Message {
	return &actorpb.Refused{Code: code, Reason: "because", RetryMillis: retry}
}

// acked is the acknowledgement of a heartbeat by the leader of term 3.
func acked(sequence uint64) proto.Message {
	return &actorpb.HeartbeatAck{Sequence: sequence, Term: 3}
}

// playSteps has a new session of three replicas take these steps, once for each name.
func playSteps(t *testing.T, tests map[string][]step) {
	t.Helper()
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			s, _, _ := newTestSession("r1", "r2", "r3")
			now := epoch
			for i, step := range steps {
				if step.after > 0 {
					if ask, wake := s.Next(now.Add(step.after - time.Millisecond)); ask != nil || !wake.Equal(now.Add(step.after)) {
						t.Fatalf("step %d: %v and wake in %v, want nothing before %v", i, ask, wake.Sub(now), step.after)
					}
				}
				now = now.Add(step.after)
				ask, _ := s.Next(now)
				if ask == nil || ask.String() != step.want {
					t.Fatalf("step %d: got %v, want %s", i, ask, step.want)
				}
				if again, wake := s.Next(now.Add(time.Hour)); again != nil || !wake.IsZero() {
					t.Fatalf("step %d: a second question is open: %v", i, again)
				}
				if step.anew {
					s.Anew()
				}
				s.Answer(now, ask.Number, step.reply, step.err)
			}
		})
	}
}

// TestSessionBeginsWithAHint, and goes on with the others if it fails.
func TestSessionBeginsWithAHint(t *testing.T) {
	s, _, _ := newTestSession("r1", "r2", "r3")
	s.Hint("r2")
	for _, want := range []string{"register r2", "register r1", "register r2"} {
		ask, _ := s.Next(epoch)
		if ask == nil || ask.String() != want {
			t.Fatalf("got %v, want %s", ask, want)
		}
		s.Answer(epoch, ask.Number, nil, errGone)
	}
}

// TestSessionTakesThePaceThatItIsTold with the answer to a heartbeat: the lease of that answer and the time of the next heartbeat
// follow it, and how long that waits for its answer.
func TestSessionTakesThePaceThatItIsTold(t *testing.T) {
	s, _, _ := newTestSession("r1")
	now := epoch
	ask, _ := s.Next(now)
	s.Answer(now, ask.Number, registered(3), nil)
	wasPeriod := time.Second
	for i, step := range []struct {
		lease, heartbeat      int64
		wantLease, wantPeriod time.Duration
	}{
		{0, 0, 5 * time.Second, time.Second},
		{25000, 5000, 25 * time.Second, 5 * time.Second},
		{0, 0, 25 * time.Second, 5 * time.Second},
		{5000, 1000, 5 * time.Second, time.Second},
		{1000, 2000, 5 * time.Second, time.Second},
	} {
		_, now = s.Next(now)
		ask, _ := s.Next(now)
		outcome := s.Answer(now, ask.Number, &actorpb.HeartbeatAck{
			Sequence: ask.Sequence, Term: 3, LeaseMillis: step.lease, HeartbeatMillis: step.heartbeat,
		}, nil)
		if want := max(time.Second, wasPeriod); ask.Timeout != want {
			t.Errorf("heartbeat %d waits for %v, want %v", i+1, ask.Timeout, want)
		}
		wasPeriod = step.wantPeriod
		if _, next := s.Next(now); outcome.Lease != step.wantLease || next.Sub(now) != step.wantPeriod {
			t.Errorf("answer %d: a lease of %v, the next heartbeat after %v; want %v, %v", i+1, outcome.Lease, next.Sub(now), step.wantLease, step.wantPeriod)
		}
	}
}

// TestSessionIsSentOn has replicas that send the agent on, or do not answer.
func TestSessionIsSentOn(t *testing.T) {
	playSteps(t, map[string][]step{
		"replicas are asked in turn, then after growing pauses": {
			{want: "register r1", err: errGone},
			{want: "register r2", err: errGone},
			{want: "register r3", err: errGone},
			{after: 50 * time.Millisecond, want: "register r1", err: errGone},
			{want: "register r2", err: errGone},
			{want: "register r3", err: errGone},
			{after: 100 * time.Millisecond, want: "register r1"},
		},
		"a redirect is followed at once": {
			{want: "register r1", reply: &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r3"}}},
			{want: "register r3", reply: registered(3)},
			{after: time.Second, want: "beat 1 r3", reply: acked(1)},
			{after: time.Second, want: "beat 2 r3"},
		},
		"a redirect to a replica that was not known": {
			{want: "register r1", reply: &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r9", Address: "h:9"}}},
			{want: "register r9"},
		},
		"a redirect to an address that nobody knows is not followed": {
			{want: "register r1", reply: &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r9"}}},
			{want: "register r2"},
		},
		"replicas that point to each other do not keep the agent running": {
			{want: "register r1", reply: &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r2"}}},
			{want: "register r2", reply: &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r1"}}},
			{want: "register r1", reply: &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r2"}}},
			{after: 50 * time.Millisecond, want: "register r2"},
		},
		"a replica that knows no leader is not asked again at once": {
			{want: "register r1", reply: &actorpb.Redirect{}},
			{want: "register r2", reply: &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r2"}}},
			{want: "register r3"},
		},
		"a leader that was lost is asked last": {
			{want: "register r1", reply: registered(3)},
			{after: time.Second, want: "beat 1 r1", err: errGone},
			{want: "register r2", err: errGone},
			{want: "register r3", err: errGone},
			{want: "register r1", err: errGone},
			{after: 50 * time.Millisecond, want: "register r2"},
		},
		"a leader that has forgotten the agent gets a registration": {
			{want: "register r1", reply: registered(3)},
			{after: time.Second, want: "beat 1 r1", reply: refused("not_registered", 0)},
			{want: "register r1", reply: registered(3)},
			{after: time.Second, want: "beat 1 r1", reply: refused("stale", 0)},
			{want: "register r1"},
		},
		"a leader that leads no more sends the agent on": {
			{want: "register r1", reply: registered(3)},
			{after: time.Second, want: "beat 1 r1", reply: &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r3"}}},
			{want: "register r3"},
		},
	})
}

// TestSessionIsRefused has leaders that take no registration or no heartbeat for now.
func TestSessionIsRefused(t *testing.T) {
	playSteps(t, map[string][]step{
		"a busy leader is given time": {
			{want: "register r1", reply: refused("unavailable", 50)},
			{after: 50 * time.Millisecond, want: "register r1", reply: registered(3)},
			{after: time.Second, want: "beat 1 r1", reply: refused("overloaded", 200)},
			{after: 200 * time.Millisecond, want: "beat 2 r1", reply: acked(2)},
		},
		"a name in use is tried again and again": {
			{want: "register r1", reply: refused("name_in_use", 1500)},
			{after: time.Second, want: "register r1", reply: refused("name_in_use", 100)},
			{after: 100 * time.Millisecond, want: "register r1", reply: refused("name_in_use", 0)},
			{after: time.Second, want: "register r1"},
		},
		"no leader makes the agent wait for long": {
			{want: "register r1", reply: refused("unavailable", 60_000)},
			{after: time.Second, want: "register r1", reply: refused("overloaded", 60_000)},
			{after: time.Second, want: "register r1", reply: registered(3)},
			{after: time.Second, want: "beat 1 r1", reply: refused("overloaded", 60_000)},
			{after: time.Second, want: "beat 2 r1"},
		},
		"a leader without a majority is asked until it has one": {
			{want: "register r1", reply: refused("unavailable", 0)},
			{want: "register r2", reply: refused("unavailable", 0)},
			{want: "register r3", reply: refused("unavailable", 0)},
			{after: 50 * time.Millisecond, want: "register r1", reply: refused("unavailable", 200)},
			{after: 200 * time.Millisecond, want: "register r1", reply: registered(3)},
		},
		"a refusal that passes, of a leader that another follows, is no fault of people": {
			{want: "register r1", reply: refused("bad_request", 200)},
			{after: time.Second, want: "register r2", reply: registered(3)},
		},
		"what people have to mend is tried slowly": {
			{want: "register r1", reply: refused("bad_request", 0)},
			{after: 10 * time.Second, want: "register r2", reply: refused("wrong_identity", 0)},
			{after: 10 * time.Second, want: "register r3"},
		},
	})
}

// TestSessionLeavesALeader has answers that end a session.
func TestSessionLeavesALeader(t *testing.T) {
	playSteps(t, map[string][]step{
		"the acknowledgement of another heartbeat ends the session": {
			{want: "register r1", reply: registered(3)},
			{after: time.Second, want: "beat 1 r1", reply: acked(7)},
			{want: "register r2"},
		},
		"the acknowledgement of another term ends the session": {
			{want: "register r1", reply: registered(4)},
			{after: time.Second, want: "beat 1 r1", reply: acked(1)},
			{want: "register r2"},
		},
		"a leader of a lower term is left": {
			{want: "register r1", reply: registered(4)},
			{after: time.Second, want: "beat 1 r1", err: errGone},
			{want: "register r2", reply: registered(3)},
			{want: "register r3", reply: registered(4)},
			{after: time.Second, want: "beat 1 r3"},
		},
		"a leader whose lease is shorter than its period is left": {
			{want: "register r1", reply: &actorpb.AgentRegistered{Term: 4, LeaseMillis: 10, HeartbeatMillis: 1000}},
			{want: "register r2"},
		},
		"an answer that does not fit the question": {
			{want: "register r1", reply: &actorpb.HeartbeatAck{}},
			{want: "register r2", reply: &actorpb.NodePlan{}},
			{want: "register r3"},
		},
	})
}

// TestSessionTellsWhatChanges has registrations whose content changes while a question is open.
func TestSessionTellsWhatChanges(t *testing.T) {
	playSteps(t, map[string][]step{
		"what changes while a registration is open is told at once, and once": {
			{want: "register r1", anew: true, reply: registered(3)},
			{want: "register r1", reply: registered(3)},
			{after: time.Second, want: "beat 1 r1"},
		},
		"what changes and changes back while registrations are open is told": {
			{want: "register r1", anew: true, reply: registered(3)},
			{want: "register r1", anew: true, reply: registered(3)},
			{want: "register r1", reply: registered(3)},
			{after: time.Second, want: "beat 1 r1"},
		},
		"what changes while a heartbeat is open is told at once": {
			{want: "register r1", reply: registered(3)},
			{after: time.Second, want: "beat 1 r1", anew: true, reply: acked(1)},
			{want: "register r1", reply: registered(3)},
			{after: time.Second, want: "beat 1 r1"},
		},
		"what changes is told with the next registration, whoever takes it": {
			{want: "register r1", anew: true, reply: &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r3"}}},
			{want: "register r3", reply: registered(3)},
			{after: time.Second, want: "beat 1 r3", anew: true, err: errGone},
			{want: "register r1", reply: registered(4)},
			{after: time.Second, want: "beat 1 r1"},
		},
	})
}

func TestSessionGrantsLeases(t *testing.T) {
	s, _, _ := newTestSession("r1")
	ask, _ := s.Next(epoch)
	outcome := s.Answer(epoch.Add(300*time.Millisecond), ask.Number, registered(3), nil)
	if !outcome.Registered || outcome.Lease != 5*time.Second {
		t.Fatalf("registration: %+v, want a lease of 5s", outcome)
	}
	sent := epoch.Add(time.Second)
	beat, _ := s.Next(sent)
	if got := s.Answer(sent, beat.Number-1, &actorpb.HeartbeatAck{Sequence: 1, Term: 3}, nil); got != (Outcome{}) {
		t.Errorf("the answer to an old question counts: %+v", got)
	}
	outcome = s.Answer(sent.Add(time.Second), beat.Number, &actorpb.HeartbeatAck{Sequence: 1, Term: 3}, nil)
	if outcome.Lease != 5*time.Second {
		t.Errorf("heartbeat: %+v, want a lease of 5s", outcome)
	}
}

// TestSessionAnew registers once more, while a heartbeat is under way, with the leader
// that it has.
func TestSessionAnew(t *testing.T) {
	s, _, _ := newTestSession("r1", "r2", "r3")
	s.Anew()
	ask, _ := s.Next(epoch)
	s.Answer(epoch, ask.Number, &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r2"}}, nil)
	ask, _ = s.Next(epoch)
	s.Answer(epoch, ask.Number, registered(3), nil)
	now := epoch.Add(time.Second)
	beat, _ := s.Next(now)
	s.Anew()
	if outcome := s.Answer(now, beat.Number, &actorpb.HeartbeatAck{Sequence: 1, Term: 3}, nil); outcome.Lease == 0 {
		t.Errorf("outcome %+v, want the heartbeat to count", outcome)
	}
	if ask, _ = s.Next(now); ask.String() != "register r2" {
		t.Fatalf("got %v, want a registration at once", ask)
	}
	s.Answer(now, ask.Number, registered(3), nil)
	if ask, _ = s.Next(now.Add(time.Second)); ask.String() != "beat 1 r2" {
		t.Errorf("got %v, want heartbeats to begin anew", ask)
	}
}

func TestSessionUrge(t *testing.T) {
	s, _, _ := newTestSession("r1")
	ask, _ := s.Next(epoch)
	s.Urge()
	s.Answer(epoch, ask.Number, registered(3), nil)
	if ask, wake := s.Next(epoch); ask != nil || wake.Sub(epoch) != 50*time.Millisecond {
		t.Fatalf("got %v, wake in %v, want a heartbeat after the least gap", ask, wake.Sub(epoch))
	}
	beat, _ := s.Next(epoch.Add(50 * time.Millisecond))
	if beat == nil {
		t.Fatal("no heartbeat for news")
	}
	s.Answer(epoch.Add(60*time.Millisecond), beat.Number, &actorpb.HeartbeatAck{Sequence: 1, Term: 3}, nil)
	if _, wake := s.Next(epoch.Add(60 * time.Millisecond)); wake.Sub(epoch) != 1050*time.Millisecond {
		t.Errorf("next heartbeat at %v, want a period after the last", wake.Sub(epoch))
	}
	beat, _ = s.Next(epoch.Add(1050 * time.Millisecond))
	s.Answer(epoch.Add(1060*time.Millisecond), beat.Number, &actorpb.HeartbeatAck{Sequence: 2, Term: 3, LeaseMillis: 20000, HeartbeatMillis: 4000}, nil)
	s.Urge()
	if _, wake := s.Next(epoch.Add(1060 * time.Millisecond)); wake.Sub(epoch) != 1250*time.Millisecond {
		t.Errorf("next heartbeat at %v, want a twentieth of the longer period after the last", wake.Sub(epoch))
	}
	beat, _ = s.Next(epoch.Add(1250 * time.Millisecond))
	s.Answer(epoch.Add(1260*time.Millisecond), beat.Number, nil, errors.New("gone"))
	if ask, _ := s.Next(epoch.Add(3 * time.Second)); !ask.Register || ask.Timeout != 4*time.Second {
		t.Errorf("then %v, for %v, want a registration, which waits as long as the longer period", ask, ask.Timeout)
	}
}

func TestSessionRefusalsArePeoplesBusiness(t *testing.T) {
	tests := map[string]struct {
		code       string
		retry      int64
		wantSevere bool
	}{
		"another agent has the name":            {code: "name_in_use", retry: 1500, wantSevere: true},
		"another has the name, and for ever":    {code: "name_in_use", wantSevere: true},
		"the certificate is another node's":     {code: "wrong_identity", wantSevere: true},
		"the node's life is over":               {code: "bad_request", wantSevere: true},
		"the leader says that it passes":        {code: "bad_request", retry: 200},
		"another leads":                         {code: "unavailable", retry: 200},
		"the leader is busy":                    {code: "overloaded", retry: 200},
		"the leader has forgotten the agent":    {code: "not_registered"},
		"a refusal that this version knows not": {code: "?"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, _, _ := newTestSession("r1", "r2")
			ask, _ := s.Next(epoch)
			outcome := s.Answer(epoch, ask.Number, &actorpb.Refused{Code: test.code, Reason: "reason", RetryMillis: test.retry}, nil)
			if outcome.Severe != test.wantSevere || outcome.Trouble == nil || !strings.Contains(outcome.Trouble.Error(), "reason") {
				t.Errorf("severe %v, trouble %v; want severe %v, and the reason told", outcome.Severe, outcome.Trouble, test.wantSevere)
			}
		})
	}
}
