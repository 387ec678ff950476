package lifecycle_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling/lifecycle"
)

func TestRoadOfAnOperation(t *testing.T) {
	road := []lifecycle.State{
		lifecycle.None, lifecycle.Starting, lifecycle.WaitingForAgent, lifecycle.Initializing, lifecycle.Preparing,
		lifecycle.Pending, lifecycle.Materializing, lifecycle.Running, lifecycle.Completing, lifecycle.Completed,
	}
	for i := 1; i < len(road); i++ {
		if !lifecycle.CanGo(road[i-1], road[i]) {
			t.Errorf("%s cannot go to %s", road[i-1], road[i])
		}
		if lifecycle.CanGo(road[i], road[i-1]) {
			t.Errorf("%s can go back to %s", road[i], road[i-1])
		}
	}
}

func TestCanGo(t *testing.T) {
	for _, from := range lifecycle.States() {
		if lifecycle.CanGo(from, from) {
			t.Errorf("%s goes to itself", from)
		}
		leaves := from.InProgress() && from != lifecycle.Aborting && from != lifecycle.Failing
		for _, to := range []lifecycle.State{lifecycle.Aborting, lifecycle.Failing} {
			if lifecycle.CanGo(from, to) != leaves {
				t.Errorf("CanGo(%s, %s) = %v, want %v", from, to, !leaves, leaves)
			}
		}
		for _, to := range lifecycle.States() {
			if from.Terminal() && lifecycle.CanGo(from, to) {
				t.Errorf("%s is final and can go to %s", from, to)
			}
			if to.Terminal() && lifecycle.CanGo(from, to) && !from.Finishing() {
				t.Errorf("%s ends as %s at once", from, to)
			}
		}
	}
	if lifecycle.CanGo(lifecycle.State(200), lifecycle.Starting) || lifecycle.CanGo(lifecycle.None, lifecycle.State(200)) {
		t.Error("a state that is none can go somewhere")
	}
}

func TestStatePredicates(t *testing.T) {
	cases := map[lifecycle.State]struct{ wantInProgress, wantFinishing, wantTerminal, wantRunning bool }{
		lifecycle.None:            {},
		lifecycle.Starting:        {wantInProgress: true},
		lifecycle.WaitingForAgent: {wantInProgress: true},
		lifecycle.Initializing:    {wantInProgress: true},
		lifecycle.Preparing:       {wantInProgress: true},
		lifecycle.Pending:         {wantInProgress: true},
		lifecycle.Materializing:   {wantInProgress: true, wantRunning: true},
		lifecycle.Running:         {wantInProgress: true, wantRunning: true},
		lifecycle.Completing:      {wantInProgress: true, wantFinishing: true, wantRunning: true},
		lifecycle.Completed:       {wantTerminal: true},
		lifecycle.Aborting:        {wantInProgress: true, wantFinishing: true, wantRunning: true},
		lifecycle.Aborted:         {wantTerminal: true},
		lifecycle.Failing:         {wantInProgress: true, wantFinishing: true, wantRunning: true},
		lifecycle.Failed:          {wantTerminal: true},
	}
	for _, s := range lifecycle.States() {
		t.Run(s.String(), func(t *testing.T) {
			want, ok := cases[s]
			if !ok {
				t.Fatal("not in the table")
			}
			if s.InProgress() != want.wantInProgress || s.Finishing() != want.wantFinishing ||
				s.Terminal() != want.wantTerminal || s.CountsAsRunning() != want.wantRunning {
				t.Errorf("in progress %v, finishing %v, terminal %v, counts as running %v, want %+v",
					s.InProgress(), s.Finishing(), s.Terminal(), s.CountsAsRunning(), want)
			}
		})
	}
}

