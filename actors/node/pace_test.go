package node

import (
	"testing"
	"testing/synctest"
	"time"

	"weir/actors/reconcile"
	"weir/messages/statepb"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
)

func beats(heartbeat time.Duration) Pace { return Pace{Heartbeat: heartbeat, Lease: 5 * heartbeat} }

func TestPaceFollowsTheSize(t *testing.T) {
	const second = time.Second
	for story, test := range map[string]struct {
		nodes     int
		now, want Pace
	}{
		"no nodes":                            {0, beats(second), beats(second)},
		"as many as one second takes":         {2000, beats(second), beats(second)},
		"one more":                            {2001, beats(second), beats(3 * second / 2)},
		"half of the most":                    {5000, beats(second), beats(5 * second / 2)},
		"the most":                            {10000, beats(second), beats(5 * second)},
		"more than that":                      {1 << 30, beats(second), beats(5 * second)},
		"a few less do not count":             {9000, beats(5 * second), beats(5 * second)},
		"more than a fifth less":              {7000, beats(5 * second), beats(9 * second / 2)},
		"most are gone":                       {10, beats(5 * second), beats(second)},
		"a few less than at the first step":   {1999, beats(3 * second / 2), beats(3 * second / 2)},
		"a fifth less than at the first step": {1600, beats(3 * second / 2), beats(second)},
		"another pace, of other flags":        {10, Pace{Heartbeat: second, Lease: time.Minute}, beats(second)},
		"a pace between two steps":            {2500, Pace{Heartbeat: 1700 * time.Millisecond, Lease: time.Minute}, beats(3 * second / 2)},
	} {
		if got := DefaultTiming().Pace(test.nodes, test.now); got != test.want {
			t.Errorf("%s: %v, want %v", story, got, test.want)
		}
	}
	fixed := DefaultTiming()
	fixed.Follow = false
	if got := fixed.Pace(10000, beats(5*second)); got != fixed.Base() {
		t.Errorf("a pace that is given: %v, want %v", got, fixed.Base())
	}
}

// TestPaceIsSteady: no more heartbeats come than a leader has time for, and the pace stays while the size is at most a fifth
// below that for which it became slower.
func TestPaceIsSteady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timing := DefaultTiming()
		size := rapid.IntRange(0, 20000).Draw(t, "size")
		now := timing.Pace(size, timing.Base())
		for range 20 {
			nodes := rapid.IntRange(size-size/5, size).Draw(t, "nodes")
			next := timing.Pace(nodes, now)
			if rate := float64(nodes) / next.Heartbeat.Seconds(); rate > nodesPerBeat && next.Heartbeat < slowest*timing.Heartbeat {
				t.Fatalf("%d nodes, %v: %.0f heartbeats a second", nodes, next, rate)
			}
			if next.Lease*timing.Heartbeat != next.Heartbeat*timing.Lease {
				t.Fatalf("%v, want a lease of five heartbeats", next)
			}
			if next != now {
				t.Fatalf("%d nodes, %d before: from %v to %v", nodes, size, now, next)
			}
		}
	})
}

// TestTimeToEndJobs grows with the lease.
func TestTimeToEndJobs(t *testing.T) {
	timing := DefaultTiming()
	timing.Drift = 0
	for lease, want := range map[time.Duration]time.Duration{
		2 * time.Second:  2500 * time.Millisecond,
		5 * time.Second:  5500 * time.Millisecond,
		25 * time.Second: 27500 * time.Millisecond,
	} {
		if got := timing.Wait(Pace{Heartbeat: time.Second, Lease: lease}); got != want {
			t.Errorf("lease %v: given up after %v, want %v", lease, got, want)
		}
	}
}

// TestNewNodeDoesNotWaitForItsHeartbeat to be offered: the scheduler may see the registration after the first offer, and then the
// actor is told to look.
func TestNewNodeDoesNotWaitForItsHeartbeat(t *testing.T) {
	look := func(s *stage) {
		s.system.Root.Send(s.pid, reconcile.Look{})
		synctest.Wait()
	}
	onStage(t, nil, nil, func(s *stage) {
		s.say(registration(7))
		s.want("propose RegisterNode")
		s.commit(func() { s.record = online(7) })
		s.want("AgentRegistered", "offer n1")
		look(s)
		s.want("offer n1")
		s.beat(1)
		s.want("HeartbeatAck", "offer n1")
		look(s)
		s.want()
	})
}

// TestOrdersDoNotWaitForHeartbeats: what an agent has not confirmed is repeated after a pause, and a job that
// outlives its deadline is told to end then.
func TestOrdersDoNotWaitForHeartbeats(t *testing.T) {
	timing := DefaultTiming()
	onStage(t, online(7), nil, func(s *stage) {
		s.say(registration(7))
		s.want("AgentRegistered", "offer n1")
		s.set(func() { s.granted = []Granted{granted("a", 7, 10)} })
		s.system.Root.Send(s.pid, reconcile.Look{})
		synctest.Wait()
		s.want("plan 3.99 +a")
		s.wait(timing.Resend)
		s.want("plan 3.99 +a")
		s.beat(1, held("a", "running"))
		s.want("HeartbeatAck", "offer n1")
		s.wait(timing.Resend)
		s.want()
	})
	onStage(t, online(7), []Granted{granted("a", 7, 10)}, func(s *stage) {
		s.say(registration(7, held("a", "running")))
		s.want("AgentRegistered", "offer n1")
		now := time.Now()
		s.set(func() {
			s.granted[0].Stop = &statepb.StopOrder{Reason: "preemption", Time: timestamppb.New(now), GraceMillis: 1000}
		})
		s.system.Root.Send(s.pid, reconcile.Look{})
		synctest.Wait()
		s.want("plan 3.99 -a preemption")
		leaving := held("a", "aborting")
		leaving.Deadline = timestamppb.New(now.Add(time.Second))
		s.beat(1, leaving)
		s.want("HeartbeatAck", "offer n1")
		s.wait(time.Second)
		s.want()
		s.wait(timing.Resend)
		s.want("plan 3.99 -a preemption")
	})
}
