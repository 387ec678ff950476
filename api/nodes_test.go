package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestNodesOfNoTreeSayWhy shows what a node without a pool tree says of itself.
func TestNodesOfNoTreeSayWhy(t *testing.T) {
	for name, test := range map[string]struct {
		node *statepb.Node
		want []string
	}{
		"a node of a tree":                 {&statepb.Node{Tree: "default"}, nil},
		"a node of a tree, with a caveat":  {&statepb.Node{Tree: "default", Caveat: "no cgroups"}, []string{"no cgroups"}},
		"a node of no tree":                {&statepb.Node{}, []string{"gets no jobs", "nodes_filter"}},
		"a node of no tree, with a caveat": {&statepb.Node{Caveat: "no cgroups"}, []string{"gets no jobs", "no cgroups"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := caveatOf(test.node)
			if len(test.want) == 0 && got != "" {
				t.Errorf("got %q, want nothing", got)
			}
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want it to say %q", got, want)
				}
			}
		})
	}
}

// TestGrantsOfNodes (T6): a grant that would shut nodes out is refused and names them; with force it holds,
// and the status says who is refused.
func TestGrantsOfNodes(t *testing.T) {
	s := newSite(t)
	s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "g1", Incarnation: 1, Tags: []string{"gpu"}, Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 400, Memory: 1 << 30}}})
	want(t, s.get("ClusterService/Status", `{}`), 0., "node_grants")
	const grant = `{"grant": {"pattern": "g*", "tags": ["gpu"], "max": {"cpu": 3.5, "memory": 2147483648}}`
	got := s.post("NodeService/EditGrant", grant+`}`)
	if !strings.Contains(got.raw, "registered nodes would be refused") || !strings.Contains(got.raw, "g1: it claims 4 of cpu, but may claim 3.5") || got.status != http.StatusConflict && got.status != http.StatusBadRequest {
		t.Errorf("%d %s", got.status, got.raw)
	}
	s.get("NodeService/EditGrant", grant+`, "force": true}`)
	grants := s.get("NodeService/Grants", `{}`)
	want(t, grants, "g*", "grants", 0, "pattern")
	want(t, grants, 3.5, "grants", 0, "max", "cpu")
	want(t, grants, 2147483648., "grants", 0, "max", "memory")
	status := s.post("ClusterService/Status", `{}`).raw
	if !strings.Contains(status, "claim what no grant gives them") || !strings.Contains(status, "g1") {
		t.Errorf("the status is %s", status)
	}
	s.refusedAgents = []*actorpb.RefusedAgent{
		{Node: "g1", Tags: []string{"gpu"}, Resources: &statepb.Resources{CpuHundredths: 400}},
		{Node: "g2", Host: "h2", Tags: []string{"gpu", "ssd"}, Resources: &statepb.Resources{CpuHundredths: 100}},
		{Node: "g3", Tags: []string{"gpu"}, Resources: &statepb.Resources{CpuHundredths: 100}},
		{Node: "x9", Resources: &statepb.Resources{CpuHundredths: 100}},
	}
	const ssd = `it may not claim the tag "ssd": an operator allows it with: weir node allow 'g2' --tags ssd`
	for _, method := range []string{"ClusterService/Status", "NodeService/List"} {
		answer := s.get(method, `{}`)
		if n := len(at(t, answer, "refused").([]any)); n != 3 {
			t.Errorf("%s: %d agents, want all that are refused now: %v", method, n, answer)
		}
		want(t, answer, "g2", "refused", 1, "node")
		want(t, answer, "h2", "refused", 1, "host")
		want(t, answer, "ssd", "refused", 1, "tags", 1)
		want(t, answer, 3.5, "refused", 1, "given", "max", "cpu")
		want(t, answer, ssd, "refused", 1, "reason")
		if given := at(t, answer, "refused", 2); given.(map[string]any)["given"] != nil {
			t.Errorf("%s: no grant gives %v", method, given)
		}
	}
	if status := s.post("ClusterService/Status", `{}`).raw; !strings.Contains(status, "3 nodes are refused because they claim") {
		t.Errorf("a node that is registered counts once, and those that never were count: %s", status)
	}
	for body, problem := range map[string]string{
		`{"grant": {"pattern": "g*", "max": {"disk": 1}}}`: "disk", `{"grant": {"pattern": "g*", "max": {"cpu": -1}}}`: "cpu",
		`{"grant": {"pattern": "["}, "force": true}`: "pattern is not valid", `{"grant": {"pattern": "x"}, "disallow": true}`: "no such grant",
	} {
		if got := s.post("NodeService/EditGrant", body); got.status == http.StatusOK || !strings.Contains(got.raw, problem) {
			t.Errorf("%s: %d %s, want %q", body, got.status, got.raw, problem)
		}
	}
}

