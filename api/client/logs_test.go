package client_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/client"
	"weir/messages/apipb"
)

// scripted are the jobs of an operation, whose output grows with each question.
type scripted struct {
	mu   sync.Mutex
	jobs []*scriptedJob
	// asked counts questions: each third one fails while faults is set.
	asked  int
	faults bool
	// most is how many reads were under way at once.
	reads, most int
}

type scriptedJob struct {
	*apipb.Job
	// after: it is there when the job before it has written all.
	after bool
	text  map[string]string
	// there is how much it has written.
	there   map[string]int
	refused error
}

func (s *scripted) fault() error {
	if s.asked++; s.faults && s.asked%3 == 0 {
		return unavailable("")
	}
	return nil
}

// written reports whether a job has written all.
func (j *scriptedJob) written() bool {
	return j.refused != nil || j.there["stdout"] == len(j.text["stdout"]) && j.there["stderr"] == len(j.text["stderr"])
}

func (s *scripted) list(req *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fault(); err != nil {
		return nil, err
	}
	answer := &apipb.ListJobsResponse{}
	for i, job := range s.jobs {
		if job.after && !s.jobs[i-1].written() || req.GetState() != "" && req.GetState() != job.GetState() || req.GetTask() != "" && req.GetTask() != job.GetTask() {
			continue
		}
		answer.Jobs = append(answer.Jobs, job.Job)
	}
	slices.Reverse(answer.Jobs)
	answer.Total = int32(len(answer.GetJobs()))
	// The end of a page is not the end.
	answer.Jobs = answer.GetJobs()[req.GetOffset():min(req.GetOffset()+2, answer.GetTotal())]
	return answer, nil
}

func (s *scripted) output(req *apipb.JobOutputRequest) (*apipb.JobOutputResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	s.most = max(s.most, s.reads)
	defer func() { s.reads-- }()
	if err := s.fault(); err != nil {
		return nil, err
	}
	for _, job := range s.jobs {
		if job.GetId() != req.GetJobId() {
			continue
		}
		if job.refused != nil {
			return nil, job.refused
		}
		name, text := req.GetStream(), job.text[req.GetStream()]
		from := int(req.GetOffset())
		if from < 0 {
			from = max(0, job.there[name]+from)
		}
		to := min(from+7, job.there[name])
		ended := job.there[name] == len(text)
		job.there[name] = min(job.there[name]+5, len(text))
		return &apipb.JobOutputResponse{Data: []byte(text[from:to]), NextOffset: int64(to), End: ended && to == len(text)}, nil
	}
	return nil, refuse(connect.CodeNotFound, apipb.CodeNoSuchJob, "job not found")
}

// get returns the operation, which has ended when all jobs have written all.
func (s *scripted) get() (*apipb.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op := &apipb.Operation{Id: "op"}
	if !slices.ContainsFunc(s.jobs, func(job *scriptedJob) bool { return !job.written() }) {
		op.FinishTime = timestamppb.Now()
	}
	return op, nil
}

// newScripted returns four jobs: one that has failed, one whose output is gone, and two that complete, the second after the first.
func newScripted(faults, written bool) *scripted {
	begin := time.Now().Add(-2 * time.Hour)
	job := func(number int, task, state string, after bool) *scriptedJob {
		j := &scriptedJob{
			Job: &apipb.Job{
				Id: fmt.Sprintf("j%d", number), Task: task, State: state, Node: fmt.Sprintf("n%d", number%2),
				StartTime: timestamppb.New(begin.Add(time.Duration(number) * time.Minute)), FinishTime: timestamppb.New(begin.Add(time.Duration(number) * 30 * time.Minute)),
			},
			after: after, text: map[string]string{}, there: map[string]int{},
		}
		for _, stream := range []string{"stdout", "stderr"} {
			for line := range 8 {
				j.text[stream] += fmt.Sprintf("%s line %d\n", stream, line)
			}
			j.text[stream] = strings.TrimSuffix(j.text[stream], "\n")
			if written {
				j.there[stream] = len(j.text[stream])
			}
		}
		return j
	}
	s := &scripted{faults: faults, jobs: []*scriptedJob{
		job(1, "a", "failed", false), job(2, "b", "completed", false), job(3, "b", "completed", false), job(4, "b", "completed", true),
	}}
	s.jobs[1].refused = refuse(connect.CodeNotFound, apipb.CodeOutputGone, "no longer kept")
	return s
}

