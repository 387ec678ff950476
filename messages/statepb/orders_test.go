package statepb

import "testing"

func TestStopOrderFor(t *testing.T) {
	plain, ordered := &Allocation{GrantIndex: 10}, &Allocation{GrantIndex: 10, Stop: &StopOrder{Reason: "user_request"}}
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
