package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/client"
	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
)

func newJobCommand(f *clientFlags) *cobra.Command {
	return group(&cobra.Command{
		Use:     "job",
		Short:   "Show jobs and their output, and stop them",
		Example: "  weir job list OPERATION\n  weir job stderr JOB --follow",
	}, newJobListCommand(f), newJobOutputCommand(f, "stdout"), newJobOutputCommand(f, "stderr"), newJobFilesCommand(f), newJobKeptCommand(f), newJobExecCommand(f), newJobInterruptCommand(f), newJobAbortCommand(f), &cobra.Command{
		Use:     "get JOB",
		Short:   "Show one job",
		Example: "  weir job get 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b",
		RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
			job, err := s.GetJob(ctx, args[0])
			ids := s.named(ctx, job)
			return view{message: job, text: func(now time.Time) string { return jobText(job, ids, now) }}, unknownJob(ctx, s, args[0], err)
		}),
	}, &cobra.Command{
		Use:     "statistics JOB",
		Aliases: []string{"stats"},
		Short:   "Show statistics of a job",
		Long: `Show statistics of a job, with what each number means. For a job that has not ended
they are what its node last reported. Zeros are omitted, except in json and yaml.`,
		Example: "  weir job statistics 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b\n  weir job statistics 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b -o json",
		RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
			measured, err := s.JobStatistics(ctx, args[0])
			empty := when(len(measured.GetStatistics()) == 0, fmt.Sprintf("no statistics of job %s, which is %s", measured.GetJobId(), measured.GetState()))
			return view{message: measured, empty: empty, text: func(time.Time) string { return jobStatisticsText(measured) }}, unknownJob(ctx, s, args[0], err)
		}),
	})
}

func newJobListCommand(f *clientFlags) *cobra.Command {
	var req apipb.ListJobsRequest
	cmd := watchable(&cobra.Command{
		Use:   "list OPERATION",
		Short: "List the jobs of an operation, by id or alias",
		Long: `List the jobs of an operation, by id or alias: unfinished ones first, then the
latest finished ones.`,
		Example: `  weir job list '*nightly' --state failed
  weir job list 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4a --watch`,
		RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
			req.Operation = args[0]
			page, err := s.ListJobs(ctx, &req)
			empty := when(len(page.GetJobs()) == 0, fmt.Sprintf("no matching job of operation %s: pending jobs are listed once they have a node", args[0]))
			return view{message: page, rows: true, empty: empty, fit: func(now time.Time, screen int) string { return jobsText(page, &req, s.ids(), now, screen) }}, err
		}),
	})
	flags := cmd.Flags()
	flags.StringVar(&req.State, "state", "", "only jobs in this state: waiting, running, aborting, completed, failed or aborted")
	flags.StringVar(&req.Task, "task", "", "only jobs of this task")
	flags.StringVar(&req.Node, "node", "", "only jobs on the given node")
	flags.Int32Var(&req.Limit, "limit", 100, "maximum number to list, up to 1000")
	flags.Int32Var(&req.Offset, "offset", 0, "number to skip first")
	must(cmd.RegisterFlagCompletionFunc("state", fixed("waiting", "running", "aborting", "completed", "failed", "aborted")))
	return cmd
}

func newJobOutputCommand(f *clientFlags, stream string) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:        stream + " JOB",
		SuggestFor: []string{"log", "logs"},
		Short:      "Print what a job has written to its " + stream,
		Long: fmt.Sprintf(`Print what a job has written to its %s, unchanged. Its node keeps the beginning
and the end of long output. If there is none, stderr says why.`, stream),
		Example: fmt.Sprintf("  weir job %[1]s 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b\n  weir job %[1]s --follow 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b", stream),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			_, err := s.CopyOutput(ctx, s.out, client.Output{
				JobID: args[0], Stream: stream, Follow: follow, Note: func(why string) { s.note("%s", why) },
			})
			return unknownJob(ctx, s, args[0], err)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow until the job has ended")
	return cmd
}

