package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"weir/messages/apipb"
)

// TestInterruption (I3, I5) is how jobs leave: because users, operators or others want them to.
// Each part has an agent and a tree of its own.
func TestInterruption(t *testing.T) {
	c := newCluster(t, here, "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8")
	c.ready(t, 0)
	c.ask(t, "TreeService/Set", object{"tree": "default", "options": object{"nodes_filter": "!ends & !rivals & !service & !late & !packed & !maps"}}, &apipb.SetTreeResponse{})
	trees := map[string]object{
		"ends": {}, "service": {}, "late": {},
		"rivals": {"fair_share_starvation_timeout": "4s", "preemptive_scheduling_backoff": "2s", "allocation_preemption_timeout": "30s"},
		"maps":   {"fair_share_starvation_timeout": "1s", "preemptive_scheduling_backoff": "500ms", "allocation_preemption_timeout": "1m"},
		"packed": {"fair_share_starvation_timeout": "1s", "preemptive_scheduling_backoff": "500ms", "fair_share_aggressive_starvation_timeout": "3s"},
	}
	for tree, options := range trees {
		c.ask(t, "TreeService/Create", object{"tree": tree, "options": options.with("nodes_filter", tree)}, &apipb.CreateTreeResponse{})
	}
	c.startAgent("n1", "--tags", "ends")
	c.startAgent("n2", "--tags", "rivals")
	c.startAgent("n3", "--tags", "service", "--ports", freeRange(t, 10))
	c.startAgent("n4", "--tags", "late")
	for _, agent := range []string{"n5", "n6"} {
		c.startAgent(agent, "--tags", "packed", "--cpu", "8")
	}
	for _, agent := range []string{"n7", "n8"} {
		c.startAgent(agent, "--tags", "maps", "--cpu", "2")
	}
	c.ready(t, 8)
	for name, part := range map[string]func(*testing.T, *cluster){
		"ends of interrupted jobs": endsOfInterruptedJobs, "before its process": interruptedBeforeItsProcess,
		"rivals": rivals, "half a node": halfANode, "a service": aService,
		"a map": aMap,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, c)
		})
	}
}

// freeRange returns a range of ports that are free now, as agents take it.
func freeRange(t testing.TB, count int) string {
	t.Helper()
	for range 100 {
		first := freePorts(t, here, 1)[0]
		free := first+count < 32768
		for port := first; free && port < first+count; port++ {
			free = isFree(here, port)
		}
		if free {
			return fmt.Sprintf("%d-%d", first, first+count-1)
		}
	}
	t.Fatalf("no %d free ports in a row", count)
	return ""
}

// in puts an operation into one tree.
func in(tree string) object { return object{"pool_trees": []string{tree}} }

// leaving is a task of jobs that can be asked to go.
func leaving(count int, arguments ...string) object {
	return small(count, arguments...).with("interruption_signal", "SIGTERM")
}

// job reads one job.
func (c *cluster) job(t testing.TB, id string) *apipb.Job {
	t.Helper()
	var answer apipb.GetJobResponse
	c.ask(t, "JobService/Get", object{"job_id": id}, &answer)
	return answer.GetJob()
}

// left waits until a job has ended.
func (c *cluster) left(t testing.TB, id string) (job *apipb.Job) {
	t.Helper()
	until(t, "job "+id+" has ended", func() string {
		if job = c.job(t, id); job.GetFinishTime() == nil {
			return job.String()
		}
		return ""
	})
	return job
}

func (c *cluster) interrupt(t testing.TB, job string, timeout time.Duration) (deadline time.Time) {
	t.Helper()
	var answer apipb.InterruptJobResponse
	c.ask(t, "JobService/Interrupt", object{"job_id": job, "timeout_millis": fmt.Sprint(timeout.Milliseconds()), "reason": "a test"}, &answer)
	if answer.GetDeadline() == nil {
		// An earlier try was answered in vain, and the job has left.
		return c.job(t, job).GetInterruption().GetDeadline().AsTime()
	}
	return answer.GetDeadline().AsTime()
}

// begun waits until the first job of an operation has written that it runs, so that it
// hears signals.
func (c *cluster) begun(t testing.TB, operation, log string) *apipb.Job {
	t.Helper()
	job := c.runs(t, operation, 1)[0]
	until(t, "the job has begun", func() string {
		if lines := readLines(t, log); len(lines) > 0 {
			return ""
		}
		return "nothing is in " + log
	})
	return job
}

