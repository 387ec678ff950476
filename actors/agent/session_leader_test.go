package agent

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/messages/actorpb"
)

// TestSessionTriesSoonAgain refuses the agent for as long as one may be cut off, in any
// words that pass by themselves, and then no more: it is registered within SeekMax of the
// last answer.
func TestSessionTriesSoonAgain(t *testing.T) {
	const answered = time.Millisecond
	rapid.Check(t, func(t *rapid.T) {
		s, _, _ := newTestSession("r1", "r2", "r3")
		s.pause.chance = func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "chance") }
		now := epoch
		for healed := epoch.Add(time.Minute); ; {
			ask, wake := s.Next(now)
			if ask == nil {
				now = wake
				continue
			}
			if now.After(healed) {
				if late := now.Sub(healed); late > s.timing.SeekMax+answered {
					t.Fatalf("asked again %v after the heal, want no later than %v", late, s.timing.SeekMax+answered)
				}
				return
			}
			code := rapid.SampledFrom([]string{actorpb.CodeUnavailable, actorpb.CodeOverloaded, actorpb.CodeNameInUse, actorpb.CodeStale, "bad_request"}).Draw(t, "code")
			retry := rapid.Int64Range(1, 100_000).Draw(t, "retry")
			now = now.Add(answered)
			s.Answer(now, ask.Number, &actorpb.Refused{Code: code, RetryMillis: retry}, nil)
		}
	})
}

// TestSessionFindsTheLeader lets replicas answer at random, and then behave: the
// agent is registered within a round and a pause.
func TestSessionFindsTheLeader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _, fence := newTestSession("r1", "r2", "r3")
		now, term := epoch, uint64(1)
		answer := func(ask *Ask) (proto.Message, error) {
			switch rapid.IntRange(0, 8).Draw(t, "answer") {
			case 0:
				return nil, errors.New("gone")
			case 1:
				return &actorpb.Redirect{}, nil
			case 2:
				return &actorpb.Redirect{Leader: &actorpb.Replica{Id: rapid.SampledFrom([]string{"r1", "r2", "r3", "r4"}).Draw(t, "leader")}}, nil
			case 3:
				code := rapid.SampledFrom([]string{"overloaded", "unavailable", "stale", "not_registered", "name_in_use", "bad_request", "?"}).Draw(t, "code")
				return &actorpb.Refused{Code: code, RetryMillis: rapid.Int64Range(0, 500).Draw(t, "retry")}, nil
			case 4:
				term = rapid.Uint64Range(1, 5).Draw(t, "term")
				return registered(term), nil
			default:
				return &actorpb.HeartbeatAck{Sequence: ask.Sequence, Term: ask.Term}, nil
			}
		}
		for range rapid.IntRange(0, 40).Draw(t, "questions") {
			ask, wake := s.Next(now)
			if ask == nil {
				if !wake.After(now) {
					t.Fatalf("neither a question nor a time for one")
				}
				now = wake
				continue
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "delay")) * time.Millisecond)
			reply, err := answer(ask)
			s.Answer(now, ask.Number, reply, err)
		}
		lead := fence.Seen().Term + 1
		for range 20 {
			ask, wake := s.Next(now)
			switch {
			case ask == nil:
				now = wake
			case ask.To.ID != "r2":
				s.Answer(now, ask.Number, &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r2"}}, nil)
			case ask.Register:
				s.Answer(now, ask.Number, registered(lead), nil)
			case ask.Term != lead:
				s.Answer(now, ask.Number, &actorpb.Refused{Code: "not_registered"}, nil)
			default:
				return
			}
		}
		t.Fatal("the leader was not found in 20 steps")
	})
}

// TestSessionsThatAreRefusedSpread has a leader that tells an agent the same retry time again and again: the agent waits at least
// as long, longer by a chance that grows, and never longer than while seeking a leader.
func TestSessionsThatAreRefusedSpread(t *testing.T) {
	const retry = 50 * time.Millisecond
	for name, register := range map[string]bool{"a registration": true, "a heartbeat": false} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s, _, _ := newTestSession("r1")
				now, least := epoch, retry
				next := func() *Ask {
					ask, wake := s.Next(now)
					if ask == nil {
						now = wake
						ask, _ = s.Next(now)
					}
					return ask
				}
				if !register {
					s.Answer(now, next().Number, registered(1), nil)
					least = s.timing.SeekMin
				}
				ask := next()
				for spread := least; spread < 4*s.timing.SeekMax; spread *= 2 {
					chance := rapid.Float64Range(0, 0.999).Draw(t, "chance")
					s.busy.chance = func() float64 { return chance }
					asked := now
					s.Answer(now, ask.Number, refused(actorpb.CodeUnavailable, retry.Milliseconds()), nil)
					ask = next()
					want := least + time.Duration(chance*float64(min(spread, s.timing.SeekMax-least)))
					if got := now.Sub(asked); got != want || ask.Register != register {
						t.Fatalf("%v: asked again after %v, want %v", ask, got, want)
					}
				}
			})
		})
	}
}

