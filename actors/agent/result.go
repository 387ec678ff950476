package agent

import (
	"fmt"
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
)

// ended returns the record of a job whose processes have ended. limit is the
// job's time limit and prepare what passed before its start.
func ended(start *actorpb.StartJob, result *runner.Result, limit, prepare time.Duration) *statepb.FinishedJob {
	job := endedAs(start, result, limit, prepare)
	if job.GetError() != nil && result.OutputLost != "" {
		// What would have explained it may be what the disk did not take.
		if job.Error.Attributes == nil {
			job.Error.Attributes = map[string]string{}
		}
		job.Error.Attributes["output_lost"] = result.OutputLost
	}
	return job
}

func endedAs(start *actorpb.StartJob, result *runner.Result, limit, prepare time.Duration) *statepb.FinishedJob {
	job := record(start)
	job.StartTime = timestamppb.New(result.StartTime)
	job.FinishTime = timestamppb.New(result.EndTime)
	job.ExitCode = int32(max(math.MinInt32, min(math.MaxInt32, result.ExitCode)))
	job.Pid = int64(result.Pid)
	job.Statistics = statistics(result, prepare)
	switch result.Outcome {
	case proxyproto.OutcomeExited:
		if result.ExitCode == 0 {
			job.State = lifecycle.JobCompleted.String()
			return job
		}
		return failed(job, fmt.Sprintf("exited with code %d", result.ExitCode), nil)
	case proxyproto.OutcomeSignaled:
		return failed(job, "killed by signal "+signalName(result.Signal), nil)
	case proxyproto.OutcomeStartFailed:
		return failed(job, result.Error, nil)
	case proxyproto.OutcomeMemoryLimitExceeded:
		return failed(job, "Memory limit exceeded", memoryAttributes(result.Memory))
	case proxyproto.OutcomeTimeLimitExceeded:
		return failed(job, "Job time limit exceeded", map[string]string{"job_time_limit": limit.String()})
	case proxyproto.OutcomeStopped:
		return aborted(job, abortReason(result.Reason), result.Error)
	case proxyproto.OutcomeLeaseExpired:
		return aborted(job, lifecycle.AbortNodeOffline, result.Error)
	default:
		return aborted(job, lifecycle.AbortJobProxyFailed, result.Error)
	}
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

// abortReason reads the reason with which a job was stopped. A runner that is
// closed stops jobs in its own words.
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
	biggest := make([]string, len(excess.Biggest))
	for i, process := range excess.Biggest {
		biggest[i] = fmt.Sprintf("%s (pid %d, %d bytes)", process.Name, process.Pid, process.Bytes)
	}
	return map[string]string{
		"usage":             strconv.FormatInt(excess.Usage, 10),
		"limit":             strconv.FormatInt(excess.Limit, 10),
		"biggest_processes": strings.Join(biggest, ", "),
	}
}

func statistics(result *runner.Result, prepare time.Duration) *statepb.JobStatistics {
	s := result.Statistics
	return &statepb.JobStatistics{
		MaxMemory:           s.MaxMemory,
		CumulativeMaxMemory: s.CumulativeMaxMemory,
		CpuUserMicros:       s.CPUUserMicros,
		CpuSystemMicros:     s.CPUSystemMicros,
		RunMillis:           result.Duration().Milliseconds(),
		PrepareMillis:       prepare.Milliseconds(),
		StdoutBytes:         s.StdoutBytes,
		StdoutDroppedBytes:  s.StdoutDroppedBytes,
		StderrBytes:         s.StderrBytes,
		StderrDroppedBytes:  s.StderrDroppedBytes,
	}
}
