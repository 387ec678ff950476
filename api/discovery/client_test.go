package discovery_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	server "weir/actors/agent/discovery"
	"weir/api/discovery"
	"weir/cluster/leaktest"
	"weir/messages/actorpb"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// allowed is the deadline of every wait.
const allowed = 2 * time.Minute

// source is a replica that answers what comes next.
type source struct{ answers chan *actorpb.Instances }

// Ask implements server.Source.
func (s source) Ask(ctx context.Context, _ *actorpb.InstancesRequest) (*actorpb.Instances, error) {
	select {
	case answer := <-s.answers:
		return answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Pause implements server.Source.
func (s source) Pause() time.Duration { return time.Millisecond }

// agent answers job a of the operation op, until it is ended.
type agent struct {
	path    string
	answers chan *actorpb.Instances
	desk    *server.Desk
	end     func()
}

func startAgent(t *testing.T, path string) *agent {
	t.Helper()
	a := &agent{path: path, answers: make(chan *actorpb.Instances, 10)}
	directory := server.NewDirectory(func() server.Source { return source{a.answers} })
	asked := false
	a.desk = server.NewDesk(server.Asker{Job: "a", Operation: "op", Acknowledge: func() error {
		if asked = !asked; asked {
			return nil
		}
		return errors.New("job has not been asked to stop")
	}}, directory)
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		server.Serve(listener, a.desk)
		close(served)
	}()
	ended := false
	a.end = func() {
		if !ended {
			ended = true
			_ = listener.Close()
			<-served
			directory.Close()
		}
	}
	t.Cleanup(a.end)
	return a
}

// say tells what the jobs of the operation are: their names, of which the last ones
// leave.
func (a *agent) say(version string, over bool, jobs ...string) {
	told := &actorpb.Instances{OperationId: "op", Version: version, Over: over}
	for i, job := range jobs {
		name, state, found := strings.Cut(job, ":")
		if !found {
			state = discovery.Live
		}
		told.Instances = append(told.Instances, &actorpb.Instance{JobId: name, Task: "serve", Cookie: int32(i), Host: "127.0.0.1", Ports: []int32{21000 + int32(i)}, State: state})
	}
	a.answers <- told
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), allowed)
	t.Cleanup(cancel)
	return ctx
}

func TestClient(t *testing.T) {
	a := startAgent(t, filepath.Join(t.TempDir(), "s"))
	t.Setenv(discovery.SocketVariable, a.path)
	client, err := discovery.Open()
	if err != nil {
		t.Fatal(err)
	}
	a.say("v1", false, "a", "b:draining")
	peers, err := client.Peers(deadline(t))
	if err != nil || len(peers.Instances) != 2 || !peers.Instances[0].Self || peers.Instances[1].State != discovery.Draining {
		t.Errorf("Peers: %+v, %v", peers, err)
	}
	if notice, err := client.Notice(deadline(t)); err != nil || notice.Leaving {
		t.Errorf("Notice: %+v, %v, want none", notice, err)
	}
	a.desk.Tell(discovery.Notice{Leaving: true, Interruption: "preemption"})
	if notice, err := client.Notice(deadline(t)); err != nil || notice.Interruption != "preemption" {
		t.Errorf("Notice: %+v, %v", notice, err)
	}
	if err := client.Acknowledge(deadline(t)); err != nil {
		t.Errorf("Acknowledge: %v", err)
	}
	if err := client.Acknowledge(deadline(t)); !errors.Is(err, discovery.ErrRefused) || !strings.Contains(err.Error(), "not been asked") {
		t.Errorf("Acknowledge: %v, want it refused, with the reason", err)
	}
}

func TestOpenOutsideOfAJob(t *testing.T) {
	t.Setenv(discovery.SocketVariable, "")
	if _, err := discovery.Open(); !errors.Is(err, discovery.ErrNoJob) {
		t.Errorf("Open: %v, want ErrNoJob", err)
	}
}

