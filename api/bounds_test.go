package api

import (
	"context"
	"testing"
	"time"

	"weir/messages/apipb/apipbconnect"
)

func TestCallsGetLessTimeThanTheirClients(t *testing.T) {
	b := bounds{&server{cfg: Config{Limits: DefaultLimits()}}}
	const get, wait = apipbconnect.OperationServiceGetProcedure, apipbconnect.OperationServiceWaitProcedure
	for name, test := range map[string]struct {
		procedure string
		// client is the client's deadline from now; 0: none.
		client time.Duration
		// want is the call's; 0: none.
		want time.Duration
	}{
		"a call":                      {get, 0, 10 * time.Second},
		"a call of a patient client":  {get, time.Hour, 10 * time.Second},
		"a call with a deadline":      {get, 5 * time.Second, 4900 * time.Millisecond},
		"a call with a short one":     {get, 400 * time.Millisecond, 350 * time.Millisecond},
		"a wait":                      {wait, 0, 0},
		"a wait with a deadline":      {wait, time.Minute, time.Minute - 100*time.Millisecond},
		"a call that is late already": {get, -time.Second, -time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			ctx, cancel := context.Background(), func() {}
			if test.client != 0 {
				ctx, cancel = context.WithDeadline(ctx, begin.Add(test.client))
			}
			defer cancel()
			limited, stop := b.limit(ctx, test.procedure)
			defer stop()
			deadline, bounded := limited.Deadline()
			if bounded != (test.want != 0) {
				t.Fatalf("bounded %t", bounded)
			}
			// The clock runs on between the two looks at it, and what is kept for the
			// answer shrinks with it.
			if got := deadline.Sub(begin); bounded && (got < test.want-time.Millisecond || test.client != 0 && got > test.want+time.Since(begin)) {
				t.Errorf("the call gets %s, want %s", got, test.want)
			}
		})
	}
}
