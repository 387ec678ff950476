package actors

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// interruptible submits an operation whose jobs can be asked to leave.
func (r *testReplica) interruptible(t *testing.T, id string, jobs int32) {
	t.Helper()
	result := r.propose(t, &commandpb.StartOperation{OperationId: id, User: "ann", Time: timestamppb.Now(), Spec: &statepb.OperationSpec{
		Type: "vanilla", MaxFailedJobCount: 10, Tasks: []*statepb.TaskSpec{{
			Name: "t", JobCount: jobs, Shell: "work", CpuLimitHundredths: 100, MemoryLimit: 1 << 20, InterruptionSignal: "SIGTERM",
		}},
	}})
	if refusal := result.GetRefusal(); refusal != nil {
		t.Fatalf("submit %s: %s", id, refusal.GetMessage())
	}
}

// stops returns the orders that jobs of an operation have, by job.
func (r *testReplica) stops(id string) map[string]*statepb.StopOrder {
	stops := map[string]*statepb.StopOrder{}
	r.store.View(func(s *state.State) {
		for _, a := range s.AllocationsOfOperation(scheduling.OperationID(id)) {
			if a.GetStop() != nil {
				stops[a.GetJobId()] = a.GetStop()
			}
		}
	})
	return stops
}

// TestLeaderCrashesWhileJobsLeave cuts the leader off while a job is preempted and
// another one leaves gracefully. Both keep their deadlines, nobody is preempted twice,
// and what the first one leaves is for whom it left. The agent of the second test does
// not say what it was told, so that the new leader tells it again.
func TestLeaderCrashesWhileJobsLeave(t *testing.T) {
	for name, forgetful := range map[string]bool{"the agent knows": false, "the agent has forgotten": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 3, nil)
			first, other := c.leader(), c.follower()
			a := startAgent(t, c, "n1")
			a.set(func() { a.forgetful = forgetful })
			greedy, starved := c.controlledBy(other, "greedy"), c.controlledBy(first, "starved")
			starve(t, other, greedy, starved, a, "20s")

			order := other.stops(greedy)
			var victim, asked string
			for job, stop := range order {
				if stop.GetPreemption() != "" {
					victim = job
				} else {
					asked = job
				}
			}
			for _, job := range []string{victim, asked} {
				// An order that took its time is repeated until the agent's deadline is near the one meant.
				near := order[job].Deadline().Add(testTiming().Node.Resend)
				eventually(t, "the agent is told of "+job, func() bool {
					return slices.ContainsFunc(a.told(job), func(told toldOrder) bool { return !told.deadline.After(near) })
				})
			}
			crashed := time.Now()
			leader := c.without(first).leader()
			term, _ := leader.store.Leadership()
			eventually(t, "the agent is registered with the new leader", func() bool {
				var again bool
				a.set(func() { again = a.registered > 1 && a.term == term.Term })
				return again
			})
			eventually(t, "the starved operation has its job", func() bool { return len(leader.jobsOf(starved)) == 1 })
			if deadline := order[victim].Deadline(); time.Now().Before(deadline) {
				t.Errorf("the victim has gone %s before its deadline", time.Until(deadline))
			}
			if got := leader.counters(greedy); got.GetAborted() != 1 || got.GetAbortedByReason()["preemption"] != 1 {
				t.Errorf("counted %v, want one job preempted", got)
			}
			if got := leader.stops(greedy); len(got) != 1 || got[asked] == nil {
				t.Errorf("jobs %v leave, want %s alone", got, asked)
			}
			for job, stop := range order {
				again := false
				for _, told := range a.told(job) {
					// Messages take their time, so what is heard may come later than meant.
					most := stop.GetGraceMillis()
					if told.term == term.Term {
						most = stop.Deadline().Sub(crashed).Milliseconds()
						again = again || told.GetGraceMillis() > 0
					}
					if told.GetGraceMillis() > most || told.GetGraceMillis() > 0 && told.deadline.Before(stop.Deadline().Add(-time.Second)) {
						t.Errorf("in term %d the agent was told to end %s in %d ms, by %s; want at most %d ms, by %s",
							told.term, job, told.GetGraceMillis(), told.deadline, most, stop.Deadline())
					}
				}
				if again != forgetful {
					t.Errorf("told again of %s by the new leader: %t, want %t", job, again, forgetful)
				}
			}
			a.finish()
			for _, id := range []string{greedy, starved} {
				leader.await(t, id, "completed")
			}
			if got := leader.counters(greedy); got.GetCompleted() != 4 || got.GetAborted() != 1 || got.GetFailed() != 0 {
				t.Errorf("counted %v, want 4 completed and 1 aborted", got)
			}
		})
	}
}

