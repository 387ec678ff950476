package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weir/api/spec"
	"weir/messages/apipb"
)

func newOpRetryCommand(f *clientFlags) *cobra.Command {
	var failed, unfinished, wait, quiet bool
	var secrets string
	cmd := &cobra.Command{
		Use:   "retry OPERATION --failed",
		Short: "Run the failed jobs of an operation again",
		Long: `Run the failed jobs of an operation again in a new operation, and print the id of the
new operation.

OPERATION, an id or alias, must have ended. The new operation has the same spec, but runs
only the selected jobs: with --failed those that failed and have not completed
since, with --unfinished all that have not completed, including those that never ran or were
aborted. They keep their cookies, so names that contain the cookie stay the same.

Secrets of the operation (secure_vault) were removed when it ended: give all of them again
with --secure-vault.

Jobs of gangs, services and map operations cannot be run
again one by one: start the operation again.`,
		Example: `  weir op retry '*sweep' --failed
  weir op retry 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4a --unfinished --wait`,
	}
	checked(cmd, func([]string) error {
		switch {
		case failed == unfinished:
			return errors.New("give one of --failed and --unfinished")
		case quiet && !wait:
			return errors.New("--quiet needs --wait: without it only the id is printed")
		}
		return nil
	})
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		req := &apipb.RetryOperationRequest{Operation: args[0], Jobs: "failed"}
		if unfinished {
			req.Jobs = "unfinished"
		}
		if secrets != "" {
			vault, err := readAs("secrets", secrets, cmd.InOrStdin(), spec.ReadSecrets)
			if err != nil {
				return err
			}
			req.SecureVault = vault
		}
		return retryOperation(ctx, s, req, wait, quiet)
	})
	flags := cmd.Flags()
	flags.BoolVar(&failed, "failed", false, "run all jobs that failed and have not completed since")
	flags.BoolVar(&unfinished, "unfinished", false, "run all jobs that have not completed")
	flags.StringVar(&secrets, "secure-vault", "", "file with the operation's secure_vault, such as the spec that started it; - for standard input")
	flags.BoolVar(&wait, "wait", false, "wait until the new operation has ended, and show progress")
	flags.BoolVarP(&quiet, "quiet", "q", false, "with --wait: do not show progress")
	return cmd
}

// retryOperation reruns jobs of an operation, and waits for them if `wait` is set.
func retryOperation(ctx context.Context, s *session, req *apipb.RetryOperationRequest, wait, quiet bool) error {
	started, err := s.RetryOperation(ctx, req)
	if err != nil {
		return perhapsStarted(err, "anyway")
	}
	s.note("%s of operation %s run again", several(started.GetJobCount(), "job"), started.GetRetryOf())
	s.warn(started.GetWarnings())
	return follow(ctx, s, started, started.GetOperationId(), wait, quiet)
}

// givenUpText lists the jobs that have used up their attempts.
func givenUpText(op *apipb.Operation) string {
	var b strings.Builder
	for _, t := range op.GetTasks() {
		if t.GetGivenUp() == 0 {
			continue
		}
		which := cookiesText(t.GetGivenUpCookies())
		fmt.Fprintf(&b, "given up in task %s: %s, after %s%s\n", t.GetName(), several(t.GetGivenUp(), "job"), several(int64(t.GetMaxAttempts()), "attempt"),
			when(which != "", "; cookies "+which))
	}
	if b.Len() > 0 && terminal(op) {
		fmt.Fprintf(&b, "  weir op retry %s --failed runs them again\n", op.GetId())
	}
	return b.String()
}

// cookiesText formats ranges of cookies, such as 3, 7-9.
func cookiesText(ranges []*apipb.CookieRange) string {
	const most = 20
	var parts []string
	for i, r := range ranges {
		switch {
		case i == most:
			return strings.Join(parts, ", ") + fmt.Sprintf(" and %d more (-o json)", len(ranges)-most)
		case r.GetFirst() == r.GetLast():
			parts = append(parts, fmt.Sprint(r.GetFirst()))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", r.GetFirst(), r.GetLast()))
		}
	}
	return strings.Join(parts, ", ")
}

// attemptText returns how many attempts of a failed job's cookie have failed.
func attemptText(j *apipb.Job) string {
	return when(j.GetMaxAttempts() != 0, fmt.Sprintf(" (%d of %d%s)", j.GetFailures(), j.GetMaxAttempts(), when(j.GetGivenUp(), ", given up")))
}
