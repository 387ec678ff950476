package api

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
)

// eventsOf reads what a request selects.
func eventsOf(t *testing.T, c *client.Client, m *apipb.ReadEventsRequest) (places []string, kinds []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for e, err := range c.ReadEvents(ctx, m) {
		if err != nil {
			return places, kinds, err
		}
		places = append(places, fmt.Sprintf("%d.%d", e.GetIndex(), e.GetPosition()))
		kinds = append(kinds, e.GetKind())
	}
	return places, kinds, nil
}

func TestReadEvents(t *testing.T) {
	s := newSite(t)
	id := s.run(3, "j1", "j2")
	s.finish(id, "j1", "failed")
	s.must(&commandpb.EditTree{User: "oda", Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: "shop"}}}}})
	c := newClient(t, s)
	all, kinds, err := eventsOf(t, c, &apipb.ReadEventsRequest{})
	if err != nil || len(all) < 12 || all[0] != "1.0" || kinds[0] != "leader_changed" || kinds[len(kinds)-1] != "pool_created" {
		t.Fatalf("got %v %v, %v", all, kinds, err)
	}
	for i, place := range all {
		var m apipb.ReadEventsRequest
		if _, err := fmt.Sscanf(place, "%d.%d", &m.Index, &m.Position); err != nil {
			t.Fatal(err)
		}
		got, _, err := eventsOf(t, c, &m)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(all[i:]) {
			t.Errorf("from %s: got %v, %v, want %v", place, got, err, all[i:])
		}
	}
	for name, test := range map[string]struct {
		m    *apipb.ReadEventsRequest
		want string
	}{
		"jobs":                 {&apipb.ReadEventsRequest{Kinds: []string{"job_*"}}, "[job_started job_started job_failed]"},
		"two kinds":            {&apipb.ReadEventsRequest{Kinds: []string{"job_failed", "pool_created"}}, "[job_failed pool_created]"},
		"a node":               {&apipb.ReadEventsRequest{Node: "n1", Kinds: []string{"node_*", "job_failed"}}, "[node_online job_failed]"},
		"a pool":               {&apipb.ReadEventsRequest{Pool: "shop"}, "[pool_created]"},
		"another tree":         {&apipb.ReadEventsRequest{Tree: "gpu"}, "[]"},
		"an operation":         {&apipb.ReadEventsRequest{Operation: id, Kinds: []string{"operation_accepted", "job_failed"}}, "[operation_accepted job_failed]"},
		"another operation":    {&apipb.ReadEventsRequest{Operation: "none"}, "[]"},
		"the next one":         {&apipb.ReadEventsRequest{Index: s.index + 1}, "[]"},
		"from the latest time": {&apipb.ReadEventsRequest{Latest: true}, "[]"},
	} {
		if _, got, err := eventsOf(t, c, test.m); err != nil || fmt.Sprint(got) != test.want {
			t.Errorf("%s: got %v, %v, want %s", name, got, err, test.want)
		}
	}
	for name, test := range map[string]struct {
		m    *apipb.ReadEventsRequest
		want string
	}{
		"a kind that is none": {&apipb.ReadEventsRequest{Kinds: []string{"jobs"}}, `kind "jobs": unknown: must be one of leader_changed`},
		"of no time yet":      {&apipb.ReadEventsRequest{Index: 10_000}, fmt.Sprintf("index 10000 is ahead of the log, whose last index is %d", s.index)},
		"two places":          {&apipb.ReadEventsRequest{Index: 1, Latest: true}, "give only one of index, since and latest"},
	} {
		if _, _, err := eventsOf(t, c, test.m); err == nil || client.CodeOf(err) != apipb.CodeInvalidArgument || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

// TestFollowEvents reads on while things happen, through one replica and then another.
func TestFollowEvents(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.KeepAlive = 20 * time.Millisecond })
	other := newSite(t, func(l *Limits) { l.KeepAlive = 20 * time.Millisecond })
	c := newClient(t, s, other)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pool := func(name string) *commandpb.EditTree {
		return &commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: name}}}}}
	}
	step := 0
	want := ""
	for e, err := range c.ReadEvents(ctx, &apipb.ReadEventsRequest{Follow: true, Index: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%d %s %s", e.GetIndex(), e.GetKind(), e.GetPool()); step > 0 && got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		step++
		// The same happens at both replicas.
		name := fmt.Sprintf("p%d", step)
		s.must(pool(name))
		other.must(pool(name))
		want = fmt.Sprintf("%d pool_created %s", step+1, name)
		if step == 5 {
			s.handler.Close()
		}
		if step == 10 {
			break
		}
	}
	if step != 10 {
		t.Errorf("%d events came", step)
	}
}

