package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"weir/messages/apipb"
)

// TestPreemptedJobs (I1, I5) has jobs go for others, who are owed half of their node. Each is
// told how long it has: what holds for ordinary preemption by default, or what its operation has
// for graceful one. Who heeds the signal completes; who does not is killed at the deadline that
// it was told, is aborted, and runs again when there is room.
func TestPreemptedJobs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		more object
		deaf bool

		wantKind    string
		wantTimeout time.Duration
	}{
		"deaf":     {deaf: true, wantKind: "preemption", wantTimeout: 15 * time.Second},
		"heeds":    {wantKind: "preemption", wantTimeout: 15 * time.Second},
		"graceful": {object{"preemption_mode": "graceful", "allocation_graceful_preemption_timeout": "5s"}, true, "graceful_preemption", 5 * time.Second},
	}
	c := newCluster(t, here, "deaf", "heeds", "graceful")
	c.ready(t, 0)
	c.ask(t, "TreeService/Set", object{"tree": "default", "options": object{"nodes_filter": "!deaf & !heeds & !graceful"}}, &apipb.SetTreeResponse{})
	for name := range tests {
		options := object{"nodes_filter": name, "fair_share_starvation_timeout": "1s", "preemptive_scheduling_backoff": "500ms"}
		c.ask(t, "TreeService/Create", object{"tree": name, "options": options}, &apipb.CreateTreeResponse{})
		c.pool(t, name, "greedy", object{})
		c.pool(t, name, "hungry", object{})
		c.startAgent(name, "--tags", name, "--cpu", "2")
	}
	c.ready(t, len(tests))
	// The parts wait for deadlines: they do so together.
	t.Run("go", func(t *testing.T) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dir := c.folder(t)
				task := leaving(2, "leave", dir, "0")
				if test.deaf {
					task = leaving(2, "deaf", filepath.Join(dir, "deaf.log"))
				}
				greedy := c.start(t, one(task.with("cpu_limit", 1), in(name), object{"pool": "greedy"}, test.more))
				for _, job := range c.runs(t, greedy, 2) {
					until(t, "it hears signals", func() string { return either(hears(t, dir, job.GetId()), "it does not yet") })
				}
				hungry := c.start(t, one(small(1, "run", c.folder(t), "10m").with("cpu_limit", 1), in(name), object{"pool": "hungry"}))
				c.runs(t, hungry, 1)
				victims := c.preempted(t, greedy, test.wantKind)
				if len(victims) != 1 {
					t.Fatalf("preempted are %v, want one\n%s", victims, c.describe(t, greedy))
				}
				victim, how, beneficiary := c.left(t, victims[0].GetId()), victims[0].GetInterruption(), hungry
				if test.wantKind == "graceful_preemption" {
					// It goes because of what its operation uses, for nobody in particular.
					beneficiary = ""
				}
				if how.GetTimeoutMillis() != test.wantTimeout.Milliseconds() || how.GetDeadline().AsTime().Sub(how.GetTime().AsTime()) != test.wantTimeout || how.GetPreemptedForOperation() != beneficiary {
					t.Errorf("it was told %v, want %v to make room for %q", how, test.wantTimeout, beneficiary)
				}
				c.went(t, victim, test.deaf)
				c.abort(t, hungry)
				if test.deaf {
					until(t, "its cookie runs again", func() string {
						for _, job := range c.jobs(t, greedy, "running") {
							if job.GetCookie() == victim.GetCookie() && job.GetAttempt() > victim.GetAttempt() {
								return ""
							}
						}
						return c.describe(t, greedy)
					})
				}
				c.abort(t, greedy)
			})
		}
	})
}

// went checks how a preempted job has ended: by itself before its deadline, or killed at it.
func (c *cluster) went(t *testing.T, victim *apipb.Job, deaf bool) {
	t.Helper()
	state, reason := "completed", ""
	if deaf {
		state, reason = "aborted", "preemption"
	}
	if victim.GetState() != state || victim.GetAbortReason() != reason {
		t.Errorf("it is %s %q, want %s %q", victim.GetState(), victim.GetAbortReason(), state, reason)
	}
	// What the node says and what the replicas say is by one clock here.
	at, deadline := victim.GetFinishTime().AsTime(), victim.GetInterruption().GetDeadline().AsTime()
	if at.Before(deadline) == deaf || at.After(deadline.Add(patience/2)) {
		t.Errorf("it ended at %s, its deadline was %s", at, deadline)
	}
}

// either is nothing when something is so, and else what is missing.
func either(so bool, missing string) string {
	if so {
		return ""
	}
	return missing
}