// hears says whether a job has written to a folder that it runs, so that it hears signals.
func hears(t testing.TB, dir, job string) bool {
	for _, lines := range witnessed(t, dir) {
		if slices.ContainsFunc(lines, func(l line) bool { return l.job == job }) {
			return true
		}
	}
	return false
}

// endsOfInterruptedJobs has a real process for each line of J.3.
func endsOfInterruptedJobs(t *testing.T, c *cluster) {
	for name, test := range map[string]struct {
		code string
		// deaf: it does not hear the signal. Its time is short then.
		deaf bool
		// again: it is interrupted a second time, with a time of this.
		again time.Duration

		wantState, wantAbort, wantOperation string
		wantRerun                           bool
	}{
		"exits with 0":                 {code: "0", wantState: "completed", wantOperation: "completed"},
		"exits with 7":                 {code: "7", wantState: "failed", wantOperation: "failed"},
		"exits with restart_exit_code": {code: "75", wantState: "completed", wantRerun: true, wantOperation: "running"},
		"ignores the signal":           {deaf: true, wantState: "aborted", wantAbort: "interruption_timeout", wantOperation: "running"},
		"the earlier deadline wins":    {deaf: true, again: time.Hour, wantState: "aborted", wantAbort: "interruption_timeout", wantOperation: "running"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := c.folder(t)
			log, task, timeout := filepath.Join(dir, "task-0.log"), leaving(1, "leave", dir, test.code), time.Minute
			if test.deaf {
				log, timeout = filepath.Join(dir, "deaf"), 2*time.Second
				task = leaving(1, "deaf", log)
			}
			if test.again != 0 {
				// It has to be there still when it is interrupted again.
				timeout = 15 * time.Second
			}
			operation := c.start(t, one(task.with("restart_exit_code", 75), in("ends"), object{"max_failed_job_count": 1}))
			job := c.begun(t, operation, log)
			deadline := c.interrupt(t, job.GetId(), timeout)
			if test.again != 0 {
				if later := c.interrupt(t, job.GetId(), test.again); !later.Equal(deadline) {
					t.Errorf("deadline %s after a second interruption, want %s", later, deadline)
				}
			}
			ended := c.left(t, job.GetId())
			if ended.GetState() != test.wantState || ended.GetAbortReason() != test.wantAbort || ended.GetRerun() != test.wantRerun {
				t.Errorf("it is %s %q, rerun %t; want %s %q, %t", ended.GetState(), ended.GetAbortReason(), ended.GetRerun(), test.wantState, test.wantAbort, test.wantRerun)
			}
			if how := ended.GetInterruption(); how.GetReason() != "user_request" || !how.GetDeadline().AsTime().Equal(deadline) {
				t.Errorf("it ended under %v, want a user's request until %s", how, deadline)
			}
			// What the node says and what the replicas say is by one clock here.
			if at := ended.GetFinishTime().AsTime(); test.deaf && at.Before(deadline) || at.After(deadline.Add(patience/2)) {
				t.Errorf("it ended at %s, its deadline was %s", at, deadline)
			}
			if test.wantOperation != "running" {
				c.ends(t, operation, test.wantOperation)
				return
			}
			if next := c.runs(t, operation, 1)[0]; next.GetId() == job.GetId() || next.GetCookie() != 0 {
				t.Errorf("after it runs %v, want another attempt of its cookie", next)
			}
			c.abort(t, operation)
		})
	}
	t.Run("cannot be asked", func(t *testing.T) {
		t.Parallel()
		operation := c.start(t, one(small(1, "run", c.folder(t), "1m"), in("ends")))
		job := c.runs(t, operation, 1)[0]
		refused := c.refusedBy(t, "r1", "JobService/Interrupt", `{"job_id": "`+job.GetId()+`"}`)
		wantIn(t, "the refusal", refused.Message, []string{"interruption_signal", "weir job abort"})
		c.abort(t, operation)
	})
}

