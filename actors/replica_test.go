package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// TestLifeOfOperations leads operations through three replicas and two agents,
// controlled by the leader and by another, and looks at them by way of a follower.
func TestLifeOfOperations(t *testing.T) {
	c := startCluster(t, 3, nil)
	leader, follower := c.leader(), c.follower()
	agents := []*fakeAgent{startAgent(t, c, "n1"), startAgent(t, c, "n2")}
	here, there := c.controlledBy(leader, "here"), c.controlledBy(follower, "there")
	follower.submit(t, here, 3)
	leader.submit(t, there, 3)
	eventually(t, "all jobs run", func() bool { return len(agents[0].running())+len(agents[1].running()) == 6 })
	for id, want := range map[string]string{here: leader.id, there: follower.id} {
		if got := follower.operation(id).GetAssignment().GetReplica(); got != want {
			t.Errorf("operation %s is controlled by %s, want %s", id, got, want)
		}
	}
	t.Run("a follower reads what was written elsewhere", func(t *testing.T) { readsWrites(t, leader, follower) })
	t.Run("a follower tells what the leader sees", func(t *testing.T) { seesAll(t, follower, agents) })
	t.Run("an agent speaks for itself only", func(t *testing.T) { speaksForItself(t, leader, agents[0]) })
	for _, a := range agents {
		a.finish()
	}
	for _, r := range c.replicas {
		for _, id := range []string{here, there} {
			r.await(t, id, "completed")
			if got := r.counters(id); got.GetCompleted() != 3 || got.GetAborted() != 0 || got.GetFailed() != 0 {
				t.Errorf("operation %s at %s: counted %v, want 3 completed", id, r.id, got)
			}
		}
	}
	eventually(t, "controllers have gone with their operations", func() bool { return leader.Stats().Controllers+follower.Stats().Controllers == 0 })
}

func readsWrites(t *testing.T, leader, follower *testReplica) {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for i := range 20 {
		name := fmt.Sprint("pool-", i)
		if r := leader.propose(t, createPool(name)).GetRefusal(); r != nil {
			t.Fatal(r)
		}
		if err := follower.ReadBarrier(ctx); err != nil {
			t.Fatal(err)
		}
		if tree, ok := follower.records.Pools("default"); !ok || !tree.Has(scheduling.PoolName(name)) {
			t.Fatalf("pool %s was answered for and is not in the follower's state after a barrier", name)
		}
	}
}

func seesAll(t *testing.T, follower *testReplica, agents []*fakeAgent) {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var view *actorpb.SchedulerView
	var running int64
	// It is of the last update, when some jobs may not have been granted.
	eventually(t, "the scheduler shows all jobs", func() bool {
		var err error
		if view, err = follower.SchedulerView(ctx, &actorpb.SchedulerViewRequest{}); err != nil {
			t.Fatal(err)
		}
		running = 0
		for _, element := range view.GetElements() {
			running += element.GetRunningJobs()
		}
		return running >= 6
	})
	if running != 6 || len(view.GetNodes()) != 2 || view.GetTotal().GetUserSlots() != 8 || view.GetUpdated() == nil {
		t.Errorf("got %d running jobs and %d nodes with %v as of %v, want 6 and 2 with 8 slots", running, len(view.GetNodes()), view.GetTotal(), view.GetUpdated().AsTime())
	}
	for _, node := range view.GetNodes() {
		if node.GetLeaseLeftMillis() <= 0 || node.GetLastHeartbeat() == nil {
			t.Errorf("node %s: nothing is known of its lease: %v", node.GetId(), node)
		}
	}
	for _, a := range agents {
		jobs := a.running()
		eventually(t, "the jobs of "+a.name+" are known", func() bool {
			live, err := follower.JobLive(ctx, append([]string{"nobody's"}, jobs...))
			return err == nil && len(live.GetJobs()) == len(jobs) && (len(jobs) == 0 || live.GetJobs()[0].GetMemory() == 7)
		})
		part, err := follower.ReadOutput(ctx, &actorpb.ReadOutput{Node: a.name, JobId: "j", Stream: "stderr"})
		if err != nil || string(part.GetData()) != "stderr of j" {
			t.Errorf("output of %s: %q, %v", a.name, part.GetData(), err)
		}
	}
	_, err := follower.ReadOutput(ctx, &actorpb.ReadOutput{Node: "nobody", JobId: "j"})
	var refused *actorpb.Refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "not connected") {
		t.Errorf("output of a node that is not there: %v", err)
	}
}