// TestNumbersOnDisk holds the numbers that logs and snapshots are made of.
func TestNumbersOnDisk(t *testing.T) {
	states := []string{"none", "starting", "waiting_for_agent", "initializing", "preparing", "pending", "materializing",
		"running", "completing", "completed", "aborting", "aborted", "failing", "failed"}
	for n, name := range states {
		if s, err := lifecycle.ParseState(name); err != nil || s != lifecycle.State(n) || s.String() != name {
			t.Errorf("state %q is number %d as %q, %v, want %d", name, s, s, err, n)
		}
	}
	if len(states) != len(lifecycle.States()) {
		t.Errorf("%d states, want %d", len(lifecycle.States()), len(states))
	}
	for n, name := range []string{"none", "waiting", "running", "aborting", "completed", "failed", "aborted"} {
		if s, err := lifecycle.ParseJobState(name); err != nil || s != lifecycle.JobState(n) || s.String() != name {
			t.Errorf("job state %q is number %d as %q, %v, want %d", name, s, s, err, n)
		}
	}
	reasons := map[string]lifecycle.AbortReason{
		"none": 0, "scheduler": 1, "resource_overdraft": 3, "other": 4, "preemption": 5, "user_request": 6, "node_offline": 7,
		"get_spec_failed": 10, "revival_confirmation_timeout": 12, "operation_failed": 25, "disappeared_from_node": 28,
		"unconfirmed": 29, "operation_suspended": 30, "job_proxy_failed": 34, "interruption_timeout": 35,
		"node_resource_overcommit": 36, "operation_completed": 44, "operation_aborted": 45, "interruption_unsupported": 48,
		"operation_incarnation_changed": 55,
	}
	for name, n := range reasons {
		if r, err := lifecycle.ParseAbortReason(name); err != nil || r != n || r.String() != name {
			t.Errorf("abort reason %q is number %d as %q, %v, want %d", name, r, r, err, n)
		}
	}
	codes := map[lifecycle.Code]lifecycle.Code{
		lifecycle.CodeNoSuchOperation: 200, lifecycle.CodeInvalidOperationState: 201, lifecycle.CodeTooManyOperations: 202, lifecycle.CodeNoSuchJob: 203,
		lifecycle.CodeAgentRevoked: 204, lifecycle.CodeFailedOnJobRestart: 210, lifecycle.CodeInconsistentLocking: 211, lifecycle.CodeControllerCrashed: 212,
		lifecycle.CodeTesting: 213, lifecycle.CodePoolTreesUnspecified: 214, lifecycle.CodeMaxFailedJobs: 215, lifecycle.CodeFailedToPrepare: 216,
		lifecycle.CodeTimeLimitExceeded: 230, lifecycle.CodeAbortedByUser: 231, lifecycle.CodeJobFailed: 232, lifecycle.CodeJobsGivenUp: 233,
	}
	for got, want := range codes {
		if got != want {
			t.Errorf("code %d, want %d", got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, name := range []string{"", "Running", "lifecycle.State(3)", "bogus"} {
		if _, err := lifecycle.ParseState(name); err == nil {
			t.Errorf("ParseState(%q) takes it", name)
		}
		if _, err := lifecycle.ParseJobState(name); err == nil {
			t.Errorf("ParseJobState(%q) takes it", name)
		}
		if _, err := lifecycle.ParseAbortReason(name); err == nil {
			t.Errorf("ParseAbortReason(%q) takes it", name)
		}
	}
	for got, want := range map[string]string{
		lifecycle.State(99).String():       "lifecycle.State(99)",
		lifecycle.JobState(99).String():    "lifecycle.JobState(99)",
		lifecycle.AbortReason(99).String(): "lifecycle.AbortReason(99)",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestCounters takes steps at random: each moves one cookie or is refused and
// changes nothing.
func TestCounters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(0, 5).Draw(t, "total")
		c := lifecycle.Counters{Total: total, Pending: total}
		attempts, skipped, reopened := int64(0), int64(0), int64(0)
		step := func(move func() error, from *int64) func(*rapid.T) {
			return func(t *rapid.T) {
				before, possible := c, *from > 0
				err := move()
				if possible != (err == nil) || (err != nil && !errors.Is(err, lifecycle.ErrNoSuchJob)) {
					t.Fatalf("from %+v: %v", before, err)
				}
				if err != nil && c != before {
					t.Fatalf("a refused step changes %+v to %+v", before, c)
				}
			}
		}
		start := step(c.Start, &c.Pending)
		t.Repeat(map[string]func(*rapid.T){
			"start": func(t *rapid.T) {
				if c.Pending > 0 {
					attempts++
				}
				start(t)
			},
			"complete": step(c.Complete, &c.Running),
			"fail":     step(c.Fail, &c.Running),
			"abort":    step(c.Abort, &c.Running),
			"restart":  step(c.Restart, &c.Running),
			"give up":  step(c.GiveUp, &c.Running),
			"take back": func(t *rapid.T) {
				if c.Running > 0 {
					attempts--
				}
				step(c.TakeBack, &c.Running)(t)
			},
			"skip": func(t *rapid.T) {
				if c.Running > 0 {
					skipped++
				}
				step(c.Skip, &c.Running)(t)
			},
			"reopen": func(t *rapid.T) {
				if c.Completed > 0 {
					reopened++
				}
				step(c.Reopen, &c.Completed)(t)
			},
			"grow": func(t *rapid.T) {
				total++
				if err := c.Grow(); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				if err := c.Check(); err != nil || c.Total != total {
					t.Fatalf("%+v: %v", c, err)
				}
				if ended := c.Completed + reopened + c.Failed - skipped + c.Aborted + c.Restarted; attempts != c.Running+ended {
					t.Fatalf("%d attempts, and %+v", attempts, c)
				}
			},
		})
	})
}

func TestCountersCheck(t *testing.T) {
	cases := map[string]struct {
		give   lifecycle.Counters
		wantOK bool
	}{
		"none":                  {lifecycle.Counters{}, true},
		"all places":            {lifecycle.Counters{Total: 7, Pending: 1, Running: 2, Completed: 3, GivenUp: 1, Failed: 9}, true},
		"a cookie is missing":   {lifecycle.Counters{Total: 6, Pending: 1, Running: 2, Completed: 2}, false},
		"a cookie counts twice": {lifecycle.Counters{Total: 6, Pending: 2, Running: 2, Completed: 3}, false},
		"negative":              {lifecycle.Counters{Total: 1, Pending: 2, Running: -1}, false},
		"negative given up":     {lifecycle.Counters{Total: 1, Pending: 2, GivenUp: -1}, false},
		"negative attempts":     {lifecycle.Counters{Aborted: -1}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := tc.give.Check(); (err == nil) != tc.wantOK {
				t.Errorf("Check() = %v", err)
			}
		})
	}
}
