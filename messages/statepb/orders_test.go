package statepb

import "testing"

func TestStopOrderFor(t *testing.T) {
	plain, ordered := &Allocation{GrantIndex: 10}, &Allocation{GrantIndex: 10, Stop: &StopOrder{Reason: "user_request"}}
	leaving := &Allocation{GrantIndex: 10, Stop: &StopOrder{Reason: "preemption", GraceMillis: 15000}}
	tests := map[string]struct {
		operation  *Operation
		allocation *Allocation
		want       string
	}{
		"a running operation's job goes on":             {&Operation{State: "running"}, plain, ""},
		"a job with an order of its own stops":          {&Operation{State: "running"}, ordered, "user_request"},
		"jobs of an aborting operation stop":            {&Operation{State: "aborting"}, plain, "operation_aborted"},
		"jobs of a failing operation stop":              {&Operation{State: "failing"}, plain, "operation_failed"},
		"jobs of a completing operation stop":           {&Operation{State: "completing"}, plain, "operation_completed"},
		"suspension alone lets jobs go on":              {&Operation{State: "running", Suspended: true}, plain, ""},
		"suspension with jobs stops the earlier ones":   {&Operation{State: "running", Suspended: true, AbortJobsUntilIndex: 10}, plain, "operation_suspended"},
		"suspension with jobs spares the later ones":    {&Operation{State: "running", Suspended: true, AbortJobsUntilIndex: 9}, plain, ""},
		"suspension with jobs leaves no time":           {&Operation{State: "running", Suspended: true, AbortJobsUntilIndex: 10}, leaving, "operation_suspended"},
		"an abort leaves no time":                       {&Operation{State: "aborting"}, leaving, "operation_aborted"},
		"a graceful abort leaves the time of the job":   {&Operation{State: "aborting", Stop: &StopOrder{}}, leaving, "preemption"},
		"a graceful abort spares no job without time":   {&Operation{State: "aborting", Stop: &StopOrder{}}, plain, "operation_aborted"},
		"a resumed operation's jobs go on all the same": {&Operation{State: "running", AbortJobsUntilIndex: 10}, plain, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.operation.StopOrderFor(test.allocation).GetReason(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
