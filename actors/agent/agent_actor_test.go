package agent

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/remote"
	"weir/messages/actorpb"
)

func TestAgentTellsNewsAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		before := w.asks("Heartbeat")
		w.exit("j", 0)
		if got := w.asks("Heartbeat"); got <= before {
			t.Error("the end of a job waits for the next period")
		}
		w.advance(10 * time.Second)
		if got := w.asks("Heartbeat"); got > before+13 {
			t.Errorf("%d heartbeats in 10 s, want one a period", got-before)
		}
	})
}

// TestHeartbeatsTellChanges: a job that goes on as before is not told again.
func TestHeartbeatsTellChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.advance(10 * time.Second)
		told := func(during func()) (n int) {
			w.plane.set(func() { w.plane.told = 0 })
			during()
			w.plane.set(func() { n = w.plane.told })
			return n
		}
		if n := told(func() { w.advance(30 * time.Second) }); n != 0 {
			t.Errorf("heartbeats told %d times of a job that has not changed", n)
		}
		if n := told(func() { w.exit("j", 0) }); n == 0 {
			t.Error("heartbeats did not tell of the end of a job")
		}
	})
}

func TestAgentLeaseRunsOut(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.advance(3 * time.Second)
		var last time.Time
		w.plane.set(func() { w.plane.silent, last = true, w.plane.lastBeat })
		w.advance(time.Until(last.Add(5*time.Second - time.Millisecond)))
		if stops := w.stops("j"); len(stops) != 0 {
			t.Fatalf("stopped %v before the lease ran out", stops)
		}
		w.advance(2 * time.Millisecond)
		if stops := w.stops("j"); !slices.Equal(stops, []string{"node_offline 0s"}) {
			t.Fatalf("stops %v, want the job killed when the lease ran out", stops)
		}
		w.machine.set(func() {
			if len(w.machine.renewals) < 3 {
				t.Errorf("job proxies were given a lease %d times", len(w.machine.renewals))
			}
			for _, left := range w.machine.renewals {
				if left <= 0 || left > 5*time.Second {
					t.Errorf("job proxies were given a lease of %v", left)
				}
			}
		})
		w.send(plan(3, 8, granted("k", 9)))
		if w.starts("k") != 0 {
			t.Error("a job was started without a lease")
		}
		w.plane.set(func() { w.plane.silent = false })
		w.advance(30 * time.Second)
		w.want("j:aborted:node_offline")
		if w.starts("k") != 0 {
			t.Error("an order that came without a lease was followed later")
		}
		w.send(plan(3, 8, granted("k", 9)))
		if w.starts("k") != 1 {
			t.Error("a node that has come back does not take jobs")
		}
		if n := w.logs.count("lease expired"); n != 1 {
			t.Errorf("the end of the lease was logged %d times", n)
		}
	})
}

func TestAgentKeepsJobsAcrossLeaders(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.plane.set(func() {
			w.plane.term = 4
			w.plane.answer = func(replica string, _ proto.Message) (proto.Message, error) {
				if replica == "r1" {
					return nil, remote.ErrPeerGone
				}
				return nil, nil
			}
		})
		w.advance(20 * time.Second)
		if stops := w.stops("j"); len(stops) != 0 {
			t.Fatalf("the job did not live through a change of leader: %v", stops)
		}
		w.exit("j", 0)
		w.advance(3 * time.Second)
		w.want("j:completed")
		w.send(plan(3, 99, granted("old", 9)))
		if w.starts("old") != 0 || w.logs.count("plan refused") != 1 || w.logs.count("token 3.99") != 1 {
			t.Errorf("a leader of the past was followed: %v", w.logs.text)
		}
	})
}

// TestAgentSaysWhichProcessItIs in each question to a leader.
func TestAgentSaysWhichProcessItIs(t *testing.T) {
	inWorld(t, func(w *world) {
		type who struct{ life, session uint64 }
		var said []who
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				var now who
				switch m := msg.(type) {
				case *actorpb.RegisterAgent:
					now = who{m.GetIncarnation(), m.GetSession()}
				case *actorpb.Heartbeat:
					now = who{m.GetIncarnation(), m.GetSession()}
				}
				if len(said) == 0 || said[len(said)-1] != now {
					said = append(said, now)
				}
				return nil, nil
			}
		})
		for range 2 {
			w.advance(3 * time.Second)
			w.kill()
			w.start()
		}
		w.advance(3 * time.Second)
		w.plane.set(func() {
			if len(said) != 3 || said[0].life != 9 || said[1].life != 9 || said[2].life != 9 ||
				said[0].session >= said[1].session || said[1].session >= said[2].session {
				t.Errorf("said %v, want one life and a greater session for each process", said)
			}
		})
	})
}

func TestAgentIsLoudAboutItsName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				switch msg.(type) {
				case *actorpb.Heartbeat:
					return &actorpb.Refused{Code: "not_registered"}, nil
				case *actorpb.RegisterAgent:
					return &actorpb.Refused{Code: "name_in_use", Reason: "another agent with this name was active"}, nil
				}
				return nil, nil
			}
		})
		w.advance(5 * time.Second)
		if w.logs.count("ERROR registration rejected") < 2 || w.logs.count("another agent with this name") < 2 {
			t.Errorf("logs %v", w.logs.text)
		}
		w.plane.set(func() { w.plane.answer = nil })
		w.advance(5 * time.Second)
		if w.logs.count("INFO registered") != 2 {
			t.Error("the agent did not register when it could")
		}
	})
}

func TestAgentRemembersReplicas(t *testing.T) {
	inWorld(t, func(w *world) {
		got, err := folder{path: w.cfg.StateDir}.readReplicas()
		if err != nil || !slices.Equal(got, replicas("r1", "r2")) {
			t.Errorf("remembered %v, %v; want r1 and r2", got, err)
		}
	})
}

// TestAgentGivesUpRemovedReplicas on its leader's word, and nobody else's.
func TestAgentGivesUpRemovedReplicas(t *testing.T) {
	told := []*actorpb.Replica{{Id: "r1", Address: "r1:1"}, {Id: "r3", Address: "r3:1"}}
	tests := map[string]struct {
		answer func(*actorpb.Heartbeat) proto.Message
		want   bool
	}{
		"the leader has other members": {func(m *actorpb.Heartbeat) proto.Message {
			return &actorpb.HeartbeatAck{Sequence: m.GetSequence(), Term: m.GetTerm(), Replicas: told}
		}, true},
		"the leader names none": {func(m *actorpb.Heartbeat) proto.Message {
			return &actorpb.HeartbeatAck{Sequence: m.GetSequence(), Term: m.GetTerm()}
		}, false},
		"a leader of another term": {func(m *actorpb.Heartbeat) proto.Message {
			return &actorpb.HeartbeatAck{Sequence: m.GetSequence(), Term: m.GetTerm() - 1, Replicas: told}
		}, false},
		"one that does not lead": {func(*actorpb.Heartbeat) proto.Message {
			return &actorpb.Redirect{Leader: told[0], Replicas: told}
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.plane.set(func() {
					w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
						if m, ok := msg.(*actorpb.Heartbeat); ok {
							return test.answer(m), nil
						}
						return nil, nil
					}
				})
				w.advance(1500 * time.Millisecond)
				w.plane.set(func() {
					if !slices.Contains(w.plane.kept, "r1 r2") || slices.Contains(w.plane.kept, "r1 r3") != test.want {
						t.Errorf("kept %q; want r1 r2 at first, then r1 r3: %v", w.plane.kept, test.want)
					}
				})
			})
		})
	}
}
