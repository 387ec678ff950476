package agent

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/statistics"
)

// preparation is the time until a job's first process: total, and the part spent on its files.
type preparation struct{ total, files time.Duration }

// ended returns the record of a job whose processes have ended.
func ended(start *actorpb.StartJob, spec *actorpb.JobSpec, result *runner.Result, prepare preparation) *statepb.FinishedJob {
	job := endedAs(start, spec, result)
	job.StartTime = timestamppb.New(result.StartTime)
	job.FinishTime = timestamppb.New(result.EndTime)
	job.ExitCode = int32(max(math.MinInt32, min(math.MaxInt32, result.ExitCode)))
	job.Pid = int64(result.Pid)
	job.Statistics = measures(result, prepare)
	job.Input, job.Output = inputOf(spec.GetFeed(), result.Input), outputOf(result.Output)
	if hang := result.Hang; hang != nil && job.GetError() != nil {
		explain(job, hangAttributes(hang))
	}
	if job.GetError() != nil && result.OutputLost != "" {
		// The lost output may contain the explanation.
		explain(job, map[string]string{"output_lost": result.OutputLost})
	}
	if job.GetState() == lifecycle.JobFailed.String() && job.GetError().GetAttributes()[statepb.AttributeInputFault] == "" {
		// The record may be the cause of any failure, even of running out of memory.
		explain(job, onlyRecord(spec.GetFeed(), result.Input))
	}
	return job
}

// explain adds attributes to a job's error.
func explain(job *statepb.FinishedJob, attributes map[string]string) {
	if len(attributes) == 0 {
		return
	}
	if job.Error.Attributes == nil {
		job.Error.Attributes = map[string]string{}
	}
	maps.Copy(job.Error.Attributes, attributes)
}

func endedAs(start *actorpb.StartJob, spec *actorpb.JobSpec, result *runner.Result) *statepb.FinishedJob {
	job := record(start)
	switch result.Outcome {
	case proxyproto.OutcomeExited:
		if result.ExitCode == 0 {
			job.State = lifecycle.JobCompleted.String()
			return job
		}
		return failed(job, because(fmt.Sprintf("exited with code %d", result.ExitCode), result.Error), nil)
	case proxyproto.OutcomeSignaled:
		return failed(job, because("killed by signal "+signalName(result.Signal), result.Error), nil)
	case proxyproto.OutcomeStartFailed:
		return failed(job, result.Error, nil)
	case proxyproto.OutcomeMemoryLimitExceeded:
		return failed(job, "Memory limit exceeded", memoryAttributes(result.Memory))
	case proxyproto.OutcomeTimeLimitExceeded:
		return failed(job, "Job time limit exceeded", map[string]string{"job_time_limit": timeLimit(spec).String()})
	case proxyproto.OutcomeDiskLimitExceeded:
		return failed(job, "Disk limit exceeded", diskAttributes(result.Disk))
	case proxyproto.OutcomePidsLimitExceeded:
		return failed(job, cmp.Or(result.Error, "Pids limit exceeded"), nil)
	case proxyproto.OutcomeInputFailed:
		return failed(job, cmp.Or(result.Error, faultText(result.InputFault)), faultAttributes(result.InputFault))
	case proxyproto.OutcomeOutputFailed:
		return failed(job, cmp.Or(result.Error, "cannot store the job's output"), map[string]string{statepb.AttributeOutputFault: cmp.Or(result.Error, "unknown")})
	case proxyproto.OutcomeStopped:
		return aborted(job, abortReason(result.Reason), result.Error)
	case proxyproto.OutcomeLeaseExpired:
		return aborted(job, lifecycle.AbortNodeOffline, result.Error)
	default:
		return aborted(job, lifecycle.AbortJobProxyFailed, result.Error)
	}
}

// because appends the cause to a message, unless it is empty.
func because(message, cause string) string {
	if cause == "" {
		return message
	}
	return message + ": " + cause
}

// unstarted returns the record of a job that never had a process.
func unstarted(start *actorpb.StartJob, now time.Time, reason lifecycle.AbortReason, message string) *statepb.FinishedJob {
	return aborted(never(start, now), reason, message)
}

// unstartable returns the record of a job that no node could start as it is.
func unstartable(start *actorpb.StartJob, now time.Time, message string) *statepb.FinishedJob {
	return failed(never(start, now), message, nil)
}

func never(start *actorpb.StartJob, now time.Time) *statepb.FinishedJob {
	job := record(start)
	job.StartTime, job.FinishTime = timestamppb.New(now), timestamppb.New(now)
	job.Statistics = &statepb.JobStatistics{}
	return job
}