func newJobFilesCommand(f *clientFlags) *cobra.Command {
	return f.readsFiles(false, &cobra.Command{
		Use:   "files JOB [PATH]",
		Short: "List and read the files of a running job",
		Long: `List and read the files of a running job: of its workspace and of the tmpfs volumes in
it. A folder is listed; a file is printed unchanged, or written to a new file with --to.

PATH is relative to the workspace. Files are read as the job's user; links are followed
only within the workspace. It needs the right to manage the operation. When a job has
ended its workspace is gone: weir job output has what was kept.`,
		Example: `  weir job files 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b
  weir job files 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b logs/today.log
  weir job files 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b model.bin --to model.bin`,
		ValidArgsFunction: f.suggest(true, jobNames(true)),
	})
}

func newJobKeptCommand(f *clientFlags) *cobra.Command {
	return f.readsFiles(true, &cobra.Command{
		Use:   "output JOB [PATH]",
		Short: "List and read the files that were kept of a completed job",
		Long: `List and read the files that were kept of a completed job: the output_paths of its task.
Without PATH it shows where each was kept. A folder is listed; a file is printed
unchanged, or written to a new file with --to.

PATH is one of the output_paths, or below one. It is read on the job's node, where it was
kept, as the named user of the task or, without one, with the rights that everybody has;
an object with the credentials of the operation. It needs the right to manage the
operation. What a job wrote to its stdout and stderr is shown by weir job stdout and
weir job stderr.`,
		Example: `  weir job output 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b
  weir job output 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b results/part.csv --to part.csv`,
	})
}

// readsFiles completes a verb that lists and reads files of a job.
func (f *clientFlags) readsFiles(kept bool, cmd *cobra.Command) *cobra.Command {
	var to string
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		req := &apipb.JobFileRequest{JobId: args[0], Kept: kept}
		if len(args) == 2 {
			req.Path = args[1]
		}
		return unknownJob(ctx, s, args[0], s.files(ctx, req, to))
	})
	cmd.Flags().StringVar(&to, "to", "", "write the file to this new file instead of printing it")
	must(cmd.MarkFlagFilename("to"))
	return cmd
}

// files lists a folder of a job, or prints a file or writes it to a new one, which is removed if that fails.
func (s *session) files(ctx context.Context, req *apipb.JobFileRequest, to string) error {
	out := s.out
	if to != "" {
		file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if err != nil {
			return usage(fmt.Errorf("--to: %w", err))
		}
		out = file
	}
	folder, err := s.ReadFile(ctx, out, req)
	if folder != nil && to != "" {
		err = usage(fmt.Errorf("%q is a folder of job %s: --to is for a file", cmp.Or(req.GetPath(), "."), req.GetJobId()))
	}
	if file, ok := out.(*os.File); ok && to != "" {
		if err = errors.Join(err, file.Close()); err != nil {
			return errors.Join(err, os.Remove(to))
		}
	}
	if err != nil || folder == nil {
		return err
	}
	empty := fmt.Sprintf("the folder %q of job %s is empty", cmp.Or(req.GetPath(), "."), req.GetJobId())
	if req.GetKept() && req.GetPath() == "" {
		empty = fmt.Sprintf("no files were kept of job %s: its task has no output_paths", req.GetJobId())
	}
	return s.show(view{
		message: folder, rows: true, empty: when(len(folder.GetEntries()) == 0, empty), text: func(now time.Time) string { return filesText(folder, now) },
	})
}

// filesText draws a list of files.
func filesText(folder *apipb.JobFileResponse, now time.Time) string {
	g := newGrid("mode", "size>", "modified", "name")
	for _, e := range folder.GetEntries() {
		length := size(e.GetSize())
		if e.GetMode() == "" {
			length = none // of what was kept only the place is known
		}
		g.row(e.GetMode(), length, age(e.GetModified(), now), e.GetName()+when(e.GetLink() != "", " -> "+e.GetLink()))
	}
	return g.String() + when(folder.GetMore(), fmt.Sprintf("\nmore: only %d entries are listed\n", folder.GetSize()))
}

// unknownJob adds a hint to the error if the id of an unknown job is that of an operation.
func unknownJob(ctx context.Context, s *session, id string, err error) error {
	if client.CodeOf(err) != apipb.CodeNoSuchJob {
		return err
	}
	if _, known := s.GetOperation(ctx, id); known != nil {
		return err
	}
	return fmt.Errorf("%w; %s is an operation: weir job list %s lists its jobs", err, id, id)
}