// starve has an operation fill the node, one of its jobs leave in an hour, and another
// one be preempted for a second operation, which leaves in such a time.
func starve(t *testing.T, r *testReplica, greedy, starved string, a *fakeAgent, leaves string) {
	t.Helper()
	r.propose(t, &commandpb.EditTree{Time: timestamppb.Now(), Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Change{Change: &commandpb.Changes{
		Values: map[string]*structpb.Value{
			"fair_share_starvation_timeout": structpb.NewStringValue("300ms"),
			"preemptive_scheduling_backoff": structpb.NewStringValue("100ms"),
			"allocation_preemption_timeout": structpb.NewStringValue(leaves),
		},
	}}}}})
	r.interruptible(t, greedy, 4)
	eventually(t, "the node is full", func() bool { return len(a.running()) == 4 })
	result := r.propose(t, &commandpb.StopJobs{OperationId: greedy, JobIds: a.running()[:1], Order: &statepb.StopOrder{
		Reason: "interruption_timeout", Interruption: "user_request", GraceMillis: 3_600_000, Time: timestamppb.Now(),
	}})
	if result.GetRefusal() != nil || result.GetFinishJobs().GetJobs()[0].GetRefusal() != "" {
		t.Fatalf("interrupt a job: %v", result)
	}
	// What leaves by itself counts no more: half of the node is three jobs less one.
	r.interruptible(t, starved, 2)
	eventually(t, "a job is preempted", func() bool { return len(r.stops(greedy)) == 2 })
}

// told returns the orders that the agent has heard for a job.
func (a *fakeAgent) told(job string) (orders []toldOrder) {
	a.set(func() { orders = append(orders, a.orders[job]...) })
	return orders
}

// TestInstancesAtAnyReplica interrupts a job and looks where it is reached, at every
// replica and from an agent.
func TestInstancesAtAnyReplica(t *testing.T) {
	c := startCluster(t, 3, nil)
	other := c.follower()
	a := startAgent(t, c, "n1")
	other.interruptible(t, "op", 2)
	eventually(t, "both jobs run", func() bool { return len(a.running()) == 2 })
	job := a.running()[0]
	// A gateway first waits for the grant that the agent names.
	eventually(t, "the agent of the jobs may follow them", func() bool { return other.MayFollow("n1", "op") })
	if other.MayFollow("n2", "op") || !other.MayFollow("n2", "of another time") {
		t.Error("another agent may follow them, or may not follow what has ended")
	}

	// Waits begun before must end with the news.
	seen := make(chan *actorpb.Instances, len(c.replicas)+1)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var before string
	for _, r := range slices.Backward(c.replicas) {
		eventually(t, r.id+" shows both", func() bool { return len(r.Instances(ctx, "op", "").GetInstances()) == 2 })
		version := r.Instances(ctx, "op", "").GetVersion()
		go func() { seen <- r.Instances(ctx, "op", version) }()
		before = version
	}
	go func() {
		// An agent is answered after a while though there is no news.
		for {
			answer, err := a.ask(peerOf(c.replicas[0].id), &actorpb.InstancesRequest{OperationId: "op", Version: before, WaitMillis: 1500})
			instances, ok := answer.(*actorpb.Instances)
			if err != nil || !ok {
				t.Errorf("an agent asks: %v, %v", answer, err)
			}
			if !ok || instances.GetVersion() != before {
				seen <- instances
				return
			}
		}
	}()
	other.propose(t, &commandpb.StopJobs{OperationId: "op", JobIds: []string{job}, Order: &statepb.StopOrder{
		Reason: "interruption_timeout", Interruption: "user_request", GraceMillis: 3_600_000, Time: timestamppb.Now(),
	}})
	for range len(c.replicas) + 1 {
		got := map[string]string{}
		for _, in := range (<-seen).GetInstances() {
			got[in.GetState()+" "+in.GetReason()] = in.GetJobId()
		}
		if len(got) != 2 || got["draining user_request"] != job || got["live "] == "" {
			t.Errorf("seen %v, want %s draining and another one live", got, job)
		}
	}
	a.finish()
	for _, r := range c.replicas {
		eventually(t, fmt.Sprint(r.id, " shows that the operation is over, and who has gone"), func() bool {
			now := r.Instances(ctx, "op", "")
			return now.GetOver() && len(now.GetInstances()) == 1 && now.GetInstances()[0].GetJobId() == job && now.GetInstances()[0].GetState() == actorpb.InstanceGone
		})
	}
}
