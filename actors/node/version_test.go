package node

import (
	"strings"
	"testing"
	"testing/synctest"

	"weir/actors/reconcile"
	"weir/messages/actorpb"
)

// TestAgentsThatAreTooOld (V2): an agent whose program does not know the version of the cluster is not registered, and
// is told what to do; what registered agents can is on the leader's board.
func TestAgentsThatAreTooOld(t *testing.T) {
	for story, test := range map[string]struct {
		version, can uint32
		wantCan      uint32
	}{
		"as at version 1":        {1, 0, 1},
		"newer than its cluster": {1, 2, 2},
		"new enough":             {2, 2, 2},
		"too old":                {2, 1, 0},
		"too old to say it":      {2, 0, 0},
	} {
		t.Run(story, func(t *testing.T) {
			m := registration(7)
			m.Can = test.can
			refused := tooOld(m, test.version)
			if (refused == nil) != (test.wantCan > 0) {
				t.Fatalf("refused: %v", refused)
			}
			if refused == nil {
				s := NewSession(noon, DefaultTiming(), DefaultTiming().Base())
				if s.Open(noon, m); s.can != test.wantCan {
					t.Errorf("it can %d, want %d", s.can, test.wantCan)
				}
				return
			}
			want := `the agent of node "n1", weir 1, is too old: its program works with cluster version 1, but the cluster has version 2: install weir 0.2.0 or later there`
			if refused.GetCode() != actorpb.CodeBadRequest || !strings.Contains(refused.GetReason(), want) {
				t.Errorf("got %v, want %q", refused, want)
			}
		})
	}
	onStage(t, nil, nil, func(s *stage) {
		s.set(func() { s.version = 2 })
		s.say(registration(7))
		s.want("refuse bad_request")
	})
}

// TestVersionIsRaisedDuringASession (V2): an agent that registered just before the version was raised, and does not know
// it, gets nothing more and must register again, which is refused. One that knows it goes on.
func TestVersionIsRaisedDuringASession(t *testing.T) {
	for can, want := range map[uint32][]string{
		1: {"withdraw n1", "refuse not_registered", "refuse bad_request"},
		2: {"plan 3.99 +a", "HeartbeatAck", "offer n1", "AgentRegistered", "plan 3.99 +a", "offer n1"},
	} {
		onStage(t, online(7), nil, func(s *stage) {
			m := registration(7)
			m.Can = can
			s.say(m)
			s.want("AgentRegistered", "offer n1")
			s.set(func() { s.version, s.granted = 2, []Granted{granted("a", 7, 10)} })
			s.system.Root.Send(s.pid, reconcile.Look{})
			synctest.Wait()
			s.beat(1)
			s.say(m)
			s.want(want...)
		})
	}
}