// TestOperationLogs (X6) reads the output of four jobs, of replicas that fail each third request: each line comes once
// and in order, a job that starts later is read too, and what is left out is left out.
func TestOperationLogs(t *testing.T) {
	streams, all := []string{"stdout", "stderr"}, "01234567"
	for name, test := range map[string]struct {
		logs client.Logs
		grow bool
		// want are the lines by job and stream.
		want     map[string]string
		wantGaps int
	}{
		"what there is": {
			logs: client.Logs{Streams: streams, Tail: -1},
			want: map[string]string{"j1 stdout": all, "j1 stderr": all, "j3 stdout": all, "j3 stderr": all, "j4 stdout": all, "j4 stderr": all}, wantGaps: 1,
		},
		"as it comes": {
			logs: client.Logs{Streams: streams, Tail: -1, Follow: true}, grow: true,
			want: map[string]string{"j1 stdout": all, "j1 stderr": all, "j3 stdout": all, "j3 stderr": all, "j4 stdout": all, "j4 stderr": all}, wantGaps: 1,
		},
		"one stream of a task": {
			logs: client.Logs{Streams: streams[1:], Task: "b", Tail: -1},
			want: map[string]string{"j3 stderr": all, "j4 stderr": all}, wantGaps: 1,
		},
		"failed jobs":     {logs: client.Logs{Streams: streams[:1], Failed: true, Tail: -1, Follow: true}, want: map[string]string{"j1 stdout": all}},
		"the last lines":  {logs: client.Logs{Streams: streams[:1], Failed: true, Tail: 3}, want: map[string]string{"j1 stdout": "567"}},
		"more than there": {logs: client.Logs{Streams: streams[:1], Failed: true, Tail: 30}, want: map[string]string{"j1 stdout": all}},
		"none of the old": {logs: client.Logs{Streams: streams[:1], Failed: true, Tail: 0}, want: map[string]string{}},
		"ended lately": {
			logs: client.Logs{Streams: streams[:1], Tail: -1, Since: time.Now().Add(-45 * time.Minute)},
			want: map[string]string{"j3 stdout": all, "j4 stdout": all},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(true, !test.grow)
			r := serve(t, &fakeReplica{listJobs: s.list, output: s.output, get: s.get})
			got := map[string]string{}
			test.logs.Operation = "*alias"
			gaps, err := open(t, nil, r.address).OperationLogs(t.Context(), test.logs, func(line client.LogLine) error {
				rest, ok := strings.CutPrefix(string(line.Text), line.Stream+" line ")
				if !ok {
					t.Errorf("a line of %s %s is %q", line.Job.GetId(), line.Stream, line.Text)
				}
				got[line.Job.GetId()+" "+line.Stream] += rest
				return nil
			})
			if err != nil || gaps.Jobs != test.wantGaps || (gaps.Jobs > 0) != (client.CodeOf(gaps.First) == apipb.CodeOutputGone) {
				t.Errorf("gaps %v, error %v; want %d gaps", gaps, err, test.wantGaps)
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("read %v\nwant %v", got, test.want)
			}
			most := 1
			if test.logs.Follow {
				most = 4 // two of each node
			}
			if s.most > most {
				t.Errorf("%d reads at once, want %d at most", s.most, most)
			}
		})
	}
}

// TestOperationLogsEnd ends the reading: by an error of who shows the lines, and by replicas that have been away for too long.
func TestOperationLogsEnd(t *testing.T) {
	s := newScripted(false, true)
	r := serve(t, &fakeReplica{listJobs: s.list, output: s.output, get: s.get})
	full := fmt.Errorf("disk full")
	_, err := open(t, nil, r.address).OperationLogs(t.Context(), client.Logs{Operation: "op", Streams: []string{"stdout"}, Tail: -1, Follow: true},
		func(client.LogLine) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("error %v, want that of who shows the lines", err)
	}
	away := serve(t, &fakeReplica{get: s.get, listJobs: func(*apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) { return nil, unavailable("") }})
	c := open(t, func(cfg *client.Config) { cfg.Deadline, cfg.Outage = 100*time.Millisecond, time.Second }, away.address)
	began := time.Now()
	_, err = c.OperationLogs(t.Context(), client.Logs{Operation: "op", Streams: []string{"stdout"}, Tail: -1, Follow: true}, func(client.LogLine) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "the log was not reached") || time.Since(began) < time.Second {
		t.Errorf("error %v after %v, want why there is no answer, after the outage", err, time.Since(began))
	}
}