func speaksForItself(t *testing.T, leader *testReplica, a *fakeAgent) {
	for name, msg := range map[string]*actorpb.Heartbeat{
		"another's name": {Node: "n2", Incarnation: a.incarnation, Sequence: 1 << 40},
		"no name":        {Incarnation: a.incarnation, Sequence: 1 << 40},
	} {
		answer, err := a.ask(peerOf(leader.id), msg)
		if refused, ok := answer.(*actorpb.Refused); err != nil || !ok || refused.GetCode() != "wrong_identity" {
			t.Errorf("%s: got %v, %v, want wrong_identity", name, answer, err)
		}
	}
}

// TestLeaderCrashes cuts the leader off while jobs run: nobody notices but the
// operations that it controlled, which get another controller.
func TestLeaderCrashes(t *testing.T) {
	c := startCluster(t, 3, nil)
	first, other := c.leader(), c.follower()
	agents := []*fakeAgent{startAgent(t, c, "n1"), startAgent(t, c, "n2")}
	moved, kept := c.controlledBy(first, "moved"), c.controlledBy(other, "kept")
	other.submit(t, moved, 3)
	other.submit(t, kept, 3)
	eventually(t, "all jobs run", func() bool { return len(agents[0].running())+len(agents[1].running()) == 6 })
	before := append(agents[0].running(), agents[1].running()...)

	was, _ := first.store.Leadership()
	rest := c.without(first)
	eventually(t, "the dead leader's operation has another controller", func() bool {
		return other.operation(moved).GetAssignment().GetReplica() != first.id
	})
	if got := other.operation(moved).GetAssignment().GetEpoch(); got != 2 {
		t.Errorf("the operation that moved has epoch %d, want 2", got)
	}
	if got := other.operation(kept).GetAssignment(); got.GetReplica() != other.id || got.GetEpoch() != 1 {
		t.Errorf("the other operation is at %v, want it where it was", got)
	}
	late := other.propose(t, &commandpb.FinishJobs{OperationId: moved, Epoch: 1, Time: timestamppb.Now(),
		Jobs: []*statepb.FinishedJob{{JobId: other.jobsOf(moved)[0], State: "completed"}}})
	if got := late.GetRefusal().GetCode(); got != "stale_epoch" {
		t.Errorf("results of the controller before: %q, want stale_epoch", got)
	}
	for _, a := range agents {
		eventually(t, a.name+" is registered with the new leader", func() (again bool) {
			a.set(func() { again = a.term > was.Term })
			return again
		})
	}
	if after := append(agents[0].running(), agents[1].running()...); !slices.Equal(before, after) {
		t.Errorf("jobs %v run, want those of before the crash: %v", after, before)
	}
	for _, a := range agents {
		a.finish()
	}
	for _, r := range rest.replicas {
		for _, id := range []string{moved, kept} {
			r.await(t, id, "completed")
			if got := r.counters(id); got.GetCompleted() != 3 || got.GetAborted() != 0 || got.GetFailed() != 0 {
				t.Errorf("operation %s at %s: counted %v, want 3 completed", id, r.id, got)
			}
		}
	}
	for _, a := range agents {
		a.set(func() {
			for cookie, n := range a.started {
				if n != 1 {
					t.Errorf("%s ran %d times at %s, want once", cookie, n, a.name)
				}
			}
		})
	}
	withoutQuorum(t, rest)
}

