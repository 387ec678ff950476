package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/messages/apipb"
)

// steps names the states that events show an operation entered, in order.
func (c *cluster) steps(t *testing.T, operation string) (states, notes []string) {
	t.Helper()
	var answer apipb.OperationEventsResponse
	c.ask(t, "OperationService/Events", object{"operation": operation}, &answer)
	var last *apipb.OperationEvent
	for _, event := range answer.GetEvents() {
		if event.GetTime() == nil || last != nil && (event.GetTime().AsTime().Before(last.GetTime().AsTime()) || event.GetIndex() < last.GetIndex()) {
			t.Errorf("event %v comes after %v", event, last)
		}
		if len(states) == 0 || states[len(states)-1] != event.GetState() {
			states = append(states, event.GetState())
		}
		notes = append(notes, event.GetNote())
		last = event
	}
	return states, notes
}

// wholeLife looks at the steps of an operation from each replica.
func wholeLife(t *testing.T, c *cluster) {
	operation := c.start(t, one(small(3, "run", c.folder(t), "10ms"), object{"title": "whole", "annotations": object{"team": "ads"}, "alias": "*whole"}))
	c.ends(t, operation, "completed")
	op := c.get(t, operation)
	want := []string{"starting", "waiting_for_agent", "initializing", "preparing", "pending", "materializing", "running", "completing", "completed"}
	if got, _ := c.steps(t, operation); !slices.Equal(got, want) {
		t.Errorf("states %v, want %v", got, want)
	}
	if op.GetFinishTime() == nil || !op.GetFinishTime().AsTime().After(op.GetStartTime().AsTime()) {
		t.Errorf("from %v to %v", op.GetStartTime(), op.GetFinishTime())
	}
	if op.GetUser() != "admin" || op.GetTitle() != "whole" || op.GetPool() != "default" || op.GetAnnotations().AsMap()["team"] != "ads" {
		t.Errorf("operation %v", op)
	}
	// The alias is free again, and the next has it.
	next := c.start(t, one(small(1, "run", c.folder(t), "10ms"), object{"alias": "*whole"}))
	if got := c.get(t, "*whole").GetId(); got != next {
		t.Errorf("*whole is %s, want %s", got, next)
	}
	c.ends(t, "*whole", "completed")
}

// readEverywhere reads states and output at each replica.
func readEverywhere(t *testing.T, c *cluster) {
	operation := c.start(t, one(small(1).with("shell", true).with("command", "echo out; echo err >&2")))
	c.ends(t, operation, "completed")
	job := c.jobs(t, operation)[0].GetId()
	for _, replica := range replicaNames {
		until(t, replica+" shows the output", func() string {
			var got apipb.GetOperationResponse
			var out, err apipb.JobOutputResponse
			for _, call := range []error{
				c.call(t.Context(), replica, "OperationService/Get", object{"operation": operation}, &got),
				c.call(t.Context(), replica, "JobService/Output", object{"job_id": job, "stream": "stdout"}, &out),
				c.call(t.Context(), replica, "JobService/Output", object{"job_id": job, "stream": "stderr"}, &err),
			} {
				if call != nil {
					return call.Error()
				}
			}
			if got.GetOperation().GetState() != "completed" || out.GetText() != "out\n" || err.GetText() != "err\n" {
				t.Errorf("%s shows %s, %q, %q", replica, got.GetOperation().GetState(), out.GetText(), err.GetText())
			}
			return ""
		})
	}
}

// readYourWrites asks another replica than the one that answered a start.
func readYourWrites(t *testing.T, c *cluster) {
	for i := range 12 {
		spec := one(small(1).with("command", []string{"true"}))
		var started apipb.StartResponse
		c.ask(t, "OperationService/Start", object{"spec": spec, "mutation_id": fmt.Sprint("read your writes ", i)}, &started)
		var got apipb.GetOperationResponse
		c.reads(t, replicaNames[i%3], "OperationService/Get", object{"operation": started.GetOperationId()}, &got)
	}
}

// suspendAndResume holds an operation twice: without its jobs, and with them.
func suspendAndResume(t *testing.T, c *cluster) {
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	// Not at agents that other parts end.
	operation := c.start(t, one(small(40, "run", dir, release), object{"scheduling_tag_filter": "steady"}))
	c.runs(t, operation, 40)
	c.ask(t, "OperationService/Suspend", object{"operation": operation, "abort_running_jobs": true}, &apipb.SuspendOperationResponse{})
	op := c.becomes(t, operation, "is suspended with its jobs", func(op *apipb.Operation) bool { return op.GetSuspended() && op.GetProgress().GetRunning() == 0 })
	if p := op.GetProgress(); p.GetAbortedByReason()["operation_suspended"] != 40 || p.GetPending() != 40 {
		t.Errorf("progress %v, want 40 aborted by the suspension, and pending", p)
	}
	c.ask(t, "OperationService/Resume", object{"operation": operation}, &apipb.ResumeOperationResponse{})
	before := c.runs(t, operation, 40)
	c.ask(t, "OperationService/Suspend", object{"operation": operation}, &apipb.SuspendOperationResponse{})
	for _, job := range before[:2] {
		c.ask(t, "JobService/Abort", object{"job_id": job.GetId()}, &apipb.AbortJobResponse{})
	}
	op = c.becomes(t, operation, "has two pending jobs", func(op *apipb.Operation) bool { return op.GetProgress().GetPending() == 2 })
	if p := op.GetProgress(); !op.GetSuspended() || p.GetRunning() != 38 {
		t.Errorf("%v, want the others to run on", p)
	}
	c.ask(t, "OperationService/Resume", object{"operation": operation}, &apipb.ResumeOperationResponse{})
	c.runs(t, operation, 40)
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := c.ends(t, operation, "completed").GetProgress(); p.GetCompleted() != 40 || p.GetAborted() != 42 || p.GetFailed() != 0 {
		t.Errorf("progress %v, want 40 completed after 42 were aborted", p)
	}
	for cookie, lines := range witnessed(t, dir) {
		if last := lines[len(lines)-1]; last.what != "end" || len(lines) > 4 {
			t.Errorf("%s: %v", cookie, lines)
		}
	}
	_, notes := c.steps(t, operation)
	wantIn(t, "events", strings.Join(notes, "\n"), []string{"suspended", "resumed"})
}

