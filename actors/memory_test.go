package actors

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/memory"
)

// share is what the job of a cookie uses of its memory_limit of 1 MiB, 0.2 to 0.3.
func share(cookie int32) float64 { return 0.2 + float64(cookie*37%100)/1000 }

// learner goes on from what a replica knows of the memory of an operation's task.
func (r *testReplica) learner(t *testing.T, id string) *memory.Learner {
	t.Helper()
	m := r.operation(id).GetTasks()[0].GetMemory()
	task := memory.Task{Limit: 1 << 20, Options: memory.Default()}
	l, err := memory.NewLearner(task, m.GetUserDigest(), m.GetProxyDigest(), m.GetSampleCount()-int64(len(m.GetSamples())))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range m.GetSamples() {
		if err := l.Absorb(memory.Sample{User: s.GetUser(), Proxy: s.GetProxy()}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// TestWhatJobsTeachOutlivesControllers crashes the replica that controls an operation while
// its jobs end: each of them has taught once in the end, at all replicas, and the next
// operation begins with that.
func TestWhatJobsTeachOutlivesControllers(t *testing.T) {
	c := startCluster(t, 3, nil)
	leader, second := c.leader(), c.follower()
	const jobs = 120
	for _, name := range []string{"n1", "n2"} {
		a := startAgent(t, c, name)
		a.set(func() { a.used = func(cookie int32) int64 { return int64(share(cookie) * (1 << 20)) } })
		a.finish()
	}
	id := c.controlledBy(second, "taught")
	leader.submit(t, id, jobs)
	eventually(t, "a third of the jobs are done", func() bool { return leader.counters(id).GetCompleted() > jobs/3 })
	rest := c.without(second)
	all := new(memory.Digest)
	for cookie := range int32(jobs) {
		if err := all.Add(float64(int64(share(cookie)*(1<<20))) / (1 << 20)); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range rest.replicas {
		r.await(t, id, "completed")
		if l := r.learner(t, id); l.Absorbed != jobs || !bytes.Equal(l.User.Encode(), all.Encode()) {
			t.Errorf("%s knows of %d jobs, want each of %d once", r.id, l.Absorbed, jobs)
		}
	}
	key := leader.operation(id).GetTasks()[0].GetMemory().GetProfile()
	for _, r := range rest.replicas {
		eventually(t, "its profile is there", func() bool { return r.records.Profile(key).GetSampleCount() == jobs })
	}
	want, _ := all.Quantile(memory.Quantile)
	next := rest.controlledBy(rest.replicas[0], "next")
	leader.submit(t, next, 5)
	leader.await(t, next, "completed")
	for _, job := range leader.operation(next).GetFinishedJobs() {
		if got := job.GetReserve().GetUserFactor(); got != want {
			t.Errorf("job of cookie %d of the next operation has %v of its limit, want %v", job.GetCookie(), got, want)
		}
	}
}

// TestWhatWasLearnedIsLeftLater has an operation end while nobody controls it, as when its
// replica has crashed. What it has learned is left when there are controllers again.
func TestWhatWasLearnedIsLeftLater(t *testing.T) {
	c := startCluster(t, 1, nil)
	r := c.leader()
	startAgent(t, c, "n1")
	const jobs, slots = 12, 4
	r.submit(t, "op", jobs)
	eventually(t, "jobs run", func() bool { return len(r.jobsOf("op")) == slots })
	r.stop(t, r.controllersPID)
	for done := 0; done < jobs; {
		for _, job := range r.jobsOf("op") {
			result := r.propose(t, &commandpb.FinishJobs{OperationId: "op", Epoch: 1, Time: timestamppb.New(time.Now()), Jobs: []*statepb.FinishedJob{
				{JobId: job, State: "completed", Sample: &statepb.MemorySample{User: .25}},
			}})
			if refusal := result.GetRefusal(); refusal != nil {
				t.Fatal(refusal)
			}
			done++
		}
		eventually(t, "more jobs run", func() bool { return len(r.jobsOf("op")) > 0 || done >= jobs })
	}
	r.await(t, "op", "completed")
	key := r.operation("op").GetTasks()[0].GetMemory().GetProfile()
	if p := r.records.Profile(key); p != nil {
		t.Fatalf("a profile is there: %v", p)
	}
	r.controllersPID = r.system.Root.Spawn(supervised(r.cfg.Logger, newControllersActor(r.ctx, r.Replica), true))
	eventually(t, "the profile is there", func() bool { return r.records.Profile(key).GetSampleCount() == jobs })
	eventually(t, "its controller has gone", func() bool { return r.Stats().Controllers == 0 })
	if !r.operation("op").GetTasks()[0].GetMemory().GetSaved() {
		t.Error("the operation does not know that its profile is there")
	}
	if got := r.records.Learning(key); got != nil {
		t.Errorf("it still teaches as one in progress: %v", got)
	}
}

// TestOperationsInProgressTeach (X4): one that begins while another of its profile goes on
// begins with what that has learned, however few jobs it was learned of, and of whichever
// replica it is asked. Two that run beside each other share it for as long as they do.
func TestOperationsInProgressTeach(t *testing.T) {
	c := startCluster(t, 3, nil)
	leader := c.leader()
	startAgent(t, c, "n1")
	leader.submit(t, "first", 8)
	eventually(t, "its jobs run", func() bool { return len(leader.jobsOf("first")) == 4 })
	key := leader.operation("first").GetTasks()[0].GetMemory().GetProfile()
	if got := leader.records.Learning(key); got != nil {
		t.Fatalf("it has learned %v before a job has ended", got)
	}
	result := leader.propose(t, &commandpb.FinishJobs{OperationId: "first", Epoch: 1, Time: timestamppb.Now(), Jobs: []*statepb.FinishedJob{
		{JobId: leader.jobsOf("first")[0], State: "completed", Sample: &statepb.MemorySample{User: .25}},
	}})
	if refusal := result.GetRefusal(); refusal != nil {
		t.Fatal(refusal)
	}
	for _, r := range c.replicas {
		eventually(t, r.id+" knows what it has learned", func() bool { return r.records.Learning(key).Samples() == 1 })
	}
	leader.submit(t, "second", 1)
	eventually(t, "the other one has its tasks", func() bool { return len(leader.operation("second").GetTasks()) == 1 })
	m := leader.operation("second").GetTasks()[0].GetMemory()
	if m.GetProfile() != key || !m.GetFromProfile() || m.GetReserve().GetUserFactor() != .25 {
		t.Errorf("it begins with %v, want a quarter of its limit, as was learned", m)
	}
}
