package agent

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// endCase is what the runner says of a job, and what the agent reports of it.
type endCase struct {
	result    runner.Result
	wantState string
	wantAbort string
	wantError string
	wantMore  map[string]string
}

// checkEnded has the agent report each result.
func checkEnded(t *testing.T, cases map[string]endCase) {
	t.Helper()
	spec := &actorpb.JobSpec{JobTimeLimitMillis: 60_000, Feed: &actorpb.JobFeed{Parts: []*actorpb.FeedPart{
		{Slice: &statepb.Slice{End: 10}, File: &statepb.InputFile{Path: "/data/in"}, Source: "/data/in"},
	}}}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			test.result.StartTime, test.result.EndTime, test.result.Pid = epoch, epoch.Add(time.Second), 42
			test.result.DurationMicros = 1_000_999
			test.result.Statistics = runner.Statistics{MaxMemory: 1, CPUUserMicros: 2, CPUSystemMicros: 3, StdoutBytes: 4,
				StdoutDroppedBytes: 5, StderrBytes: 6, StderrDroppedBytes: 7, CumulativeMaxMemory: 8.5,
				Values: map[string]int64{"user_job/max_memory": 11, "job_proxy/max_memory": 12}}
			got := ended(startOrder("j"), spec, &test.result, preparation{250 * time.Millisecond, 100 * time.Millisecond})
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
			for name, want := range map[string]int64{
				"user_job/max_memory": 11, "job_proxy/max_memory": 12, "user_job/cpu/user": 2, "user_job/pipes/stderr/dropped_bytes": 7,
				"time/prepare": 250, "time/artifacts_download": 100, "time/exec": 1000, "time/total": 1250,
			} {
				if s.GetValues()[name] != want {
					t.Errorf("%s is %d, want %d", name, s.GetValues()[name], want)
				}
			}
			if got.GetPid() != 42 || got.GetTask() != "sort" || got.GetCookie() != 7 || got.GetJobId() != "j" || !got.GetStartTime().AsTime().Equal(epoch) {
				t.Errorf("the record is not of its job: %v", got)
			}
		})
	}
}

// TestEndedByItself has jobs whose process ended.
func TestEndedByItself(t *testing.T) {
	checkEnded(t, map[string]endCase{
		"a good end":   {result: runner.Result{Outcome: "exited"}, wantState: "completed"},
		"an exit code": {result: runner.Result{Outcome: "exited", ExitCode: 7}, wantState: "failed", wantError: "exited with code 7"},
		"an exit code with a cause": {result: runner.Result{Outcome: "exited", ExitCode: 2, Error: "Process limit exceeded: 3 times"},
			wantState: "failed", wantError: "exited with code 2: Process limit exceeded: 3 times"},
		"a signal with a cause": {result: runner.Result{Outcome: "signaled", ExitCode: -1, Signal: "SIGKILL", Error: "the machine ran out of memory"},
			wantState: "failed", wantError: "killed by signal 9 (SIGKILL): the machine ran out of memory"},
		"a signal": {result: runner.Result{Outcome: "signaled", ExitCode: -1, Signal: "SIGKILL"}, wantState: "failed", wantError: "killed by signal 9 (SIGKILL)"},
		"output that the disk did not take": {result: runner.Result{Outcome: "exited", ExitCode: 7, OutputLost: "store stderr: no space"},
			wantState: "failed", wantError: "exited with code 7", wantMore: map[string]string{"output_lost": "store stderr: no space"}},
		"a good end all the same": {result: runner.Result{Outcome: "exited", OutputLost: "store stderr: no space"}, wantState: "completed"},
		"an odd signal":           {result: runner.Result{Outcome: "signaled", Signal: "signal 63"}, wantState: "failed", wantError: "killed by signal signal 63"},
		"the only record of a job": {
			result:    runner.Result{Outcome: "signaled", Signal: "SIGSEGV", Input: &proxyproto.InputCount{Rows: 1, Only: &proxyproto.FeedRecord{Part: 0, Begin: 3, End: 7, Head: []byte("bad")}}},
			wantState: "failed", wantError: "killed by signal 11 (SIGSEGV)",
			wantMore: map[string]string{"input_path": "/data/in", "record_offset": "3", "record_end": "7", "record_head": `"bad"`},
		},
	})
}

