package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/messages/eventpb"
	"weir/messages/explainpb"
)

// follower reads events as they come.
type follower struct {
	mu   sync.Mutex
	seen []*eventpb.Event
	err  error
	over chan struct{}
}

// follow reads events from the first one on, until the test ends.
func (c *cluster) follow(t *testing.T) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{over: make(chan struct{})}
	users := c.operator(t)
	go func() {
		defer close(f.over)
		for e, err := range users.ReadEvents(ctx, &apipb.ReadEventsRequest{Index: 1, Follow: true}) {
			f.mu.Lock()
			if err == nil {
				f.seen = append(f.seen, e)
			} else if ctx.Err() == nil {
				f.err = err
			}
			f.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-f.over
	})
	return f
}

// all returns what has come so far.
func (f *follower) all(t testing.TB) []*eventpb.Event {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		t.Fatalf("the follower was told: %v", f.err)
	}
	return slices.Clone(f.seen)
}

// kind returns the events of a kind that have come.
func (f *follower) kind(t testing.TB, kind string) []*eventpb.Event {
	t.Helper()
	return slices.DeleteFunc(f.all(t), func(e *eventpb.Event) bool { return e.GetKind() != kind })
}

func placesOf(events []*eventpb.Event) (out []string) {
	for _, e := range events {
		out = append(out, fmt.Sprintf("%d.%d %s %s", e.GetIndex(), e.GetPosition(), e.GetKind(), e.GetJob()))
	}
	return out
}

// at returns a client that knows one replica.
func (c *cluster) at(t *testing.T, replica string) *client.Client {
	t.Helper()
	settings := client.Settings{Credentials: c.certs("operator-admin"), Addresses: []string{c.addresses[replica]}}
	cfg, err := settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Deadline = patience
	made, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

// explain is what the command line says, in JSON.
func (c *cluster) explain(t testing.TB, what, name string) *explainpb.Explanation {
	t.Helper()
	var said apipb.ExplainResponse
	if err := protojson.Unmarshal([]byte(c.cli(t, "explain", what, name, "-o", "json")), &said); err != nil {
		t.Fatal(err)
	}
	if len(said.GetExplanations()) != 1 {
		t.Fatalf("explain %s %s: %v", what, name, &said)
	}
	return said.GetExplanations()[0]
}

// explained waits for a verdict.
func (c *cluster) explained(t testing.TB, what, name, want string) (x *explainpb.Explanation) {
	t.Helper()
	until(t, fmt.Sprintf("%s %s is explained by %s", what, name, want), func() string {
		if x = c.explain(t, what, name); x.GetVerdict() == want {
			return ""
		}
		return fmt.Sprintf("%s: %s", x.GetVerdict(), x.GetText())
	})
	return x
}

// TestEvents follows what happens while every replica is killed in turn: nothing is
// left out and nothing comes twice, and all replicas tell the same.
func TestEvents(t *testing.T) {
	c := prepareCluster(t, here, "n1")
	c.more = []string{"--snapshot-threshold", "50"}
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	c.startAgent("n1")
	c.ready(t, 1)
	f := c.follow(t)
	operation := c.start(t, one(small(120, "run", c.folder(t), "200ms").with("cpu_limit", 1)))
	for i := range replicaNames {
		done := int64(10 + 25*i)
		c.becomes(t, operation, "has progressed", func(op *apipb.Operation) bool { return op.GetProgress().GetCompleted() >= done })
		// The leader, and who leads then, and who is left.
		victim := c.leader(t)
		c.process(victim).kill()
		c.leader(t)
		c.startReplica(victim)
	}
	c.ends(t, operation, "completed")
	until(t, "the end of the operation is told", func() string {
		for _, e := range f.kind(t, "operation_state") {
			if e.GetOperation() == operation && e.GetTo() == "completed" {
				return ""
			}
		}
		return fmt.Sprintf("%d events", len(f.all(t)))
	})
	seen := f.all(t)
	for i := 1; i < len(seen); i++ {
		a, b := seen[i-1], seen[i]
		next := a.GetIndex() == b.GetIndex() && a.GetPosition()+1 == b.GetPosition() || a.GetIndex() < b.GetIndex() && b.GetPosition() == 0
		if !next {
			t.Errorf("%d.%d comes after %d.%d", b.GetIndex(), b.GetPosition(), a.GetIndex(), a.GetPosition())
		}
	}
	if n := len(f.kind(t, "job_completed")); n != 120 {
		t.Errorf("%d jobs are told to have completed, want 120", n)
	}
	want := placesOf(seen)
	for _, replica := range replicaNames {
		var all []*eventpb.Event
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		for e, err := range c.at(t, replica).ReadEvents(ctx, &apipb.ReadEventsRequest{Index: 1}) {
			if err != nil {
				t.Errorf("replica %s: %v", replica, err)
				break
			}
			all = append(all, e)
		}
		cancel()
		if got := placesOf(all); len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("replica %s tells %d events, the follower heard %d:\n%v\n%v", replica, len(got), len(want), got, want)
		}
	}
	// From a place on, by the command line.
	middle := seen[len(seen)/2]
	lines := strings.Split(strings.TrimSpace(c.cli(t, "events", "--since", fmt.Sprintf("%d.%d", middle.GetIndex(), middle.GetPosition()), "-o", "json")), "\n")
	var first eventpb.Event
	if err := protojson.Unmarshal([]byte(lines[0]), &first); err != nil || first.GetIndex() != middle.GetIndex() || first.GetPosition() != middle.GetPosition() {
		t.Errorf("the first line is %s, %v, want %d.%d", lines[0], err, middle.GetIndex(), middle.GetPosition())
	}
	if n := len(seen) - len(seen)/2; len(lines) < n {
		t.Errorf("%d lines, want at least %d", len(lines), n)
	}
}

