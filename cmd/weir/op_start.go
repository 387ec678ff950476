package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/document"
	"weir/api/spec"
	"weir/messages/apipb"
)

// startFlags holds the flags of weir op start.
type startFlags struct {
	file        string
	set         []string
	wait, quiet bool
	noProfile   bool
}

func newOpStartCommand(f *clientFlags) *cobra.Command {
	var start startFlags
	cmd := &cobra.Command{
		Use:   "start -f FILE",
		Short: "Start an operation",
		Long: `Start an operation that a file describes, and print its id.

The file is YAML or JSON; - is standard input. It is validated before it is sent.
docs/options.md lists every option.
--set changes one value of it: a path with dots between names, and a value in YAML,
so that text which begins with * needs quotes.

With --wait the command returns when the operation has ended, with exit code 4 if
the operation did not complete. Give an operation a mutation_id to start it only once
however often the command is retried.`,
		Example: `  weir op start -f spec.yaml
  weir op start -f spec.yaml --set pool=ads --set tasks.sort.job_count=5 --wait
  weir op start -f spec.yaml --set 'alias="*nightly"'
  weir op start -f - --set title=now <<< '{tasks: {t: {job_count: 1, command: [date]}}}'`,
	}
	var description *structpb.Struct
	checked(cmd, func([]string) (err error) {
		if err := require(cmd, "file"); err != nil {
			return err
		}
		description, err = start.description(cmd.InOrStdin())
		return err
	})
	cmd.RunE = f.verb(func(ctx context.Context, s *session, _ []string) error {
		return startOperation(ctx, s, description, &start)
	})
	flags := cmd.Flags()
	flags.StringVarP(&start.file, "file", "f", "", "file with the operation's spec, - for standard input")
	flags.StringArrayVar(&start.set, "set", nil, "path=value that overrides the file, such as tasks.sort.job_count=5; can be repeated")
	flags.BoolVar(&start.noProfile, "no-memory-profile", false, "neither use a memory profile of earlier operations, nor save one")
	flags.BoolVar(&start.wait, "wait", false, "wait until the operation has ended, and show progress")
	flags.BoolVarP(&start.quiet, "quiet", "q", false, "with --wait: do not show progress")
	return cmd
}

// description reads the spec, applies the flags and validates it.
func (f *startFlags) description(stdin io.Reader) (*structpb.Struct, error) {
	if f.quiet && !f.wait {
		return nil, errors.New("--quiet needs --wait: without it only the id is printed")
	}
	name, data, err := readInput("spec", f.file, stdin)
	if err != nil {
		return nil, err
	}
	document, err := spec.Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, assignment := range f.set {
		if err := document.Set(assignment); err != nil {
			return nil, fmt.Errorf("--set: %w", err)
		}
	}
	if f.noProfile {
		if err := document.Set("no_memory_profile=true"); err != nil {
			return nil, fmt.Errorf("--no-memory-profile: %w", err)
		}
	}
	if _, _, err := document.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return document.Struct()
}

// readInput reads a file, or standard input for -. `what` names the content in errors; `shown`
// is the file's name in errors.
func readInput(what, name string, stdin io.Reader) (shown string, data []byte, err error) {
	if shown = name; name == "-" {
		shown = "standard input"
		data, err = io.ReadAll(io.LimitReader(stdin, document.MaxBytes+1))
	} else {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return shown, nil, fmt.Errorf("read %s: %w", what, err)
	}
	return shown, data, nil
}

// readAs reads a file, or standard input for -, and parses it.
func readAs[T any](what, name string, stdin io.Reader, parse func([]byte) (T, error)) (read T, err error) {
	shown, data, err := readInput(what, name, stdin)
	if err != nil {
		return read, err
	}
	if read, err = parse(data); err != nil {
		return read, fmt.Errorf("%s: %w", shown, err)
	}
	return read, nil
}

// startOperation starts the operation, and waits for it with --wait.
func startOperation(ctx context.Context, s *session, description *structpb.Struct, f *startFlags) error {
	started, err := s.StartOperation(ctx, &apipb.StartRequest{Spec: description})
	if err != nil {
		return perhapsStarted(err, "anyway")
	}
	if started.GetRepeated() {
		s.note("operation %s was already started with this mutation_id", started.GetOperationId())
	}
	s.warn(started.GetWarnings())
	return follow(ctx, s, started, started.GetOperationId(), f.wait, f.quiet)
}

// perhapsStarted adds to the error of an interruption that the operation may have been started.
func perhapsStarted(err error, anyway string) error {
	if errors.Is(err, context.Canceled) {
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: the operation may have been started %s (see weir op list)", anyway)}
	}
	return err
}

// follow prints the id of a started operation, and waits for it if `wait` is set.
func follow(ctx context.Context, s *session, started proto.Message, id string, wait, quiet bool) error {
	if !wait {
		return s.said(nil, started, "%s", id)
	}
	if s.format.forPeople() {
		// Print the id now, not at the end: it is needed most if the wait is interrupted.
		if err := s.write(id + "\n"); err != nil {
			return err
		}
	}
	return await(ctx, s, id, quiet)
}

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
