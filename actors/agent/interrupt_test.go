package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/agent/runner"
	"weir/messages/actorpb"
)

// withSignal lets all jobs be interruptible, by SIGINT.
func (w *world) withSignal() {
	w.plane.set(func() {
		w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
			if m, ok := msg.(*actorpb.JobSpecRequest); ok {
				return &actorpb.JobSpec{JobId: m.GetJobId(), Argv: []string{"true"}, InterruptionSignal: "SIGINT", RestartExitCode: proto.Int32(75)}, nil
			}
			return nil, nil
		}
	})
}

func TestAgentInterrupts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.withSignal()
		w.send(plan(3, 7, granted("a", 9), granted("b", 9)))
		w.machine.set(func() { w.machine.runs["a"].broken = 1 })
		w.send(plan(3, 8, abort("a", "preemption", 15*time.Second), abort("b", "interruption_timeout", 15*time.Second)))
		w.advance(2 * time.Second)
		if stops := w.stops("a"); len(stops) != 1 || !strings.HasPrefix(stops[0], "SIGINT preemption 1") || stops[0] == "SIGINT preemption 15s" {
			t.Errorf("told %v, want it asked once, with what is left", stops)
		}
		// A leader tells it again and again.
		w.send(plan(3, 9, abort("a", "preemption", 15*time.Second)))
		if stops := w.stops("a"); len(stops) != 1 {
			t.Errorf("told %v, want it told once", stops)
		}
		if phases := w.phases("a"); !strings.HasSuffix(phases, "running aborting") {
			t.Errorf("heartbeats said %s", phases)
		}
		if deadline := w.plane.deadline("a"); deadline.Before(time.Now().Add(10*time.Second)) || deadline.After(time.Now().Add(15*time.Second)) {
			t.Errorf("heartbeats said that it is killed at %v, now is %v", deadline, time.Now())
		}
		r := w.run("a")
		w.machine.set(func() { r.interrupted = true })
		w.exit("a", 75)
		w.want("a:completed")
		if e := w.result("a").GetJob(); !e.GetRerun() || e.GetStop().GetInterruption() != "preemption" || e.GetStop().GetMessage() != "go" {
			t.Errorf("result %v", e)
		}
	})
}

// TestAgentThatDiesWhileItInterrupts goes on with what was left of the time.
func TestAgentThatDiesWhileItInterrupts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.withSignal()
		w.send(plan(3, 7, granted("a", 9)))
		w.send(plan(3, 8, abort("a", "interruption_timeout", 15*time.Second)))
		told := w.run("a").stops
		w.kill()
		if kept := w.journal().Jobs["a"]; kept.Stopping.GetOrder().GetInterruption() != "user_request" {
			t.Errorf("the journal has %v", kept.Stopping)
		}
		w.advance(time.Second)
		w.start()
		w.advance(time.Second)
		again := w.stops("a")
		if len(told) != 1 || len(again) != 1 || !strings.HasPrefix(again[0], "SIGINT interruption_timeout 13.") {
			t.Errorf("told %v, and %v by the next process, want the same with what is left", told, again)
		}
		if w.run("a").notice == "" || w.plane.deadline("a").IsZero() {
			t.Error("the order has been forgotten")
		}
		w.machine.set(func() {
			r := w.machine.runs["a"]
			r.interrupted = true
			r.end("stopped", "interruption_timeout", -1)
		})
		w.advance(100 * time.Millisecond)
		w.want("a:aborted:interruption_timeout")
	})
}

// TestAcknowledgementCountsOnceItIsAnswered shows that a job hears that its word was taken
// when its proxy has been told: an agent that died before would not know of it.
func TestAcknowledgementCountsOnceItIsAnswered(t *testing.T) {
	inWorld(t, func(w *world) {
		w.withSignal()
		w.send(plan(3, 7, granted("a", 9)))
		acknowledge := func() <-chan error {
			answer := make(chan error, 1)
			w.system.Root.Send(w.onlyJob(), saved{func(err error) { answer <- err }})
			w.advance(100 * time.Millisecond)
			return answer
		}
		if err := <-acknowledge(); !errors.Is(err, ErrNotAsked) {
			t.Errorf("answered %v, want that it was not asked", err)
		}
		w.send(plan(3, 8, abort("a", "preemption", 15*time.Second)))
		w.machine.set(func() { w.machine.runs["a"].broken = 1 })
		answer := acknowledge()
		select {
		case err := <-answer:
			t.Fatalf("answered %v while its proxy cannot be told", err)
		default:
		}
		w.advance(2 * pressPause)
		if err := <-answer; err != nil {
			t.Error(err)
		}
		w.want("a:aborted:preemption")
		if !w.result("a").GetJob().GetAcknowledged() {
			t.Errorf("result %v, want it acknowledged", w.result("a"))
		}
	})
}

// TestResultIsToldAfterALateFailure has the job's proxy turn out not to be reachable when
// the job has ended meanwhile and its result is to be told again.
func TestResultIsToldAfterALateFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		refusals := 1
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				if _, ok := msg.(*actorpb.JobEnded); ok && refusals > 0 {
					refusals--
					return &actorpb.Refused{Code: "overloaded", RetryMillis: 5000}, nil
				}
				return nil, nil
			}
		})
		w.send(plan(3, 7, granted("a", 9)))
		job := w.onlyJob()
		w.exit("a", 0)
		w.advance(100 * time.Millisecond)
		w.system.Root.Send(job, told{1, runner.ErrUnreachable})
		w.advance(30 * time.Second)
		w.want("a:completed")
	})
}

// onlyJob is the actor of the job that the agent has.
func (w *world) onlyJob() *actor.PID {
	w.t.Helper()
	var ids []string
	for _, shard := range w.system.ProcessRegistry.LocalPIDs.LocalPIDs {
		for _, id := range shard.Keys() {
			if strings.HasPrefix(id, w.agent.PID().GetId()+"/") {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) != 1 {
		w.t.Fatalf("actors %v, want that of a job", ids)
	}
	return w.system.NewLocalPID(ids[0])
}

// TestAgentRegistersItsPorts and says what jobs get of them.
func TestAgentRegistersItsPorts(t *testing.T) {
	taken := takePort(t)
	inWorld(t, func(w *world) {
		var registered *actorpb.RegisterAgent
		w.kill()
		w.cfg.Ports, w.cfg.Host = Ports{First: 21000, Count: 1000}, "host1"
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				if m, ok := msg.(*actorpb.RegisterAgent); ok {
					registered = m
				}
				return nil, nil
			}
		})
		w.start()
		w.advance(time.Second)
		if registered.GetFirstPort() != 21000 || registered.GetPortCount() != 1000 || registered.GetHost() != "host1" {
			t.Errorf("registered %v", registered)
		}
		// Its port is somebody else's: it may run elsewhere.
		w.send(plan(3, 7, granted("a", 9), withPort("a", taken)))
		w.advance(2 * time.Second)
		w.want("a:aborted:job_proxy_failed")
		if m := w.result("a").GetJob().GetError().GetMessage(); !strings.Contains(m, "port "+itoa(taken)) || !strings.Contains(m, "in use") {
			t.Errorf("error %q, want the port named", m)
		}
		if w.starts("a") != 0 {
			t.Error("it was started")
		}
	})
}
