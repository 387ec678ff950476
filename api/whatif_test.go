package api

import (
	"strings"
	"testing"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
)

// TestWhatIf (W1) has two pools that want all of a cluster: a greater weight of one moves the shares of both, by the
// engine that schedules, and nothing is changed.
func TestWhatIf(t *testing.T) {
	s := newSite(t)
	s.get("PoolService/Edit", `{"edits": [{"create": {"name": "ads"}}, {"create": {"name": "night"}},
		{"create": {"name": "saves", "options": {"integral_guarantees": {"guarantee_type": "relaxed", "resource_flow": {"cpu": 1}}}}}]}`)
	for _, pool := range []string{"ads", "night"} {
		s.get("OperationService/Start", startBody(30, `, "pool": "`+pool+`"`))
	}
	s.leadsTo("op-1", 30, "j1")
	s.leadsTo("op-2", 30, "j2")
	s.view.Store(&actorpb.SchedulerView{Elements: []*actorpb.ElementView{
		{Tree: "default", Id: "saves", Pool: true, Volume: &statepb.PoolVolume{UserSlots: 6.5, CpuHundredths: 650, Memory: 0.65 * (1 << 30)}},
	}})
	fair := func(answer any, side string, row int, name string) float64 {
		t.Helper()
		want(t, answer, name, side, "shares", row, "name")
		return at(t, answer, side, "shares", row, "fair", "cpu").(float64)
	}

	now := s.get("TreeService/WhatIf", `{}`)
	for _, side := range []string{"before", "after"} {
		if got := fair(now, side, 1, "ads"); got != 0.5 {
			t.Errorf("%s: ads has %v, want a half", side, got)
		}
	}
	want(t, now, 10.0, "before", "resources", "cpu")
	want(t, now, "saves", "before", "shares", 4, "name")
	if volume := at(t, now, "before", "shares", 4, "volume").(float64); volume < 0.6 || volume > 0.7 {
		t.Errorf("the volume of 6.5 core seconds is %v seconds of 10 cores", volume)
	}

	then := s.get("TreeService/WhatIf", `{"operations": true, "file": true, "edits": [
		{"change": {"name": "ads", "options": {"weight": 4, "strong_guarantee_resources/memory": "1GiB"}}},
		{"create": {"name": "late", "parent": "night", "options": {"weight": 2}}}, {"tree_options": {"max_operation_count": 77}}]}`)
	if was, is := fair(then, "before", 1, "ads"), fair(then, "after", 1, "ads"); was != 0.5 || is != 0.8 {
		t.Errorf("ads has %v, then %v", was, is)
	}
	if got := fair(then, "after", 4, "night"); got < 0.199 || got > 0.201 {
		t.Errorf("night has %v", got)
	}
	want(t, then, "op-1", "after", "shares", 2, "name")
	want(t, then, "ads", "after", "shares", 2, "parent")
	want(t, then, 4.0, "after", "shares", 1, "options", "weight")
	if set := at(t, then, "before", "shares", 1, "options").(map[string]any); len(set) != 0 {
		t.Errorf("before, ads has options %v", set)
	}
	want(t, then, 0.1, "after", "shares", 2, "usage", "cpu")
	file := at(t, then, "file").(string)
	for _, line := range []string{"tree: default", "max_operation_count: 77", "weight: 4", "late:", "memory: 1GiB"} {
		if !strings.Contains(file, line) {
			t.Errorf("the file lacks %q:\n%s", line, file)
		}
	}
	if again := s.get("PoolService/Get", `{"name": "ads"}`); at(t, again, "pool", "effective_weight") != 1.0 {
		t.Errorf("the pool was changed: %v", again)
	}
}

// TestWhatIfRefuses says what is wrong with changes, and where.
func TestWhatIfRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		edits string
		code  int
		want  string
	}{
		"unknown pool":   {`{"change": {"name": "adds", "options": {"weight": 2}}}`, 400, "set adds/weight: no pool or operation has this name"},
		"unknown option": {`{"change": {"name": "ads", "options": {"wait": 2}}}`, 400, "weight"},
		"bad value":      {`{"change": {"name": "ads", "options": {"weight": "much"}}}`, 400, "set ads: weight"},
		"pool twice":     {`{"create": {"name": "ads"}}`, 400, "ads"},
		"bad new pool":   {`{"create": {"name": "new", "options": {"weight": -1}}}`, 400, `create pool \"new\"`},
		"loop":           {`{"change": {"name": "ads", "parent": "ads"}}`, 400, "ads"},
		"rename":         {`{"rename": {"from": "ads", "to": "bids"}}`, 400, "changes no share"},
		"nothing":        {`{}`, 400, "an edit is empty"},
		"removed, used":  {`{"remove": "default"}`, 400, "op-1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.get("PoolService/Edit", `{"edits": [{"create": {"name": "ads"}}]}`)
			s.run(2, "j1")
			got := s.post("TreeService/WhatIf", `{"edits": [`+test.edits+`]}`)
			if got.status != test.code || !strings.Contains(got.raw, test.want) {
				t.Errorf("%d %s, want %d %s", got.status, got.raw, test.code, test.want)
			}
		})
	}
	if got := newSite(t).post("TreeService/WhatIf", `{"tree": "gpu"}`); got.status != 404 || got.header.Get(apipb.HeaderCode) != "unknown_tree" {
		t.Errorf("%d %s", got.status, got.raw)
	}
}
