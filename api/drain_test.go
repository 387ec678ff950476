package api

import (
	"testing"
	"time"

	"weir/messages/commandpb"
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