// serviceJobs are started again when they complete, until a user ends the operation.
func serviceJobs(t *testing.T, c *cluster) {
	operation := c.start(t, one(small(2).with("command", []string{"true"}).with("restart_completed_jobs", true)))
	c.becomes(t, operation, "has restarted its jobs", func(op *apipb.Operation) bool { return op.GetProgress().GetRestarted() >= 6 })
	c.ask(t, "OperationService/Complete", object{"operation": operation}, &apipb.CompleteOperationResponse{})
	c.ends(t, operation, "completed")
}

// retriedStart starts one operation, whichever replica hears the retry.
func retriedStart(t *testing.T, c *cluster) {
	request := object{"spec": one(small(1, "run", c.folder(t), "10ms"), object{"mutation_id": "nightly-7"})}
	var first apipb.StartResponse
	c.ask(t, "OperationService/Start", request, &first)
	for _, replica := range replicaNames {
		var again apipb.StartResponse
		until(t, replica+" answers", func() string {
			if err := c.call(t.Context(), replica, "OperationService/Start", request, &again); err != nil {
				return err.Error()
			}
			return ""
		})
		if again.GetOperationId() != first.GetOperationId() || !again.GetRepeated() {
			t.Errorf("%s: %v, want %s repeated", replica, &again, first.GetOperationId())
		}
	}
	c.ends(t, first.GetOperationId(), "completed")
	var late apipb.StartResponse
	c.ask(t, "OperationService/Start", request, &late)
	if late.GetOperationId() != first.GetOperationId() {
		t.Errorf("after the end: %v, want %s", &late, first.GetOperationId())
	}
}

// fullPool lets operations wait for their turn, and says why.
func fullPool(t *testing.T, c *cluster) {
	c.ask(t, "PoolService/Edit", makePool("narrow", object{"max_running_operation_count": 1, "max_operation_count": 2}), &apipb.EditTreeResponse{})
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	in := object{"pool": "narrow"}
	first := c.start(t, one(small(1, "run", dir, release), in))
	c.runs(t, first, 1)
	second := c.start(t, one(small(1, "run", c.folder(t), "10ms"), in))
	op := c.becomes(t, second, "waits", func(op *apipb.Operation) bool { return op.GetState() == "pending" && op.GetPendingReason() != "" })
	wantIn(t, "pending reason", op.GetPendingReason(), []string{"narrow", "running", "1"})
	refused := c.refused(t, "OperationService/Start", object{"spec": one(small(1, "run", dir, "1s"), in)})
	if refused.Status < 400 || refused.Status > 499 || !strings.Contains(refused.Message, "narrow") || !strings.Contains(refused.Message, "2") {
		t.Errorf("a third operation: %v, want the limit of the pool in it", refused)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.ends(t, first, "completed")
	if op := c.ends(t, second, "completed"); op.GetPendingReason() != "" {
		t.Errorf("still waits: %q", op.GetPendingReason())
	}
	c.ask(t, "PoolService/Edit", removePool("narrow"), &apipb.EditTreeResponse{})
}

// weights gives two pools shares of 1 to 3. They alone ask for GPUs, of which there
// are 24.
func weights(t *testing.T, c *cluster) {
	var operations []string
	for name, weight := range map[string]float64{"light": 1, "heavy": 3} {
		c.ask(t, "PoolService/Edit", makePool(name, object{"weight": weight}), &apipb.EditTreeResponse{})
		task := small(30, "run", c.folder(t), "500ms").with("gpu_limit", 1).with("restart_completed_jobs", true)
		operations = append(operations, c.start(t, one(task, object{"pool": name})))
	}
	running := func() (light, heavy int64) {
		for _, operation := range operations {
			op := c.get(t, operation)
			if op.GetPool() == "light" {
				light = op.GetProgress().GetRunning()
			} else {
				heavy = op.GetProgress().GetRunning()
			}
		}
		return light, heavy
	}
	until(t, "6 and 18 GPUs are shared out", func() string {
		light, heavy := running()
		if light >= 5 && light <= 7 && heavy >= 17 {
			return ""
		}
		return fmt.Sprintf("light has %d, heavy has %d", light, heavy)
	})
	for name, want := range map[string]float64{"light": 0.25, "heavy": 0.75} {
		until(t, "the fair share of "+name, func() string {
			var answer apipb.GetPoolResponse
			c.ask(t, "PoolService/Get", object{"name": name}, &answer)
			if p := answer.GetPool(); p.FairShare == nil || p.GetFairShare() < want-0.02 || p.GetFairShare() > want+0.02 || p.GetDominantResource() != "gpu" {
				return p.String()
			}
			return ""
		})
	}
	for _, operation := range operations {
		c.ask(t, "OperationService/Abort", object{"operation": operation}, &apipb.AbortOperationResponse{})
		c.ends(t, operation, "aborted")
	}
}