func record(start *actorpb.StartJob) *statepb.FinishedJob {
	return &statepb.FinishedJob{
		JobId: start.GetJobId(), Task: start.GetTask(), Cookie: start.GetCookie(), Attempt: start.GetAttempt(),
		GrantTerm: start.GetToken().GetTerm(), GrantIndex: start.GetToken().GetIndex(),
	}
}

func failed(job *statepb.FinishedJob, message string, attributes map[string]string) *statepb.FinishedJob {
	job.State = lifecycle.JobFailed.String()
	job.Error = &statepb.Error{Code: int32(lifecycle.CodeJobFailed), Message: message, Attributes: attributes}
	return job
}

func aborted(job *statepb.FinishedJob, reason lifecycle.AbortReason, message string) *statepb.FinishedJob {
	job.State = lifecycle.JobAborted.String()
	job.AbortReason = reason.String()
	if message != "" {
		job.Error = &statepb.Error{Message: message}
	}
	return job
}

// abortReason parses the reason with which a job was stopped. A closing runner stops jobs with
// a text that is no abort reason.
func abortReason(name string) lifecycle.AbortReason {
	reason, err := lifecycle.ParseAbortReason(name)
	if err != nil || reason == lifecycle.NotAborted {
		return lifecycle.AbortNodeOffline
	}
	return reason
}

// signalName returns "9 (SIGKILL)" for SIGKILL.
func signalName(name string) string {
	if number := unix.SignalNum(name); number != 0 {
		return fmt.Sprintf("%d (%s)", int(number), name)
	}
	return name
}

func memoryAttributes(excess *proxyproto.MemoryExcess) map[string]string {
	if excess == nil {
		return nil
	}
	attributes := excessAttributes(excess.Usage, excess.Limit, "biggest_processes", proxyproto.Listed("", excess.Biggest))
	if excess.Tmpfs > 0 {
		attributes["tmpfs_usage"] = strconv.FormatInt(excess.Tmpfs, 10)
	}
	return attributes
}

func diskAttributes(excess *proxyproto.DiskExcess) map[string]string {
	if excess == nil {
		return nil
	}
	biggest := make([]string, len(excess.Biggest))
	for i, file := range excess.Biggest {
		biggest[i] = fmt.Sprintf("%s (%d bytes)", file.Path, file.Bytes)
	}
	return excessAttributes(excess.Usage, excess.Limit, "biggest_files", strings.Join(biggest, ", "))
}

func hangAttributes(hang *proxyproto.Hang) map[string]string {
	attributes := map[string]string{"hung_step": hang.Step}
	if len(hang.Processes) > 0 {
		attributes["hung_processes"] = proxyproto.Listed("", hang.Processes)
	}
	return attributes
}

func excessAttributes(usage, limit int64, of, biggest string) map[string]string {
	return map[string]string{"usage": strconv.FormatInt(usage, 10), "limit": strconv.FormatInt(limit, 10), of: biggest}
}

func measures(result *runner.Result, prepare preparation) *statepb.JobStatistics {
	s := result.Statistics
	values := map[string]int64{
		// Proxies of earlier builds do not send these in Values.
		statistics.UserMaxMemory:          s.MaxMemory,
		statistics.UserCPUUser:            s.CPUUserMicros,
		statistics.UserCPUSystem:          s.CPUSystemMicros,
		statistics.UserPipesStdout:        s.StdoutBytes,
		statistics.UserPipesStdoutDropped: s.StdoutDroppedBytes,
		statistics.UserPipesStderr:        s.StderrBytes,
		statistics.UserPipesStderrDropped: s.StderrDroppedBytes,
	}
	maps.Copy(values, s.Values)
	values[statistics.TimePrepare] = prepare.total.Milliseconds()
	values[statistics.TimeArtifactsDownload] = prepare.files.Milliseconds()
	values[statistics.TimeExec] = result.Duration().Milliseconds()
	values[statistics.TimeTotal] = (prepare.total + result.Duration()).Milliseconds()
	return &statepb.JobStatistics{
		Values:              values,
		MaxMemory:           s.MaxMemory,
		CumulativeMaxMemory: s.CumulativeMaxMemory,
		CpuUserMicros:       s.CPUUserMicros,
		CpuSystemMicros:     s.CPUSystemMicros,
		RunMillis:           result.Duration().Milliseconds(),
		PrepareMillis:       prepare.total.Milliseconds(),
		StdoutBytes:         s.StdoutBytes,
		StdoutDroppedBytes:  s.StdoutDroppedBytes,
		StderrBytes:         s.StderrBytes,
		StderrDroppedBytes:  s.StderrDroppedBytes,
	}
}
