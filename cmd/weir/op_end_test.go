package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"weir/api/client"
	"weir/cmd/weir/internal/screen"
	"weir/messages/apipb"
)

// TestMeter shows the life of an operation elsewhere than on a terminal: a line for
// each state before it runs, then how many jobs are done.
func TestMeter(t *testing.T) {
	running := func(completed int64) *apipb.Operation {
		return &apipb.Operation{State: "running", Progress: &apipb.TaskProgress{Total: 2, Running: 1, Completed: completed}}
	}
	life := []*apipb.Operation{
		{State: "pending", PendingReason: "pool \"ads\" is full"},
		{State: "pending", PendingReason: "pool \"ads\" is full"},
		{State: "materializing", Progress: &apipb.TaskProgress{Total: 2}},
		running(0), running(0), running(2),
		{State: "completed", Progress: &apipb.TaskProgress{Total: 2, Completed: 2}},
	}
	tests := map[string]struct {
		quiet bool
		life  []*apipb.Operation
		want  string
	}{
		"a whole life":             {life: life, want: "pending: pool \"ads\" is full\nmaterializing\njobs: 0/2, 1 running\njobs: 2/2, 1 running\n"},
		"quiet":                    {life: life, quiet: true},
		"ended before it was seen": {life: life[6:]},
		"aborted before it ran":    {life: []*apipb.Operation{life[0], {State: "aborting"}, {State: "aborted"}}, want: "pending: pool \"ads\" is full\naborting\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			m := newMeter(screen.New(&out), test.quiet)
			for _, op := range test.life {
				m.update(op)
			}
			m.close()
			m.close()
			if out.String() != test.want {
				t.Errorf("got %q, want %q", out.String(), test.want)
			}
		})
	}
}

// TestWaitEnded tells the ends of a wait apart that came before the operation's.
func TestWaitEnded(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	known := &apipb.Operation{Id: "o1", State: "running"}
	unreached := fmt.Errorf("watch: %w", client.ErrUnreachable)
	tests := map[string]struct {
		ctx      context.Context
		err      error
		last     *apipb.Operation
		wantExit int
		want     string
	}{
		"Ctrl-C":                       {cancelled, context.Canceled, known, exitInterrupted, "interrupted: operation o1 is still running"},
		"the time is over":             {late, unreached, known, exitTimedOut, "not ended within --timeout: operation o1 is still running"},
		"it never was reached":         {late, unreached, nil, exitNotReached, "watch: cluster unreachable"},
		"Ctrl-C before it was reached": {cancelled, context.Canceled, nil, exitInterrupted, "interrupted"},
		"refused":                      {t.Context(), &client.Error{Code: "unknown_operation", Kind: connect.CodeNotFound, Message: "gone"}, known, exitNotFound, "gone (unknown_operation)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := explain(waitEnded(test.ctx, test.err, test.last))
			if exitCode(err) != test.wantExit || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v with exit code %d, want …%s… with %d", err, exitCode(err), test.want, test.wantExit)
			}
		})
	}
}

func TestEndedBadly(t *testing.T) {
	op := &apipb.Operation{Id: "o1", State: "failed", Result: &apipb.Error{
		Code: 215, Message: "10 failed jobs: limit reached",
		Inner: []*apipb.Error{{Code: 232, Message: "exited with code 3", Attributes: map[string]string{stderrTail: "no\ninput\n"}}},
	}}
	want := "operation o1 failed: 10 failed jobs: limit reached (code 215)\n  exited with code 3 (code 232)\n    stderr_tail:\n      | no\n      | input"
	if got := endedBadly(op).Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := endedBadly(&apipb.Operation{Id: "o1", State: "aborted"}); got.Error() != "operation o1 aborted" {
		t.Errorf("without a result: got %v", got)
	}
}

func TestExplain(t *testing.T) {
	tests := map[string]struct {
		err      error
		wantExit int
		want     string
	}{
		"a refusal shows its code":              {&client.Error{What: "get pool", Code: "unknown_pool", Message: "no such pool"}, exitRefused, "get pool: no such pool (unknown_pool)"},
		"what is not there":                     {&client.Error{What: "get pool", Code: "unknown_pool", Kind: connect.CodeNotFound, Message: "no such pool"}, exitNotFound, "get pool: no such pool (unknown_pool)"},
		"a replica that fails":                  {&client.Error{What: "status", Code: "internal", Kind: connect.CodeInternal, Message: "bug"}, exitFailure, "status: bug (internal)"},
		"nobody answers":                        {fmt.Errorf("list: %w", client.ErrUnreachable), exitNotReached, "list: cluster unreachable"},
		"the time is over":                      {fmt.Errorf("follow: %w", context.DeadlineExceeded), exitNotReached, "follow: context deadline exceeded"},
		"interrupted":                           {fmt.Errorf("list: %w", context.Canceled), exitInterrupted, "interrupted"},
		"a code that is there stays":            {&exitError{exitOperationEnded, errors.New("failed")}, exitOperationEnded, "failed"},
		"whatever else is a failure of its own": {errors.New("disk full"), exitFailure, "disk full"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := explain(test.err)
			if exitCode(err) != test.wantExit || err.Error() != test.want {
				t.Errorf("got %q with exit code %d, want %q with %d", err, exitCode(err), test.want, test.wantExit)
			}
		})
	}
	if explain(nil) != nil {
		t.Error("no error became one")
	}
}
