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

// TestAgentKeepsWhatItRefuses has leaders of the past, and the network, repeat
// themselves: nothing of it is followed, and the journal says what came, from whom, and
// what had been seen.
func TestAgentKeepsWhatItRefuses(t *testing.T) {
	// elect lets r2 be the leader of term 4; r1 answers as is said.
	elect := func(w *world, r1 func(proto.Message) (proto.Message, error)) {
		w.plane.set(func() {
			w.plane.term = 4
			w.plane.answer = func(replica string, msg proto.Message) (proto.Message, error) {
				if replica == "r1" {
					return r1(msg)
				}
				return nil, nil
			}
		})
		w.advance(5 * time.Second)
	}
	silent := func(proto.Message) (proto.Message, error) { return nil, remote.ErrPeerGone }
	tests := map[string]struct {
		happens func(w *world)
		// wantRejected are job, token, highest token seen, and who sent it.
		wantRejected []string
		wantStarts   map[string]int
	}{
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
		"a leader that was paused wakes up with a grant": {
			happens: func(w *world) {
				w.send(plan(3, 7, granted("a", 9)))
				elect(w, silent)
				w.send(plan(3, 99, granted("b", 9), abort("a", "preemption", 0)))
			},
			wantRejected: []string{" 3.99 4.0 r1"},
			wantStarts:   map[string]int{"a": 1},
		},
		"a leader that was paused registers the agent": {
			happens: func(w *world) {
				elect(w, silent)
				w.plane.set(func() {
					gone := false
					w.plane.answer = func(replica string, msg proto.Message) (proto.Message, error) {
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
				})
				w.advance(5 * time.Second)
			},
			wantRejected: []string{" 3.0 4.0 r1"},
			wantStarts:   map[string]int{},
		},
	}
	for name, test := range tests {
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