// interruptedBeforeItsProcess asks a job to leave that its agent has not heard of.
func interruptedBeforeItsProcess(t *testing.T, c *cluster) {
	agent := c.process("n4")
	var dir, operation string
	var job *apipb.Job
	until(t, "a job is granted to a frozen agent", func() string {
		// The node has had its first heartbeats, and is given jobs. It is frozen for less than
		// its lease. A leader that comes meanwhile gives it none before it has heard of it.
		c.ends(t, c.start(t, one(small(1, "run", c.folder(t), "0s"), in("late"))), "completed")
		agent.pause(t)
		dir = c.folder(t)
		operation = c.start(t, one(leaving(1, "leave", dir, "0"), in("late")))
		missing := settle(5*time.Second, func() string {
			if jobs := c.jobs(t, operation); len(jobs) > 0 {
				job = jobs[0]
				return ""
			}
			return "none is"
		})
		if missing != "" {
			agent.resume(t)
			c.abort(t, operation)
		}
		return missing
	})
	c.interrupt(t, job.GetId(), time.Minute)
	agent.resume(t)
	ended := c.left(t, job.GetId())
	if ended.GetState() != "aborted" || ended.GetAbortReason() != "interruption_timeout" || ended.GetPid() != 0 {
		t.Errorf("it ended as %v, want it aborted before its process", ended)
	}
	c.begun(t, operation, filepath.Join(dir, "task-0.log"))
	c.abort(t, operation)
}

// preempted returns jobs of an operation that were preempted, by when they were told.
func (c *cluster) preempted(t testing.TB, operation, kind string) (jobs []*apipb.Job) {
	t.Helper()
	for _, job := range c.jobs(t, operation) {
		if job.GetInterruption().GetPreemption() == kind {
			jobs = append(jobs, job)
		}
	}
	slices.SortFunc(jobs, func(a, b *apipb.Job) int {
		return a.GetInterruption().GetTime().AsTime().Compare(b.GetInterruption().GetTime().AsTime())
	})
	return jobs
}

// staying are jobs that run and have not been told to go.
func (c *cluster) staying(t testing.TB, operation string) []*apipb.Job {
	t.Helper()
	return slices.DeleteFunc(c.jobs(t, operation, "running"), func(job *apipb.Job) bool { return job.GetInterruption() != nil })
}

// rivals share a node of 16 cores: one has it all when the other comes.
func rivals(t *testing.T, c *cluster) {
	c.pool(t, "rivals", "greedy", object{})
	c.pool(t, "rivals", "hungry", object{})
	dir := c.folder(t)
	member := func(count int, pool string) string {
		task := leaving(count, "leave", dir, "0").with("cpu_limit", 1).with("restart_completed_jobs", true)
		return c.start(t, one(task, in("rivals"), object{"pool": pool}))
	}
	greedy := member(40, "greedy")
	first := c.runs(t, greedy, slots)
	// Two of its jobs are replaced, so that it is known which are the latest. They hear
	// signals before anybody is preempted.
	for _, job := range first[:2] {
		c.ask(t, "JobService/Abort", object{"job_id": job.GetId()}, &apipb.AbortJobResponse{})
	}
	var latest []string
	until(t, "two jobs are replaced", func() string {
		latest = nil
		for _, job := range c.staying(t, greedy) {
			if !slices.ContainsFunc(first, func(old *apipb.Job) bool { return old.GetId() == job.GetId() }) && hears(t, dir, job.GetId()) {
				latest = append(latest, job.GetId())
			}
		}
		if len(latest) == 2 && len(c.staying(t, greedy)) == slots {
			return ""
		}
		return fmt.Sprint(latest)
	})
	hungry := member(2, "hungry")
	c.runs(t, hungry, 2)
	starvedFrom := c.get(t, hungry).GetStartTime().AsTime()

	victims := c.preempted(t, greedy, "preemption")
	if len(victims) != 2 {
		t.Fatalf("preempted are %v, want two", victims)
	}
	for _, victim := range victims {
		how := victim.GetInterruption()
		if !slices.Contains(latest, victim.GetId()) {
			t.Errorf("job %s was preempted, want the latest, %v", victim.GetId(), latest)
		}
		if how.GetPreemptedForOperation() != hungry || how.GetTimeoutMillis() != 30_000 || how.GetMessage() == "" {
			t.Errorf("it was told %v, want 30 s to make room for %s", how, hungry)
		}
		if ended := c.left(t, victim.GetId()); ended.GetState() != "completed" {
			t.Errorf("it ended as %v, want it completed", ended)
		}
	}
	if hasWaited := victims[0].GetInterruption().GetTime().AsTime().Sub(starvedFrom); hasWaited < 4*time.Second {
		t.Errorf("the first was preempted after %s, before anybody starved", hasWaited)
	}
	if between := victims[1].GetInterruption().GetTime().AsTime().Sub(victims[0].GetInterruption().GetTime().AsTime()); between < 2*time.Second {
		t.Errorf("the second was preempted %s after the first, less than the backoff", between)
	}
	shown := c.get(t, greedy).GetPreempted()
	if len(shown) != 1 || shown[0].GetKind() != "preemption" || shown[0].GetForOperation() != hungry || shown[0].GetGone() != 2 {
		t.Errorf("the operation shows %v", shown)
	}
	if others := c.get(t, hungry).GetPreemptedOthers(); others["preemption"] != 2 {
		t.Errorf("the other one shows that %v had to go for it", others)
	}

	c.change(t, "rivals", "greedy", object{"resource_limits": object{"cpu": 10}})
	c.fallsTo(t, 10, greedy)
	if jobs := c.preempted(t, greedy, "resource_limits_violated"); len(jobs) != 4 {
		t.Errorf("%d jobs went for the limit, want 4", len(jobs))
	}

	// The agent comes back, with its jobs, to a smaller machine.
	c.process("n2").kill()
	c.startAgent("n2", "--tags", "rivals", "--cpu", "8")
	c.fallsTo(t, 8, greedy, hungry)
	overcommitted := append(c.preempted(t, greedy, "resource_overcommit"), c.preempted(t, hungry, "resource_overcommit")...)
	if len(overcommitted) != 4 {
		t.Errorf("%d jobs went because the node has shrunk, want 4", len(overcommitted))
	}
	for _, job := range overcommitted {
		if how := job.GetInterruption(); how.GetAbortReason() != "node_resource_overcommit" || how.GetPreemptedForOperation() != "" {
			t.Errorf("job %s was told %v", job.GetId(), how)
		}
	}
	c.abort(t, greedy, hungry)
}

