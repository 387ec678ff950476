package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

func TestDrain(t *testing.T) {
	s := newSite(t)
	s.run(3, "j1", "leaving")
	before := len(at(t, s.get("ClusterService/Status", "{}"), "draining").([]any))
	for range 2 {
		s.get("NodeService/Drain", `{"node": "n1", "reason": "new kernel"}`)
	}
	status := s.get("ClusterService/Status", "{}")
	for name, node := range map[string]any{
		"get": at(t, s.get("NodeService/Get", `{"node": "n1"}`), "node"), "list": at(t, s.get("NodeService/List", "{}"), "nodes", 0), "status": at(t, status, "draining", 0),
	} {
		want(t, node, "online", "state")
		want(t, node, "2", "jobs")
		want(t, node, "new kernel", "drain", "reason")
		want(t, node, "oda", "drain", "user")
		if _, err := time.Parse(time.RFC3339, at(t, node, "drain", "time").(string)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.must(&commandpb.SetNodeOffline{Term: 1, Node: "n1", Incarnation: 1})
	want(t, at(t, s.get("ClusterService/Status", "{}"), "draining", 0), "offline", "state")
	for range 2 {
		s.get("NodeService/Undrain", `{"node": "n1"}`)
	}
	if got := len(at(t, s.get("ClusterService/Status", "{}"), "draining").([]any)); got != before {
		t.Errorf("%d nodes are drained, want %d", got, before)
	}
}

// TestStatusOfManyDrainedNodes (T4): drained nodes with long tags do not make the status too large. It says how many it leaves
// out, and sees the cluster as it is.
func TestStatusOfManyDrainedNodes(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.AnswerBytes = 80 << 10 })
	s.run(2)
	s.must(&commandpb.DrainNode{Node: "n1", User: "ann"})
	const made = 100
	for i := range made {
		id := fmt.Sprintf("drained%03d", i)
		s.must(
			&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
				Id: id, Incarnation: 1, Tags: []string{strings.Repeat("x", 1<<10)}, Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1 << 20},
			}},
			&commandpb.DrainNode{Node: id, User: "ann"},
		)
	}
	status := s.get("ClusterService/Status", "{}")
	shown := at(t, status, "draining").([]any)
	if left := at(t, status, "draining_left_out").(float64); len(shown) < 2 || len(shown) > 10 || len(shown)+int(left) != made+1 {
		t.Errorf("%d drained nodes and %v more, want %d", len(shown), left, made+1)
	}
	want(t, shown[0], "drained000", "id")
	if problems := fmt.Sprint(at(t, status, "problems")); !strings.Contains(problems, "every online node is drained, and 2 jobs are waiting") {
		t.Error(problems)
	}
}

func TestRemoveNode(t *testing.T) {
	s := newSite(t)
	s.run(3, "j1", "leaving")
	before := len(at(t, s.get("NodeService/List", "{}"), "nodes").([]any))
	s.must(&commandpb.SetNodeOffline{Term: 1, Node: "n1", Incarnation: 1})
	s.get("NodeService/Remove", `{"node": "n1"}`)
	if got := len(at(t, s.get("NodeService/List", "{}"), "nodes").([]any)); got != before-1 {
		t.Errorf("%d nodes, want %d", got, before-1)
	}
	if jobs := s.state.Allocations(); len(jobs) != 0 {
		t.Errorf("jobs %v run on a node that is gone", jobs)
	}
}
