package agent

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
)

func TestEnded(t *testing.T) {
	tests := map[string]struct {
		result    runner.Result
		wantState string
		wantAbort string
		wantError string
		wantMore  map[string]string
	}{
		"a good end":   {result: runner.Result{Outcome: "exited"}, wantState: "completed"},
		"an exit code": {result: runner.Result{Outcome: "exited", ExitCode: 7}, wantState: "failed", wantError: "exited with code 7"},
		"a signal":     {result: runner.Result{Outcome: "signaled", ExitCode: -1, Signal: "SIGKILL"}, wantState: "failed", wantError: "killed by signal 9 (SIGKILL)"},
		"output that the disk did not take": {result: runner.Result{Outcome: "exited", ExitCode: 7, OutputLost: "keep stderr: no space"},
			wantState: "failed", wantError: "exited with code 7", wantMore: map[string]string{"output_lost": "keep stderr: no space"}},
		"a good end all the same": {result: runner.Result{Outcome: "exited", OutputLost: "keep stderr: no space"}, wantState: "completed"},
		"an odd signal":           {result: runner.Result{Outcome: "signaled", Signal: "signal 63"}, wantState: "failed", wantError: "killed by signal signal 63"},
		"no program":              {result: runner.Result{Outcome: "start_failed", Error: `start "/no": no such file or directory`}, wantState: "failed", wantError: `start "/no": no such file or directory`},
		"too long":                {result: runner.Result{Outcome: "time_limit_exceeded"}, wantState: "failed", wantError: "Job time limit exceeded", wantMore: map[string]string{"job_time_limit": "1m0s"}},
		"too much":                {result: runner.Result{Outcome: "memory_limit_exceeded"}, wantState: "failed", wantError: "Memory limit exceeded"},
		"an order":                {result: runner.Result{Outcome: "stopped", Reason: "preemption", ExitCode: 0}, wantState: "aborted", wantAbort: "preemption"},
		"a closed agent":          {result: runner.Result{Outcome: "stopped", Reason: "the agent is closing"}, wantState: "aborted", wantAbort: "node_offline"},
		"a frozen agent":          {result: runner.Result{Outcome: "lease_expired", Error: "not heard"}, wantState: "aborted", wantAbort: "node_offline", wantError: "not heard"},
		"a lost proxy":            {result: runner.Result{Outcome: "proxy_failed", Error: "signal: killed"}, wantState: "aborted", wantAbort: "job_proxy_failed", wantError: "signal: killed"},
		"a new outcome":           {result: runner.Result{Outcome: "bored"}, wantState: "aborted", wantAbort: "job_proxy_failed"},
		"who used the memory": {
			result: runner.Result{Outcome: "memory_limit_exceeded", Memory: &proxyproto.MemoryExcess{Usage: 12, Limit: 10,
				Biggest: []proxyproto.ProcessMemory{{Pid: 3, Name: "sort", Bytes: 8}, {Pid: 4, Name: "cat", Bytes: 4}}}},
			wantState: "failed", wantError: "Memory limit exceeded",
			wantMore: map[string]string{"usage": "12", "limit": "10", "biggest_processes": "sort (pid 3, 8 bytes), cat (pid 4, 4 bytes)"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.result.StartTime, test.result.EndTime, test.result.Pid = epoch, epoch.Add(time.Second), 42
			test.result.DurationMicros = 1_000_999
			test.result.Statistics = runner.Statistics{MaxMemory: 1, CPUUserMicros: 2, CPUSystemMicros: 3, StdoutBytes: 4,
				StdoutDroppedBytes: 5, StderrBytes: 6, StderrDroppedBytes: 7, CumulativeMaxMemory: 8.5}
			got := ended(startOrder("j"), &test.result, time.Minute, 250*time.Millisecond)
			if got.GetState() != test.wantState || got.GetAbortReason() != test.wantAbort || got.GetError().GetMessage() != test.wantError {
				t.Errorf("got %s %q %q, want %s %q %q", got.GetState(), got.GetAbortReason(), got.GetError().GetMessage(), test.wantState, test.wantAbort, test.wantError)
			}
			if more := got.GetError().GetAttributes(); len(more)+len(test.wantMore) > 0 && !maps.Equal(more, test.wantMore) {
				t.Errorf("attributes %v, want %v", more, test.wantMore)
			}
			s := got.GetStatistics()
			if fmt.Sprint(s.GetMaxMemory(), s.GetCpuUserMicros(), s.GetCpuSystemMicros(), s.GetStdoutBytes(), s.GetStdoutDroppedBytes(), s.GetStderrBytes(),
				s.GetStderrDroppedBytes(), s.GetCumulativeMaxMemory(), s.GetRunMillis(), s.GetPrepareMillis()) != "1 2 3 4 5 6 7 8.5 1000 250" {
				t.Errorf("statistics are lost: %v", s)
			}
			if got.GetPid() != 42 || got.GetTask() != "sort" || got.GetCookie() != 7 || got.GetJobId() != "j" || !got.GetStartTime().AsTime().Equal(epoch) {
				t.Errorf("the record is not of its job: %v", got)
			}
		})
	}
}