// TestNodesAreListedInParts (T4) has more nodes, with long tags, than an answer may have bytes: each
// answer says how many it leaves out, and each node is in one of them, also when a node is removed after
// which a list goes on.
func TestNodesAreListedInParts(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.AnswerBytes = 50_000 })
	const made = 30
	for i := range made {
		s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
			Id: fmt.Sprintf("m%02d", i), Incarnation: 1, Tags: []string{strings.Repeat("t", 5000)}, Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1 << 30},
		}})
	}
	var names []string
	for after, parts := "", 0; ; parts++ {
		answer := &apipb.ListNodesResponse{}
		if err := protojson.Unmarshal([]byte(s.post("NodeService/List", fmt.Sprintf(`{"state": "online", "after": %q}`, after)).raw), answer); err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(answer); size > 50_000 || len(answer.GetNodes()) == 0 {
			t.Fatalf("an answer of %d nodes has %d bytes", len(answer.GetNodes()), size)
		}
		for _, n := range answer.GetNodes() {
			names = append(names, n.GetId())
		}
		if left := made - len(names); int(answer.GetLeftOut()) != left || (answer.GetNext() == "") != (left == 0) {
			t.Fatalf("%d nodes are left out, next %q; want %d", answer.GetLeftOut(), answer.GetNext(), left)
		}
		if after = answer.GetNext(); after == "" {
			if parts < 2 {
				t.Errorf("%d parts", parts+1)
			}
			break
		}
		if parts == 0 {
			s.must(&commandpb.SetNodeOffline{Term: 1, Node: after, Incarnation: 1, Reason: "lost"}, &commandpb.RemoveNode{Node: after})
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != made {
		t.Errorf("listed are %v", names)
	}
}

// TestNodesAreSelected wants lists of nodes to have what is asked for: so many at most, those after one, and sums
// of all that are selected, also of those on other pages. The leader is asked for those that are shown alone.
func TestNodesAreSelected(t *testing.T) {
	s := newSite(t)
	for i := range 6 {
		s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
			Id: fmt.Sprintf("m%d", i), Incarnation: 1, Tags: [][]string{{"gpu", "Rack-7"}, {"gpu", "spot"}, {"ssd"}}[i%3],
			Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: int64(100 * (i + 1)), Memory: 1 << 30},
		}})
	}
	s.must(&commandpb.DrainNode{Node: "m5", User: "ann"}, &commandpb.SetNodeOffline{Term: 1, Node: "m4", Incarnation: 1, Reason: "lost"})
	for name, test := range map[string]struct {
		request string
		want    string
		// wantSums are the nodes, those offline and those drained, and the cores of those online.
		wantSums string
	}{
		"a page":             {`{"prefix": "m", "limit": 2}`, "m0 m1, next m1, 4 more", "6 1 1 16"},
		"the page after":     {`{"prefix": "m", "limit": 2, "after": "m1"}`, "m2 m3, next m3, 2 more", "6 1 1 16"},
		"the last page":      {`{"prefix": "m", "limit": 2, "after": "m3"}`, "m4 m5, next , 0 more", "6 1 1 16"},
		"by tags":            {`{"tags": "gpu & !spot"}`, "m0 m3, next , 0 more", "2 0 0 5"},
		"by text":            {`{"filter": "RACK"}`, "m0 m3, next , 0 more", "2 0 0 5"},
		"by text of a name":  {`{"filter": "M2"}`, "m2, next , 0 more", "1 0 0 3"},
		"drained":            {`{"drained": true}`, "m5, next , 0 more", "1 0 1 6"},
		"with room":          {`{"prefix": "m", "free": {"cpu": 3}}`, "m2 m3, next , 0 more", "2 0 0 7"},
		"with room for none": {`{"prefix": "m", "free": {"gpu": 1}}`, ", next , 0 more", "0 0 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := &apipb.ListNodesResponse{}
			if err := protojson.Unmarshal([]byte(s.post("NodeService/List", test.request).raw), answer); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, n := range answer.GetNodes() {
				names = append(names, n.GetId())
			}
			sums := answer.GetSums()
			if got := fmt.Sprintf("%s, next %s, %d more", strings.Join(names, " "), answer.GetNext(), answer.GetLeftOut()); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if got := fmt.Sprint(sums.GetNodes(), sums.GetOffline(), sums.GetDrained(), sums.GetResources().GetCpu()); got != test.wantSums {
				t.Errorf("sums %s, want %s", got, test.wantSums)
			}
			if reports := s.reports.Load(); len(names) > 0 && !slices.Equal(*reports, names) {
				t.Errorf("the leader is asked for %v, want %v", *reports, names)
			}
		})
	}
	// As a client of an earlier version asks.
	if all := at(t, s.get("NodeService/List", `{}`), "nodes").([]any); len(all) < 6 {
		t.Errorf("got %d nodes, want all", len(all))
	}
}