// TestAgentsOfALargeClusterTakeTheirTime to register anew when their leader is gone, as far as their leases leave it to them.
func TestAgentsOfALargeClusterTakeTheirTime(t *testing.T) {
	for _, test := range []struct{ heartbeat, lease, want int64 }{
		{1000, 5000, 0}, {500, 3000, 0}, {2500, 12500, 3000 / 2}, {5000, 25000, 7500 / 2}, {5000, 10000, 0},
	} {
		s, _, _ := newTestSession("r1", "r2", "r3")
		s.pause.chance = func() float64 { return 0.5 }
		ask, _ := s.Next(epoch)
		s.Answer(epoch, ask.Number, &actorpb.AgentRegistered{Term: 3, LeaseMillis: test.lease, HeartbeatMillis: test.heartbeat}, nil)
		now := epoch.Add(millis(test.heartbeat))
		ask, _ = s.Next(now)
		s.Answer(now, ask.Number, nil, errGone)
		due := now.Add(millis(test.want))
		if test.want > 0 {
			if ask, wake := s.Next(due.Add(-1)); ask != nil || !wake.Equal(due) {
				t.Errorf("%v: asks %v, or in %v", test, ask, wake.Sub(now))
			}
		}
		if ask, _ := s.Next(due); ask == nil || ask.String() != "register r2" {
			t.Errorf("%v: asks %v", test, ask)
		}
	}
}

// TestHeartbeatsOfALargeClusterSpread: agents that have registered in the same moment send their first heartbeats within half
// a period, and then one each period.
func TestHeartbeatsOfALargeClusterSpread(t *testing.T) {
	for _, test := range []struct {
		heartbeat, lease, want int64
		chance                 float64
	}{
		{1000, 5000, 1000, 0.9}, {5000, 25000, 5000, 0}, {5000, 25000, 3750, 0.5}, {5000, 25000, 2525, 0.99}, {5000, 10000, 5000, 0.9},
	} {
		s, _, _ := newTestSession("r1")
		s.pause.chance = func() float64 { return test.chance }
		ask, _ := s.Next(epoch)
		s.Answer(epoch, ask.Number, &actorpb.AgentRegistered{Term: 3, LeaseMillis: test.lease, HeartbeatMillis: test.heartbeat}, nil)
		_, first := s.Next(epoch)
		if got := first.Sub(epoch).Round(time.Millisecond); got != millis(test.want) {
			t.Errorf("%v: first heartbeat after %v", test, got)
		}
		ask, _ = s.Next(first)
		s.Answer(first, ask.Number, acked(1), nil)
		if _, second := s.Next(first); second.Sub(first) != millis(test.heartbeat) {
			t.Errorf("%v: second heartbeat %v after the first", test, second.Sub(first))
		}
	}
}

// TestAgentsOfALargeClusterAskSeldom while no replica knows of a leader, but often enough to find the next one within their
// leases.
func TestAgentsOfALargeClusterAskSeldom(t *testing.T) {
	for _, test := range []struct {
		heartbeat, lease int64
		fewest, most     int
		longest          time.Duration
	}{
		{1000, 5000, 90, 120, time.Second}, {2500, 12500, 90, 110, time.Second}, {5000, 25000, 40, 55, 1875 * time.Millisecond},
	} {
		s, _, _ := newTestSession("r1", "r2", "r3")
		s.pause.chance = func() float64 { return 0.5 }
		ask, _ := s.Next(epoch)
		s.Answer(epoch, ask.Number, &actorpb.AgentRegistered{Term: 3, LeaseMillis: test.lease, HeartbeatMillis: test.heartbeat}, nil)
		_, now := s.Next(epoch)
		ask, _ = s.Next(now)
		s.Answer(now, ask.Number, nil, errGone)
		lost, asks, longest := now, 0, time.Duration(0)
		for now.Sub(lost) < 25*time.Second {
			ask, wake := s.Next(now)
			if ask == nil {
				if asks > 0 {
					longest = max(longest, wake.Sub(now))
				}
				now = wake
				continue
			}
			asks++
			s.Answer(now, ask.Number, &actorpb.Redirect{}, nil)
		}
		if asks < test.fewest || asks > test.most || longest > test.longest {
			t.Errorf("%v: %d questions in 25s, %v without one", test, asks, longest)
		}
	}
}

// TestKnownLeaderIsAskedSoon has an agent of a large cluster ask all replicas in vain, but for the last one, which knows a leader.
func TestKnownLeaderIsAskedSoon(t *testing.T) {
	s, _, _ := newTestSession("r1", "r2", "r3")
	s.pause.chance = func() float64 { return 0.5 }
	ask, _ := s.Next(epoch)
	s.Answer(epoch, ask.Number, &actorpb.AgentRegistered{Term: 3, LeaseMillis: 25000, HeartbeatMillis: 5000}, nil)
	_, now := s.Next(epoch)
	ask, _ = s.Next(now)
	s.Answer(now, ask.Number, nil, errGone)
	_, now = s.Next(now)
	for _, reply := range []proto.Message{&actorpb.Redirect{}, &actorpb.Redirect{}, &actorpb.Redirect{Leader: &actorpb.Replica{Id: "r3"}}} {
		ask, _ = s.Next(now)
		s.Answer(now, ask.Number, reply, nil)
	}
	now = now.Add(s.timing.SeekMin)
	if ask, wake := s.Next(now); ask == nil || ask.String() != "register r3" {
		t.Errorf("asks %v, or in %v; want the leader", ask, wake.Sub(now))
	}
}