// halfANode has small jobs everywhere, and a job of half a node come beside them. On no
// node are enough of the small ones beyond their share, so it gets its place only once it
// may starve aggressively.
func halfANode(t *testing.T, c *cluster) {
	c.pool(t, "packed", "both", object{})
	member := func(count int, cores float64) string {
		task := leaving(count, "leave", c.folder(t), "0").with("cpu_limit", cores).with("restart_completed_jobs", true)
		return c.start(t, one(task, in("packed"), object{"pool": "both"}))
	}
	small := member(40, 1)
	first := c.runs(t, small, 16)
	// The latest four, those beyond the share of 12, are two on each node.
	replaced := map[string]int{}
	for _, job := range first {
		if replaced[job.GetNode()] < 2 {
			replaced[job.GetNode()]++
			c.ask(t, "JobService/Abort", object{"job_id": job.GetId()}, &apipb.AbortJobResponse{})
		}
	}
	until(t, "four jobs are replaced", func() string { return fewer(len(c.staying(t, small))+len(c.jobs(t, small, "aborted")), 20) })
	big := member(1, 4)
	began := time.Now()
	until(t, "the big one has starved for long enough to starve aggressively", func() string {
		if trees := c.get(t, big).GetTrees(); len(trees) != 1 || trees[0].GetFairShare() < .2 {
			began = time.Now()
			return fmt.Sprintf("its fair share: %v", trees)
		}
		return fewer(int(time.Since(began).Seconds()), 5)
	})
	if jobs := c.get(t, small).GetPreempted(); len(jobs) != 0 || len(c.jobs(t, big)) != 0 {
		t.Errorf("%v were preempted though aggressive starvation is off", jobs)
	}
	c.ask(t, "TreeService/Set", object{"tree": "packed", "options": object{"enable_aggressive_starvation": true}}, &apipb.SetTreeResponse{})
	where := c.runs(t, big, 1)[0].GetNode()
	victims := c.preempted(t, small, "aggressive_preemption")
	if len(victims) != 4 {
		t.Errorf("%d jobs went, want 4: no more than it needs", len(victims))
	}
	for _, victim := range victims {
		if victim.GetNode() != where || victim.GetInterruption().GetPreemptedForOperation() != big {
			t.Errorf("job %v went, want those of %s, for the big one", victim, where)
		}
	}
	c.abort(t, small, big)
}

// fallsTo waits until so many jobs of operations run and none is on its way out.
func (c *cluster) fallsTo(t testing.TB, count int, operations ...string) {
	t.Helper()
	until(t, fmt.Sprintf("%d jobs are left", count), func() string {
		staying, all := 0, 0
		for _, operation := range operations {
			staying += len(c.staying(t, operation))
			all += len(c.jobs(t, operation, "waiting", "running", "aborting"))
		}
		if staying == count && all == count {
			return ""
		}
		return fmt.Sprintf("%d jobs, of which %d stay", all, staying)
	})
}

// release lets the instances of a service end that have been asked to.
func release(t testing.TB, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