// TestClientSaysWhyThereIsNoAnswer asks while there is no agent, also until the moment in
// which it is not to ask any more.
func TestClientSaysWhyThereIsNoAnswer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for _, allowed := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 60 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			short, cancel := context.WithTimeout(t.Context(), allowed)
			defer cancel()
			if _, err := discovery.At(path).Notice(short); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrNotExist) {
				t.Errorf("Notice without an agent for %v: %v, want the deadline, and why", allowed, err)
			}
		})
	}
}

// TestClientOutlivesItsAgent watches one after another.
func TestClientOutlivesItsAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	client := discovery.At(path)
	a := startAgent(t, path)
	a.say("v1", false, "a")
	var heard []string
	for change := range client.Watch(deadline(t)) {
		switch {
		case change.Notice != nil:
			heard = append(heard, fmt.Sprint("notice ", change.Notice.Leaving))
			continue
		case change.Peers.Over:
			heard = append(heard, "over")
			continue
		}
		heard = append(heard, fmt.Sprint("peers ", len(change.Peers.Instances)))
		if len(change.Peers.Instances) == 1 {
			a.end()
			a = startAgent(t, path)
			a.say("v7", false, "a", "b")
		} else {
			a.say("v8", true)
		}
	}
	if got, want := strings.Join(heard, ", "), "notice false, peers 1, notice false, peers 2, over"; got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
	for range client.Watch(deadline(t)) {
		return // Whoever has heard enough may leave.
	}
}

// TestWatchIsToldChanges shows all jobs after each change, of which the agent told alone.
func TestWatchIsToldChanges(t *testing.T) {
	a := startAgent(t, filepath.Join(t.TempDir(), "s"))
	steps := [][]string{{"a", "b", "c", "d"}, {"a", "b:draining", "c", "d"}, {"a", "b:gone", "c", "d"}, {"a", "z", "c", "d"}}
	next := 0
	say := func() {
		a.say(fmt.Sprint("v", next), next == len(steps)-1, steps[next]...)
		next++
	}
	say()
	var first *discovery.Peers
	for change := range discovery.At(a.path).Watch(deadline(t)) {
		if change.Peers == nil {
			continue
		}
		if first == nil {
			first = change.Peers
		}
		var jobs []string
		for _, instance := range change.Peers.Instances {
			name := instance.Job
			if instance.State != discovery.Live {
				name += ":" + instance.State
			}
			jobs = append(jobs, name)
		}
		if !slices.Equal(jobs, steps[next-1]) || change.Peers.Operation != "op" {
			t.Errorf("heard %v, want %v", jobs, steps[next-1])
		}
		// What it was told is its own.
		change.Peers.Instances[0] = discovery.Instance{}
		if next < len(steps) {
			say()
		}
	}
	if next != len(steps) || first.Instances[1].State != discovery.Live {
		t.Errorf("heard %d of %d; the first is now %+v", next, len(steps), first)
	}
}

// TestWatchOfAnOldAgent is told all each time by one that knows of no changes.
func TestWatchOfAnOldAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			answer := `{"error":"request \"...\": json: unknown field \"changes\""}`
			if lines.Text() == `{"ask":"watch"}` {
				answer = `{"notice":{"leaving":false}}
{"peers":{"operation":"op","as_of":"2026-01-05T10:00:00Z","instances":[{"job":"a","state":"live"}]}}
{"peers":{"operation":"op","as_of":"2026-01-05T10:00:00Z","instances":[],"over":true}}`
			}
			_, _ = fmt.Fprintln(conn, answer)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-served
	})
	var heard []string
	for change := range discovery.At(path).Watch(deadline(t)) {
		if change.Peers != nil {
			heard = append(heard, fmt.Sprint(len(change.Peers.Instances), change.Peers.Over))
		}
	}
	if got, want := strings.Join(heard, ", "), "1 false, 0 true"; got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
}
