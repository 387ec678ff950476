package agent

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/remote"
	"weir/messages/actorpb"
)

// electR2 lets r2 be the leader of term 4; r1 is silent.
func electR2(w *world) {
	w.plane.set(func() {
		w.plane.term = 4
		w.plane.answer = func(replica string, _ proto.Message) (proto.Message, error) {
			if replica == "r1" {
				return nil, remote.ErrPeerGone
			}
			return nil, nil
		}
	})
	w.advance(5 * time.Second)
}

// registersByR1 answers for replicas: the first heartbeat is lost, and r1 registers the agent in
// term 3.
func registersByR1() func(replica string, msg proto.Message) (proto.Message, error) {
	gone := false
	return func(replica string, msg proto.Message) (proto.Message, error) {
		switch msg.(type) {
		case *actorpb.RegisterAgent:
			if replica == "r1" {
				return &actorpb.AgentRegistered{Term: 3, Leader: "r1", LeaseMillis: 5000, HeartbeatMillis: 1000}, nil
			}
		case *actorpb.Heartbeat:
			if !gone {
				gone = true
				return nil, remote.ErrPeerGone
			}
		}
		return nil, nil
	}
}

// refusalCase is what an agent hears, and what its journal says of it then.
type refusalCase struct {
	happens func(w *world)
	// wantRejected are job, token, highest token seen, and who sent it.
	wantRejected []string
	wantStarts   map[string]int
}

// checkRefusals follows nothing of what is stale, and finds in the journal what came, from whom, and
// what had been seen.
func checkRefusals(t *testing.T, cases map[string]refusalCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				test.happens(w)
				for _, job := range []string{"a", "b"} {
					if got := w.starts(job); got != test.wantStarts[job] {
						t.Errorf("job %s was started %d times, want %d", job, got, test.wantStarts[job])
					}
				}
				w.machine.set(func() {
					for id, r := range w.machine.runs {
						if len(r.stops) > 0 {
							t.Errorf("job %s was told to end: %v", id, r.stops)
						}
					}
				})
				w.kill()
				var got []string
				for _, record := range w.journal().Rejections {
					r := record.GetRejected()
					if r.GetReason() == "" || record.GetTime() == nil {
						t.Errorf("rejected without a reason or a time: %v", record)
					}
					got = append(got, fmt.Sprintf("%s %d.%d %d.%d %s", r.GetJobId(), r.GetToken().GetTerm(), r.GetToken().GetIndex(),
						r.GetSeen().GetTerm(), r.GetSeen().GetIndex(), r.GetFrom()))
				}
				if !slices.Equal(got, test.wantRejected) {
					t.Errorf("rejected %q, want %q", got, test.wantRejected)
				}
			})
		})
	}
}

// TestAgentKeepsWhatItRefuses has the network repeat what a leader said.
func TestAgentKeepsWhatItRefuses(t *testing.T) {
	checkRefusals(t, map[string]refusalCase{
		"an old token": {
			happens: func(w *world) {
				w.send(plan(3, 7, granted("a", 9)))
				w.send(plan(3, 6, granted("b", 9), abort("a", "preemption", 0)))
			},
			wantRejected: []string{" 3.6 3.7 r1"},
			wantStarts:   map[string]int{"a": 1},
		},
		"a grant that is replayed while its job runs": {
			happens: func(w *world) {
				w.send(plan(3, 7, granted("a", 9)))
				w.send(plan(3, 7, granted("a", 9)))
			},
			wantStarts: map[string]int{"a": 1},
		},
		"a grant that is replayed after its job has ended": {
			happens: func(w *world) {
				w.send(plan(3, 7, granted("a", 9)))
				w.exit("a", 0)
				w.advance(time.Second)
				w.send(plan(3, 8, granted("a", 9)))
			},
			wantRejected: []string{"a 3.8 3.7 r1"},
			wantStarts:   map[string]int{"a": 1},
		},
		"a grant of an earlier life of the node": {
			happens:      func(w *world) { w.send(plan(3, 7, granted("a", 8))) },
			wantRejected: []string{"a 3.7 3.0 r1"},
			wantStarts:   map[string]int{},
		},
	})
}

// TestAgentRefusesLeadersOfThePast has a leader that was paused wake up when another leads.
func TestAgentRefusesLeadersOfThePast(t *testing.T) {
	checkRefusals(t, map[string]refusalCase{
		"a leader that was paused wakes up with a grant": {
			happens: func(w *world) {
				w.send(plan(3, 7, granted("a", 9)))
				electR2(w)
				w.send(plan(3, 99, granted("b", 9), abort("a", "preemption", 0)))
			},
			wantRejected: []string{" 3.99 4.0 r1"},
			wantStarts:   map[string]int{"a": 1},
		},
		"a leader that was paused registers the agent": {
			happens: func(w *world) {
				electR2(w)
				w.plane.set(func() { w.plane.answer = registersByR1() })
				w.advance(5 * time.Second)
			},
			wantRejected: []string{" 3.0 4.0 r1"},
			wantStarts:   map[string]int{},
		},
	})
}