func newJobAbortCommand(f *clientFlags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:               "abort JOB",
		Short:             "Abort a job; another job does its work",
		Example:           `  weir job abort 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b --reason "it hangs"`,
		ValidArgsFunction: f.suggest(true, jobNames(true)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return s.said(s.AbortJob(ctx, args[0], reason), &apipb.AbortJobResponse{}, "job %s is being aborted", args[0])
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown with the job")
	return cmd
}

// jobState returns a job's state, and the reason for it.
func jobState(j *apipb.Job) string {
	state := j.GetState()
	switch {
	case j.GetAbortReason() != "" && j.GetAbortReason() != "none":
		return state + ": " + j.GetAbortReason()
	case j.GetInterruption().GetHeldUntil() != nil && j.GetFinishTime() == nil:
		return state + ", to be replaced: " + j.GetInterruption().GetReason()
	case j.GetInterruption().GetReason() != "" && j.GetFinishTime() == nil:
		return state + ", leaving: " + j.GetInterruption().GetReason()
	case j.GetStopping() != "":
		return state + ", stopping: " + j.GetStopping()
	case j.GetRerun():
		return state + ", runs again"
	case state == "failed" && j.GetExitCode() > 0:
		return fmt.Sprintf("%s: exit code %d", state, j.GetExitCode()) + attemptText(j)
	case state == "failed" && j.GetError() != nil:
		return state + ": " + j.GetError().GetMessage() + attemptText(j)
	}
	return state
}

// jobsText draws a page of jobs, as selected by req.
func jobsText(page *apipb.ListJobsResponse, req *apipb.ListJobsRequest, ids figures.IDs, now time.Time, screen int) string {
	g := newGrid("job", "task", "cookie>", "attempt>?4", "node?1", "state", "started?3", "took>?2", "memory>?5")
	for _, j := range page.GetJobs() {
		g.row(ids.ID(j.GetId()), j.GetTask(), j.GetCookie(), j.GetAttempt(), j.GetNode(), stateCell(jobState(j)), age(j.GetStartTime(), now),
			lasted(j.GetStartTime(), j.GetFinishTime(), now), jobMemory(j))
	}
	shown := req.GetOffset() + int32(len(page.GetJobs()))
	return g.within(screen) + when(req.GetOffset() > 0 || shown < page.GetTotal(),
		fmt.Sprintf("\njobs %d to %d of %d: more with --offset and --limit\n", req.GetOffset()+1, shown, page.GetTotal()))
}

// jobMemory returns a job's peak memory use, and its reserve if that is known.
func jobMemory(j *apipb.Job) string {
	had, held := j.GetStatistics().GetMaxMemory(), cmp.Or(j.GetReserve().GetUser(), j.GetResources().GetMemory())
	return when(had != 0, size(had)+when(held != 0, "/"+size(held)))
}

func jobText(j *apipb.Job, ids figures.IDs, now time.Time) string {
	page := newFacts()
	page.add("job", j.GetId())
	page.add("operation", ids.Whole(j.GetOperationId()))
	page.add("task", fmt.Sprintf("%s, cookie %d, attempt %d", j.GetTask(), j.GetCookie(), j.GetAttempt()))
	page.add("node", j.GetNode())
	page.addState("state", jobState(j))
	interruptionFacts(page, j, ids, now)
	page.add("started", moment(j.GetStartTime(), now))
	page.add("finished", moment(j.GetFinishTime(), now))
	page.add("took", lasted(j.GetStartTime(), j.GetFinishTime(), now))
	page.add("ports", strings.Trim(fmt.Sprint(j.GetPorts()), "[]"))
	page.add("pid", when(j.GetPid() != 0, fmt.Sprint(j.GetPid())))
	page.add("resources", amounts(j.GetResources()))
	page.add("memory", jobMemory(j))
	page.add("memory reserve", reserveText(j.GetReserve(), j.GetMemoryLimit()))
	page.add("reserved after", when(j.GetReserve().GetPredecessor() != "", "the overdraft of job "+ids.ID(j.GetReserve().GetPredecessor())))
	page.add("rank", rankText(j))
	inputFacts(page, j)
	if st := j.GetStatistics(); j.GetFinishTime() != nil && st != nil {
		page.add("cpu time", fmt.Sprintf("%ss user, %ss system", number(st.GetCpuUserSeconds(), 2), number(st.GetCpuSystemSeconds(), 2)))
		page.add("stdout", kept(st.GetStdoutBytes(), st.GetStdoutDroppedBytes()))
		page.add("stderr", kept(st.GetStderrBytes(), st.GetStderrDroppedBytes()))
	}
	page.add("grant", j.GetToken())
	return page.String() + failureText(j.GetError())
}

// kept returns how much output a job wrote, and how much of it was dropped.
func kept(bytes, dropped int64) string {
	return size(bytes) + when(dropped != 0, fmt.Sprintf(", of which %s were dropped", size(dropped)))
}

func newJobInterruptCommand(f *clientFlags) *cobra.Command {
	var reason string
	var leave time.Duration
	cmd := &cobra.Command{
		Use:   "interrupt JOB",
		Short: "Ask a job to stop gracefully",
		Long: `Ask a job to stop gracefully: it gets the interruption_signal of its task and no more
input, and is killed if it still runs at the deadline. A job that has been interrupted before
keeps the earlier of the two deadlines.

Its exit code decides: 0 is completed, the restart_exit_code of its task is
completed and rerun, anything else is failed. Unread input goes to
another job. Jobs of a task with neither input nor an interruption_signal can only be
stopped by weir job abort.`,
		Example: `  weir job interrupt 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b
  weir job interrupt 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b --timeout 5m --reason "new version"`,
		ValidArgsFunction: f.suggest(true, jobNames(true)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			deadline, err := s.InterruptJob(ctx, args[0], reason, leave)
			err = unknownJob(ctx, s, args[0], err)
			if deadline.IsZero() {
				return s.said(err, &apipb.InterruptJobResponse{}, "job %s has ended", args[0])
			}
			answer := &apipb.InterruptJobResponse{Deadline: timestamppb.New(deadline)}
			return s.said(err, answer, "job %s was asked to stop; it has until %s", args[0], deadline.Local().Format("15:04:05"))
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown with the job")
	registerLeaving(cmd, &leave, "timeout", "how long the job has to stop (default: its allocation_preemption_timeout)")
	return cmd
}

// registerLeaving adds the flag that sets how long jobs have to stop. It rejects times that
// are too short for any job.
func registerLeaving(cmd *cobra.Command, leave *time.Duration, name, usage string) {
	cmd.Flags().DurationVar(leave, name, 0, usage)
	checked(cmd, func([]string) error {
		if cmd.Flags().Changed(name) && *leave < time.Millisecond {
			return fmt.Errorf("--%s %s: must be a millisecond or more", name, *leave)
		}
		return nil
	})
}

// interruptionFacts adds why a job must stop, by when, and for which operation.
func interruptionFacts(page facts, j *apipb.Job, ids figures.IDs, now time.Time) {
	in := j.GetInterruption()
	if in == nil {
		return
	}
	what, until := "ordered to stop", ""
	if in.GetReason() != "" {
		what, until = "asked to stop", ", until "+untilText(in.GetDeadline(), now)
		if in.GetHeldUntil() != nil && j.GetFinishTime() == nil {
			what, until = "to be asked to stop", ", when enough other instances are ready, or at "+untilText(in.GetHeldUntil(), now)
		}
	}
	page.add(what, cmp.Or(in.GetPreemption(), in.GetReason(), in.GetAbortReason())+until)
	page.add("to make room for", when(in.GetPreemptedForOperation() != "",
		fmt.Sprintf("operation %s, task %s", ids.Operation(in.GetPreemptedForOperation()), in.GetPreemptedForTask())))
	page.add("because", ids.In(here(in.GetMessage(), now)))
	page.add("saved", when(j.GetAcknowledged(), "it reported its state as saved, and was stopped before its deadline"))
}

// untilText formats a deadline, with the time left or its age.
func untilText(t *timestamppb.Timestamp, now time.Time) string {
	if left := t.AsTime().Sub(now); left > 0 {
		return fmt.Sprintf("%s (%s left)", t.AsTime().In(now.Location()).Format("2006-01-02 15:04:05"), span(left))
	}
	return moment(t, now)
}