// TestWhy has one operation take the place of another: the event log, the explanations
// and the ledger say who left for whom.
func TestWhy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	f := c.follow(t)
	c.ask(t, "TreeService/Set", object{"tree": "default", "options": object{"fair_share_starvation_timeout": "3s", "preemptive_scheduling_backoff": "1s"}}, &apipb.SetTreeResponse{})
	c.pool(t, "default", "greedy", object{})
	c.pool(t, "default", "poor", object{"max_running_operation_count": 1})
	greedy := c.hungry(t, "default", "greedy", "1h")
	c.runs(t, greedy, slots)
	if x := c.explained(t, "op", greedy, "waiting_for_its_own_jobs"); x.GetPosition() != 1 || x.GetShare().GetFair() == 0 {
		t.Errorf("explained by %v", x)
	}
	large := c.start(t, one(small(1, "run", c.folder(t), "1s").with("cpu_limit", slots+1), object{"pool": "greedy"}))
	x := c.explained(t, "op", large, "no_node_big_enough")
	if x.GetTasks()[0].GetNodes().GetTooSmallBy()["cpu"] != 1 {
		t.Errorf("explained by %v", x)
	}
	if why := c.get(t, large).GetPendingReason(); why == "" || why != x.GetText() {
		t.Errorf("op get says %q, and explain %q", why, x.GetText())
	}
	poor := c.start(t, one(small(2, "run", c.folder(t), "1h").with("cpu_limit", 1), object{"pool": "poor"}))
	// Of two operations the pool admits the one that is prepared first.
	c.becomes(t, poor, "runs", func(op *apipb.Operation) bool { return op.GetState() == "running" })
	waits := c.start(t, one(small(1, "run", c.folder(t), "1s"), object{"pool": "poor"}))
	if x := c.explained(t, "op", waits, "running_limit_reached"); x.GetFacts()[0].GetPool() != "poor" {
		t.Errorf("explained by %v", x)
	}
	c.runs(t, poor, 2)
	var victims []*eventpb.Event
	until(t, "the jobs are told to have been preempted", func() string {
		victims = f.kind(t, "job_preempted")
		return fewer(len(victims), 2)
	})
	if len(victims) != 2 {
		t.Fatalf("%d jobs are told to have been preempted: %v", len(victims), placesOf(victims))
	}
	for _, v := range victims {
		if v.GetOperation() != greedy || v.GetPreemptedFor().GetOperation() != poor || v.GetPreemption() != "preemption" || v.GetMessage() == "" || v.GetPool() != "greedy" {
			t.Errorf("told of %v", v)
		}
		x := c.explained(t, "job", v.GetJob(), "job_aborted")
		text := fmt.Sprint(x.GetFacts())
		if !strings.Contains(text, poor) || !strings.Contains(text, "fair share") {
			t.Errorf("explained by %v", x)
		}
	}
	ledger := c.cli(t, "pool", "ledger", "greedy")
	if !strings.Contains(ledger, "preemption") {
		t.Errorf("the ledger is\n%s", ledger)
	}
	if printed := c.cli(t, "op", "get", greedy); !strings.Contains(printed, "lost work") {
		t.Errorf("the operation is shown as\n%s", printed)
	}
	if printed := c.cli(t, "explain", "pool", "greedy"); !strings.Contains(printed, "fair share of pool") {
		t.Errorf("the pool is explained as\n%s", printed)
	}
	c.abort(t, greedy, large, poor, waits)
}