// TestCells wants cells of all nodes that are asked for, names only of those that the caller does not know, and what
// has no room counted.
func TestCells(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.AnswerBytes = 1000 })
	for i := range 4 {
		s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
			Id: fmt.Sprintf("m%d", i), Incarnation: 1, Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1000},
		}})
	}
	s.must(&commandpb.DrainNode{Node: "m1", User: "ann"}, &commandpb.SetNodeOffline{Term: 1, Node: "m2", Incarnation: 1, Reason: "lost"})
	s.view.Store(&actorpb.SchedulerView{Nodes: []*actorpb.NodeView{
		{Id: "m0", MemoryUsed: 250}, {Id: "m1", MemoryUsed: 90_000}, {Id: "m2", MemoryUsed: 500}, {Id: "gone", MemoryUsed: 1},
	}})
	ask := func(request string) *apipb.ListNodesResponse {
		answer := &apipb.ListNodesResponse{}
		if err := protojson.Unmarshal([]byte(s.post("NodeService/List", request).raw), answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	used := ask(`{"prefix": "m", "cells": "memory_used", "limit": 1}`)
	cells := used.GetCells()
	if got, want := fmt.Sprintf("%v %d %d %d %d", cells.GetNames(), cells.GetStates(), cells.GetParts(), used.GetSums().GetMemoryUsed(), len(used.GetNodes())), "[m0 m1 m2 m3] [1 2 0 1] [25 255 50 0] 90250 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	known := fmt.Sprintf(`"cells": "cpu", "known": "%d"}`, cells.GetVersion())
	if again := ask(`{"prefix": "m", ` + known).GetCells(); len(again.GetNames()) > 0 || again.GetVersion() != cells.GetVersion() || len(again.GetParts()) != 4 {
		t.Errorf("the names are known, and the answer is %v", again)
	}
	if others := ask(`{"filter": "m3", ` + known).GetCells(); !slices.Equal(others.GetNames(), []string{"m3"}) || others.GetVersion() == cells.GetVersion() {
		t.Errorf("other nodes are %v", others)
	}
	s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "z" + strings.Repeat("y", 999), Incarnation: 1, Resources: &statepb.Resources{UserSlots: 1}}})
	if all := ask(`{"cells": "cpu"}`); all.GetLeftOut() != 1 || len(all.GetCells().GetNames()) != int(all.GetSums().GetNodes())-1 {
		t.Errorf("a node has no room: %v", all)
	}
	if wrong := s.post("NodeService/List", `{"cells": "rooms"}`); wrong.status != http.StatusBadRequest || !strings.Contains(wrong.raw, "memory_used") {
		t.Errorf("%d %s", wrong.status, wrong.raw)
	}
}

// TestLargeAnswersAreRefused (T4): what cannot be sent in parts is refused, by name, when it has more
// bytes than clients read.
func TestLargeAnswersAreRefused(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.AnswerBytes = 30_000 })
	edits := make([]string, 10)
	for i := range edits {
		edits[i] = fmt.Sprintf(`{"create": {"name": "p%d", "options": {"scheduling_tag_filter": %q}}}`, i, strings.Repeat("t", 2500))
	}
	s.get("PoolService/Edit", `{"edits": [`+strings.Join(edits, ",")+`]}`)
	got := s.post("TreeService/WhatIf", `{}`)
	if got.header.Get(apipb.HeaderCode) != apipb.CodeAnswerTooLarge || !strings.Contains(got.raw, "TreeService/WhatIf: the answer has ") || !strings.Contains(got.raw, "clients read 39.1 KiB at most") {
		t.Errorf("%d %s", got.status, got.raw)
	}
}
