package agent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"weir/actors/agent/runner"
	"weir/actors/remote"
	"weir/messages/actorpb"
)

func TestAgentRunsAJob(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.advance(1500 * time.Millisecond)
		w.exit("j", 0)
		w.want("j:completed")
		w.advance(1500 * time.Millisecond)
		if got := w.phases("j"); got != "waiting running ended" && got != "running ended" {
			t.Errorf("heartbeats said %q", got)
		}
		e := w.result("j")
		if e.GetNode() != "n1" || e.GetIncarnation() != 9 || e.GetGrantIndex() != 7 || e.GetOperationId() != "op" || len(e.GetStderrTail()) != 0 {
			t.Errorf("result %v", e)
		}
		if !w.released("j") {
			t.Error("the workspace was not released")
		}
		w.send(plan(3, 7, granted("j", 9)))
		w.want("j:completed j:aborted:disappeared_from_node")
		if w.starts("j") != 1 {
			t.Errorf("started %d times, want once", w.starts("j"))
		}
	})
}

func TestAgentFailedJobBringsStderr(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.exit("j", 7)
		w.want("j:failed")
		e := w.result("j")
		if e.GetJob().GetError().GetMessage() != "exited with code 7" || string(e.GetStderrTail()) != "boom" {
			t.Errorf("result %v", e)
		}
	})
}

func TestAgentAborts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				if m, ok := msg.(*actorpb.JobSpecRequest); ok && m.GetJobId() == "waits" {
					return &actorpb.Refused{Code: "unavailable"}, nil
				}
				return nil, nil
			}
		})
		w.send(plan(3, 7, granted("a", 9), granted("waits", 9), granted("c", 9)))
		w.machine.set(func() { w.machine.runs["a"].broken = 1 })
		w.send(plan(3, 8, abort("a", "preemption", 2*time.Second), abort("waits", "user_request", 0), abort("unknown", "preemption", 0)))
		w.want("waits:aborted:user_request")
		w.advance(2 * time.Second)
		w.want("waits:aborted:user_request a:aborted:preemption")
		if stops := w.stops("a"); len(stops) != 1 || stops[0] != "preemption 0s" {
			t.Errorf("stops %v, want one at once: the job has no signal by which it could be asked", stops)
		}
		if m := w.result("a").GetJob().GetError().GetMessage(); m != "go" {
			t.Errorf("message %q, want the order's", m)
		}
		// Started and ended in one plan: the end is told, and nothing runs.
		w.send(plan(3, 9, granted("d", 9), abort("d", "operation_aborted", 0)))
		w.want("waits:aborted:user_request a:aborted:preemption d:aborted:operation_aborted")
		if w.starts("d") > 1 {
			t.Error("d was started")
		}
	})
}

func TestAgentRepeatsResults(t *testing.T) {
	inWorld(t, func(w *world) {
		tries := 0
		w.plane.set(func() {
			w.plane.answer = func(replica string, msg proto.Message) (proto.Message, error) {
				if _, ok := msg.(*actorpb.JobEnded); !ok {
					return nil, nil
				}
				tries++
				switch {
				case tries == 1:
					return nil, remote.ErrTimeout
				case tries == 2:
					return &actorpb.Refused{Code: "overloaded", RetryMillis: 300}, nil
				case tries == 3:
					return &actorpb.Refused{Code: "not_found"}, nil
				case replica != "r2":
					return &actorpb.ControllerFound{Controller: &actorpb.Replica{Id: "r2", Address: "r2:1"}}, nil
				}
				return nil, nil
			}
		})
		w.send(plan(3, 7, granted("j", 9)))
		r := w.run("j")
		w.exit("j", 0)
		w.machine.set(func() { r.broken = 1 })
		w.advance(10 * time.Second)
		w.want("j:completed")
		if w.released("j") {
			t.Error("released although it could not be")
		}
		w.advance(20 * time.Second)
		if !w.released("j") {
			t.Error("leftovers were not tried again")
		}
	})
}

func TestAgentDropsWhatNobodyWants(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				switch m := msg.(type) {
				case *actorpb.JobEnded:
					return &actorpb.ControllerFound{}, nil
				case *actorpb.JobSpecRequest:
					if m.GetJobId() == "unwanted" {
						return &actorpb.ControllerFound{}, nil
					}
				}
				return nil, nil
			}
		})
		w.send(plan(3, 7, granted("j", 9), granted("unwanted", 9)))
		w.exit("j", 0)
		if !w.released("j") || w.starts("unwanted") != 0 {
			t.Errorf("released %v, unwanted started %d times", w.released("j"), w.starts("unwanted"))
		}
		w.advance(2 * time.Second)
		w.plane.set(func() { clear(w.plane.phases) })
		w.advance(2 * time.Second)
		if w.phases("j")+w.phases("unwanted") != "" {
			t.Error("jobs that nobody wants are still held")
		}
	})
}

func TestAgentJobThatCannotStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.machine.set(func() { w.machine.failure = errors.New("argv: is empty") })
		w.send(plan(3, 7, granted("j", 9)))
		w.want("j:failed")
		w.machine.set(func() { w.machine.failure = fmt.Errorf("mkdir: %w", unix.ENOSPC) })
		w.send(plan(3, 7, granted("full", 9)))
		w.want("j:failed")
		w.advance(time.Second)
		w.want("j:failed full:aborted:job_proxy_failed")
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				switch msg.(type) {
				case *actorpb.JobSpecRequest, *actorpb.FindController:
					return nil, remote.ErrTimeout
				}
				return nil, nil
			}
		})
		w.send(plan(3, 8, granted("k", 9)))
		w.advance(59 * time.Second)
		if got := w.phases("k"); got != "waiting" {
			t.Errorf("heartbeats said %q before the patience was over", got)
		}
		w.advance(time.Second)
		w.plane.set(func() { w.plane.answer = nil })
		w.advance(3 * time.Second)
		w.want("j:failed full:aborted:job_proxy_failed k:aborted:get_spec_failed")
	})
}

func TestAgentGoesOnWhenAJobsActorPanics(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9), granted("k", 9)))
		r := w.run("j")
		w.machine.set(func() { r.events <- runner.Exited{JobID: "j"} })
		w.advance(time.Second)
		w.exit("j", 0)
		w.exit("k", 0)
		w.want("j:completed k:completed")
		// A panic while the result is on its way: it is told again.
		told := 0
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				if _, ok := msg.(*actorpb.JobEnded); ok {
					if told++; told == 1 {
						return &actorpb.Refused{Code: "overloaded", RetryMillis: 1000}, nil
					}
				}
				return nil, nil
			}
		})
		w.send(plan(3, 8, granted("l", 9)))
		r = w.run("l")
		w.machine.set(func() {
			r.over = true
			r.events <- exited("exited", "", 0)
		})
		w.advance(100 * time.Millisecond)
		w.machine.set(func() {
			r.events <- runner.Exited{JobID: "l"}
			close(r.events)
		})
		w.advance(10 * time.Second)
		w.want("j:completed k:completed l:completed")
	})
}
