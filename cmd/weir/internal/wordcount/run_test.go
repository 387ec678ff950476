package wordcount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/messages/apipb"
)

// fakeCluster runs a job with each question after the operation, and has a leader
// but for a while after it was killed.
type fakeCluster struct {
	outputs []string
	lost    int

	mu        sync.Mutex
	completed int
	leader    string
	killed    string
	reads     int
}

func (f *fakeCluster) StartOperation(context.Context, *apipb.StartRequest) (*apipb.StartResponse, error) {
	return &apipb.StartResponse{OperationId: "op"}, nil
}

func (f *fakeCluster) GetOperation(context.Context, string) (*apipb.Operation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.completed = min(f.completed+1, len(f.outputs))
	state := running
	if f.completed == len(f.outputs) {
		state = completed
	}
	return &apipb.Operation{State: state, Progress: &apipb.TaskProgress{Completed: int64(f.completed)}}, nil
}

func (f *fakeCluster) Jobs(context.Context, string) ([]*apipb.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var jobs []*apipb.Job
	for cookie := range f.outputs {
		state := running
		if cookie < f.completed {
			state = completed
		}
		if f.lost != cookie+1 {
			jobs = append(jobs, &apipb.Job{Id: fmt.Sprint(cookie), Cookie: int32(cookie), State: state})
		}
	}
	return jobs, nil
}

func (f *fakeCluster) Stdout(_ context.Context, job string) (string, error) {
	var cookie int
	_, err := fmt.Sscan(job, &cookie)
	return f.outputs[cookie], err
}

func (f *fakeCluster) Leader(context.Context) (string, error) { return f.leader, nil }

func (f *fakeCluster) Read(_ context.Context, without string, _ int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if without != f.leader {
		return errors.New("asked the one that dies")
	}
	if f.killed == "" {
		return nil
	}
	if f.reads++; f.reads < 5 {
		return errors.New("no leader")
	}
	return nil
}

func (f *fakeCluster) Kill(replica string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.killed = replica
	return nil
}

// Nobody watches.
func say(string)     {}
func progress(int64) {}

func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	source := t.TempDir()
	tree(t, source, map[string][]byte{"a": []byte("x"), "b": []byte("x y"), "c": []byte("x y z"), "d": nil})
	direct, err := CountDirectly(source)
	if err != nil {
		t.Fatal(err)
	}
	good := []string{"1 ./a\n", "2 ./b\n", "3 ./c\n", "0 ./d\n"}
	for name, test := range map[string]struct {
		outputs []string
		lost    int
		kill    bool
		want    string
	}{
		"leader killed":   {good, 0, true, ""},
		"leader kept":     {good, 0, false, ""},
		"a job got lost":  {good, 2, true, "1 of 4 jobs left no output"},
		"a wrong counter": {[]string{"1 ./a\n", "2 ./b\n", "4 ./c\n", "0 ./d\n"}, 0, true, "./c has 3 words"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &fakeCluster{outputs: test.outputs, lost: test.lost, leader: "r2"}
			result, err := Run(t.Context(), cluster, Config{Source: source, Direct: direct, Jobs: 4, KillLeader: test.kill, Patience: DefaultPatience}, say, progress)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(result.Differences, "\n"); !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("differences %q, want %q", got, test.want)
			}
			if killed := cluster.killed == "r2"; killed != test.kill {
				t.Errorf("killed %q", cluster.killed)
			}
			if test.kill && (result.CompletedAtKill == 0 || result.RunningAtKill == 0 || result.Outage <= 0) {
				t.Errorf("at the kill: %+v", result)
			}
		})
	}
}

// fastCluster has run all jobs that do not wait when it is first asked.
type fastCluster struct {
	fakeCluster
	gate string
}

func (f *fastCluster) StartOperation(_ context.Context, r *apipb.StartRequest) (*apipb.StartResponse, error) {
	fields := r.GetSpec().AsMap()["tasks"].(map[string]any)[task].(map[string]any)
	f.gate, _ = fields["environment"].(map[string]any)["GATE"].(string)
	return &apipb.StartResponse{OperationId: "op"}, nil
}

func (f *fastCluster) GetOperation(ctx context.Context, id string) (*apipb.Operation, error) {
	f.mu.Lock()
	f.completed = len(f.outputs) - 1
	if _, err := os.Stat(f.gate); f.gate != "" && err != nil {
		f.completed--
	}
	f.mu.Unlock()
	return f.fakeCluster.GetOperation(ctx, id)
}

// TestLeaderIsKilledHoweverFastJobsAre: who looks may come late.
func TestLeaderIsKilledHoweverFastJobsAre(t *testing.T) {
	source := t.TempDir()
	tree(t, source, map[string][]byte{"a": []byte("x"), "b": []byte("x y")})
	direct, err := CountDirectly(source)
	if err != nil {
		t.Fatal(err)
	}
	cluster := &fastCluster{fakeCluster: fakeCluster{outputs: []string{"1 ./a\n", "2 ./b\n"}, leader: "r2"}}
	config := Config{Source: source, Direct: direct, Jobs: 2, KillLeader: true, Gate: filepath.Join(t.TempDir(), "killed"), Patience: DefaultPatience}
	result, err := Run(t.Context(), cluster, config, say, progress)
	if err != nil || len(result.Differences) > 0 || cluster.killed != "r2" || result.RunningAtKill != 1 {
		t.Errorf("%+v, %v; killed %q", result, err, cluster.killed)
	}
}

// stuckCluster never gets anywhere.
type stuckCluster struct{ fakeCluster }

func (*stuckCluster) GetOperation(context.Context, string) (*apipb.Operation, error) {
	return &apipb.Operation{State: running, Progress: &apipb.TaskProgress{Completed: 1}}, nil
}

func TestRunThatGetsNowhere(t *testing.T) {
	_, err := Run(t.Context(), &stuckCluster{}, Config{Source: "/", Jobs: 4, Patience: time.Millisecond}, say, progress)
	if err == nil || !strings.Contains(err.Error(), "1 of 4") {
		t.Errorf("it ended with %v", err)
	}
}

func TestNothingToCount(t *testing.T) {
	for name, folder := range map[string]string{"an empty folder": t.TempDir(), "no folder": filepath.Join(t.TempDir(), "none")} {
		if _, err := CountDirectly(folder); err == nil || !strings.Contains(err.Error(), folder) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