// TestEndedByOthers has jobs that were stopped, or never started.
func TestEndedByOthers(t *testing.T) {
	checkEnded(t, map[string]endCase{
		"no program":     {result: runner.Result{Outcome: "start_failed", Error: `start "/no": no such file or directory`}, wantState: "failed", wantError: `start "/no": no such file or directory`},
		"an order":       {result: runner.Result{Outcome: "stopped", Reason: "preemption", ExitCode: 0}, wantState: "aborted", wantAbort: "preemption"},
		"a closed agent": {result: runner.Result{Outcome: "stopped", Reason: "the agent is closing"}, wantState: "aborted", wantAbort: "node_offline"},
		"a frozen agent": {result: runner.Result{Outcome: "lease_expired", Error: "not heard"}, wantState: "aborted", wantAbort: "node_offline", wantError: "not heard"},
		"a lost proxy":   {result: runner.Result{Outcome: "proxy_failed", Error: "signal: killed"}, wantState: "aborted", wantAbort: "job_proxy_failed", wantError: "signal: killed"},
		"a hung end": {
			result: runner.Result{Outcome: "end_hung", Error: "hangs", Hang: &proxyproto.Hang{Step: "keep a as b",
				Processes: []proxyproto.HungProcess{{Identity: proxyproto.Identity{Pid: 3}, Name: "cp", Wait: "io"}, {Identity: proxyproto.Identity{Pid: 4}, Name: "mv"}}}},
			wantState: "aborted", wantAbort: "job_proxy_failed", wantError: "hangs",
			wantMore: map[string]string{"hung_step": "keep a as b", "hung_processes": "cp (pid 3, in io), mv (pid 4)"},
		},
		"a new outcome": {result: runner.Result{Outcome: "bored"}, wantState: "aborted", wantAbort: "job_proxy_failed"},
	})
}

// TestEndedByLimits has jobs that reached a limit.
func TestEndedByLimits(t *testing.T) {
	checkEnded(t, map[string]endCase{
		"too long": {result: runner.Result{Outcome: "time_limit_exceeded"}, wantState: "failed", wantError: "Job time limit exceeded", wantMore: map[string]string{"job_time_limit": "1m0s"}},
		"too much": {result: runner.Result{Outcome: "memory_limit_exceeded"}, wantState: "failed", wantError: "Memory limit exceeded"},
		"too much on disk": {
			result:    runner.Result{Outcome: "disk_limit_exceeded", Disk: &proxyproto.DiskExcess{Usage: 12, Limit: 10, Biggest: []proxyproto.FileSize{{Path: "a/b", Bytes: 8}}}},
			wantState: "failed", wantError: "Disk limit exceeded", wantMore: map[string]string{"usage": "12", "limit": "10", "biggest_files": "a/b (8 bytes)"},
		},
		"too many processes": {result: runner.Result{Outcome: "pids_limit_exceeded", Error: "12 processes of 10"}, wantState: "failed", wantError: "12 processes of 10"},
		"who used the memory": {
			result: runner.Result{Outcome: "memory_limit_exceeded", Memory: &proxyproto.MemoryExcess{Usage: 12, Limit: 10, Tmpfs: 2,
				Biggest: []proxyproto.ProcessMemory{{Pid: 3, Name: "sort", Bytes: 8}, {Pid: 4, Name: "cat", Bytes: 4}}}},
			wantState: "failed", wantError: "Memory limit exceeded",
			wantMore: map[string]string{"usage": "12", "limit": "10", "tmpfs_usage": "2", "biggest_processes": "sort (pid 3, 8 bytes), cat (pid 4, 4 bytes)"},
		},
	})
}

// TestEndedByFiles has jobs whose input or output failed.
func TestEndedByFiles(t *testing.T) {
	checkEnded(t, map[string]endCase{
		"input that is not what it was": {
			result:    runner.Result{Outcome: "input_failed", InputFault: &proxyproto.InputFault{Kind: "input_changed", Name: "/in", Text: "it grew"}},
			wantState: "failed", wantError: "input /in: it grew", wantMore: map[string]string{"input_fault": "input_changed", "input_path": "/in"},
		},
		"a record that is none": {
			result:    runner.Result{Outcome: "input_failed", Error: "no JSON", InputFault: &proxyproto.InputFault{Kind: "bad_json", Name: "/in", Begin: 5, End: 9, Head: []byte("{x\n")}},
			wantState: "failed", wantError: "no JSON",
			wantMore: map[string]string{"input_fault": "bad_json", "input_path": "/in", "record_offset": "5", "record_end": "9", "record_head": `"{x\n"`},
		},
		"output that could not be kept": {
			result:    runner.Result{Outcome: "output_failed", Error: "no space left on device"},
			wantState: "failed", wantError: "no space left on device", wantMore: map[string]string{"output_fault": "no space left on device"},
		},
	})
}