// withoutQuorum crashes one of the last two replicas, so that the other one leads no more.
func withoutQuorum(t *testing.T, c *testCluster) {
	alone := c.without(c.follower()).replicas[0]
	eventually(t, "no leader is known", func() bool {
		current, _ := alone.store.Leadership()
		return !current.Leader && current.LeaderID == ""
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := alone.Propose(ctx, createPool("p"))
	if !errors.Is(err, ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("propose without a quorum: %v, want %v", err, ErrNoLeader)
	}
	if err := alone.ReadBarrier(ctx); !errors.Is(err, ErrNoLeader) {
		t.Errorf("read without a quorum: %v, want %v", err, ErrNoLeader)
	}
	if _, err := alone.SchedulerView(ctx, &actorpb.SchedulerViewRequest{}); !errors.Is(err, ErrNoLeader) {
		t.Errorf("what the scheduler sees without a quorum: %v, want %v", err, ErrNoLeader)
	}
}

// nodesAreLost gives nodes as little time as those may need that live, on a machine that
// stands still for ten seconds.
func nodesAreLost(cfg *Config) {
	cfg.Timing.Node.Lease, cfg.Timing.Node.Kill = 15*time.Second, 100*time.Millisecond
}

// TestLostNode stops an agent: after its lease, its jobs run elsewhere. When it
// comes back in a new life, it is given nothing of its old one.
func TestLostNode(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, nodesAreLost)
	r := c.leader()
	lost := startAgent(t, c, "n1")
	r.submit(t, "op", 4)
	eventually(t, "all jobs run", func() bool { return len(lost.running()) == 4 })
	lost.stop()
	heir := startAgent(t, c, "n2")
	eventually(t, "all jobs run elsewhere", func() bool { return len(heir.running()) == 4 })
	if got := r.counters("op"); got.GetAborted() != 4 {
		t.Errorf("%v are counted, want 4 aborted", got)
	}
	back := startAgent(t, c, "n1")
	eventually(t, "the node is back", func() bool {
		record, _, _ := r.records.Node("n1")
		return record.GetState() == "online" && record.GetIncarnation() == back.incarnation
	})
	heir.finish()
	r.await(t, "op", "completed")
	if got := back.running(); len(got) != 0 {
		t.Errorf("the node that is back runs %v", got)
	}
}

// TestSteering suspends an operation with its jobs, resumes and aborts it: orders
// reach agents as state.
func TestSteering(t *testing.T) {
	c := startCluster(t, 1, nil)
	r := c.leader()
	a := startAgent(t, c, "n1")
	r.submit(t, "op", 2)
	eventually(t, "all jobs run", func() bool { return len(a.running()) == 2 })
	first := a.running()
	r.propose(t, &commandpb.SuspendOperation{OperationId: "op", User: "ann", Time: timestamppb.Now(), AbortRunningJobs: true})
	eventually(t, "the jobs have ended", func() bool { return r.counters("op").GetAborted() == 2 && len(a.running()) == 0 })
	r.propose(t, &commandpb.ResumeOperation{OperationId: "op", User: "ann", Time: timestamppb.Now()})
	eventually(t, "other jobs run", func() bool { return len(a.running()) == 2 })
	for _, job := range a.running() {
		if slices.Contains(first, job) {
			t.Errorf("job %s runs again, want another attempt", job)
		}
	}
	r.propose(t, &commandpb.AbortOperation{OperationId: "op", User: "ann", Reason: "enough", Time: timestamppb.Now()})
	r.await(t, "op", "aborted")
}

// TestOverload fills a leader's gateway with requests that nobody answers.
func TestOverload(t *testing.T) {
	const limit = 8
	c := startCluster(t, 3, func(cfg *Config) { cfg.Gateway.InFlight = limit })
	follower := c.follower()
	a := startAgent(t, c, "n1")
	eventually(t, "the agent is registered", func() bool {
		var ok bool
		a.set(func() { ok, a.stuck = a.registered > 0, true })
		return ok
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range limit {
		a.work.Go(func() {
			for ctx.Err() == nil && a.pause(time.Millisecond) {
				_, _ = follower.ReadOutput(ctx, &actorpb.ReadOutput{Node: "n1", JobId: "j"})
			}
		})
	}
	eventually(t, "a proposal is refused", func() bool {
		_, err := follower.Propose(ctx, createPool("p"))
		if err != nil && !errors.Is(err, ErrOverloaded) {
			t.Fatalf("got %v, want %v", err, ErrOverloaded)
		}
		return err != nil
	})
}

func createPool(name string) *commandpb.EditTree {
	return &commandpb.EditTree{Time: timestamppb.Now(), Edits: []*commandpb.TreeEdit{
		{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: name}}}}}
}