// TestEventsThatAreNotThere: an error names the oldest, and one replica's gap is no
// other's.
func TestEventsThatAreNotThere(t *testing.T) {
	s, whole := newSite(t), newSite(t)
	first := &commandpb.BeginTerm{Term: 2, Replica: "r2", ClusterId: "c1"}
	s.events.Jump(5)
	for _, at := range []*site{s, whole} {
		at.View(func(*state.State) { at.index = 5 })
		at.must(first)
	}
	_, kinds, err := eventsOf(t, newClient(t, s), &apipb.ReadEventsRequest{Index: 1})
	if client.CodeOf(err) != apipb.CodeEventsMissing || !strings.Contains(err.Error(), "index 2 to 5 are missing") || len(kinds) != 1 {
		t.Errorf("got %v, %v", kinds, err)
	}
	if _, kinds, err := eventsOf(t, newClient(t, s), &apipb.ReadEventsRequest{Index: 6}); err != nil || len(kinds) != 1 {
		t.Errorf("behind the gap: got %v, %v", kinds, err)
	}
	places, _, err := eventsOf(t, newClient(t, s, whole), &apipb.ReadEventsRequest{Index: 1})
	if err != nil || fmt.Sprint(places) != "[1.0 6.0]" {
		t.Errorf("with a replica that knows all: got %v, %v", places, err)
	}
}

func TestEventsThatAreGone(t *testing.T) {
	s := newSite(t)
	for term := range uint64(3000) {
		s.must(&commandpb.BeginTerm{Term: term + 2, Replica: fmt.Sprintf("a-replica-with-a-long-name-%d", term), ClusterId: "c1"})
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.events.WaitCovered(ctx, 3001); err != nil {
		t.Fatal(err)
	}
	oldest := s.events.Oldest()
	_, _, err := eventsOf(t, newClient(t, s), &apipb.ReadEventsRequest{Index: 1})
	if client.CodeOf(err) != apipb.CodeEventsGone || !strings.Contains(err.Error(), fmt.Sprintf("the oldest kept index is %d", oldest)) || oldest < 2 {
		t.Fatalf("got %v, oldest %d", err, oldest)
	}
	places, _, err := eventsOf(t, newClient(t, s), &apipb.ReadEventsRequest{})
	if err != nil || places[0] != fmt.Sprintf("%d.0", oldest) || len(places) != int(3001-oldest+1) {
		t.Errorf("all that are kept: %d from %s on, %v", len(places), places[0], err)
	}
}

// TestReaderThatTakesNothing: what it is told goes into the replica's figures; it goes on
// from there.
func TestReaderThatTakesNothing(t *testing.T) {
	s := newSite(t)
	s.run(1)
	flow := &eventFlow{server: s.handler.server, asker: &asking{}, reader: s.events.Read(1, 0), send: func(*apipb.ReadEventsResponse) error {
		return os.ErrDeadlineExceeded
	}}
	defer flow.reader.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := flow.run(ctx)
	if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "has not read events for 10s or is gone; it can continue from index ") {
		t.Errorf("got %v", err)
	}
}
