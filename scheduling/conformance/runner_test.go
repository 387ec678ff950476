package conformance_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// simpleCase is a cluster with one pool and one operation.
const simpleCase = `"name": "c", "total_resources": {"cpu": 100}, "tolerance": {"abs": 1e-7},
		"pools": [{"id": "p", "parent": "<Root>", "mode": "fair_share"}],
		"operations": [{"id": "o", "parent": "p", "demand": {"cpu": 50}, "usage": {"cpu": 0}}]`

// runnerCase is a case of the suite in JSON, and what comes of it.
type runnerCase struct {
	give           string
	want           result
	wantMismatches []string
	wantErr        string
}

// replayAll replays each case and compares the result.
func replayAll(t *testing.T, cases map[string]runnerCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got result
			err := got.replayCase(json.RawMessage(tc.give))
			if err == nil != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want %q", err, tc.wantErr)
			}
			if err == nil && (got.checks != tc.want.checks || got.legacy != tc.want.legacy || got.pending != tc.want.pending) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if strings.Join(got.mismatches, "\n") != strings.Join(tc.wantMismatches, "\n") {
				t.Errorf("mismatches %q, want %q", got.mismatches, tc.wantMismatches)
			}
		})
	}
}

// TestRunnerCompares has cases of each category: what differs is reported.
func TestRunnerCompares(t *testing.T) {
	replayAll(t, map[string]runnerCase{
		"right": {
			give: `{"category": "basic", ` + simpleCase + `, "expect": {"elements": {"o": {"fair_share": {"total": [null, 0.5, 0, 0, 0]}}}}}`,
			want: result{checks: 4}},
		"wrong": {
			give:           `{"category": "basic", ` + simpleCase + `, "expect": {"elements": {"p": {"demand_share": [0, 0.6, 0, null, null]}}}}`,
			want:           result{checks: 3},
			wantMismatches: []string{"case c map[]: element p: demand_share.cpu: got 0.5, want 0.6"}},
		"with both settings": {
			give: `{"category": "basic", "options_matrix": {"improved_fit_factor": [false, true]}, ` + simpleCase + `, "expect": {"elements": {"o": {"limits_share": [0, 1, 0, 0, 0]}}}}`,
			want: result{checks: 10}},
		"legacy": {give: `{"category": "basic", "version": "legacy (old)", "what": 1}`, want: result{legacy: 1}},
		"of older revisions in parts": {
			give: `{"category": "starvation", "version": "legacy_parts", "config": {"preemption_check_starvation": true}, ` + simpleCase + `, "expect": {"elements": {"o": {"starvation_status": "non_starving"}}}}`,
			want: result{checks: 1}},
		"a starving one": {
			give: `{"category": "starvation", "config": {"fair_share_starvation_timeout_seconds": 200}, "timeline": [{"at_seconds": 1, "update": true}, {"at_seconds": 202, "update": true}], ` +
				strings.Replace(simpleCase, `"cpu": 50`, `"cpu": 50, "user_slots": 1`, 1) +
				`, "expect": {"effective_fair_share_aggressive_starvation_timeout": {"p": 200, "o": 200}, "elements": {"o": {"starvation_status": "starving", "below_fair_share_since": 1, "lowest_starving_ancestor": null}}}}`,
			want:           result{checks: 5},
			wantMismatches: []string{"case c map[]: element o: lowest_starving_ancestor : got o, want <nil>"}},
		"a setting of a pool": {
			give: `{"category": "effective_settings", "name": "e", "pools": [{"id": "p", "parent": "<Root>", "mode": "fair_share", "fair_share_starvation_timeout": 500, "enable_aggressive_starvation": true},
				{"id": "q", "parent": "p", "mode": "fair_share", "allow_aggressive_preemption": false}], "operations": [{"id": "o", "parent": "q", "fair_share_starvation_timeout_seconds": 400, "preemption_mode": "graceful"}],
				"expect": {"effective_fair_share_starvation_timeout": {"o": 400, "q": 500, "<Root>": 30}, "effective_enable_aggressive_starvation": {"p": true, "o": false},
				"effective_allow_aggressive_preemption": {"p": true, "q": false}, "effective_preemption_mode": {"o": "graceful"}, "effective_non_preemptible_resource_usage_threshold": {"o": null}}}`,
			want: result{checks: 9}, wantMismatches: []string{"case e map[]: element o: effective_enable_aggressive_starvation: got true, want false"}},
		"groups": {
			give: `{"category": "preemption_lists", "name": "l", "total_resources": {"cpu": 10}, "config": {"aggressive_preemption_satisfaction_threshold": 0.5},
				"operation": {"demand": {"cpu": 30}, "running_allocations": [{"count": 12, "resources": {"cpu": 1}}]},
				"expect": {"allocation_status_ranges": {"non_preemptible": [0, 5], "preemptible": [9, 12]}}}`,
			want: result{checks: 2}, wantMismatches: []string{"case l: element operation: preemptible : got [10 12], want [9 12]"}},
		"a first job that has grown": {
			give: `{"category": "preemption_lists", "name": "l/first_allocation_grows", "total_resources": {"cpu": 100}, "config": {"aggressive_preemption_satisfaction_threshold": 0.5},
				"operation": {"demand": {"cpu": 50}, "running_allocations": [{"count": 1, "resources": {"cpu": 20}}, {"count": 3, "resources": {"cpu": 10}}]},
				"given_fair_share_total": [null, 0.4, 0, 0, 0],
				"expect": {"allocation_status_ranges": {"non_preemptible": [0, 1], "aggressively_preemptible": [1, 4], "preemptible": [4, 4]}}}`,
			want: result{checks: 3}},
		"packing": {
			give: `{"category": "packing", "name": "p", "total_resources": {"cpu": 100, "memory": 100}, "node_free": {"cpu": 10}, "allocation_left": {"cpu": 1},
				"allocation_right": {"memory": 1}, "expect": {"relation": "angle_metric(left) > angle_metric(right)"}}`,
			want: result{checks: 1}, wantMismatches: []string{"case p: element allocation: angle_metric(left) > angle_metric(right) of 0 and 1: got false, want true"}},
		"order": {
			give: `{"category": "scheduling_order", "min_child_heap_sizes": [1, 9], ` + simpleCase + `, "expect": {"scheduling_index": {"o": 1}}}`,
			want: result{checks: 2}, wantMismatches: []string{"case c map[]: element o: scheduling_index with heaps of 1: got 0, want 1",
				"case c map[]: element o: scheduling_index with heaps of 9: got 0, want 1"}},
		"a scenario": {
			give: `{"category": "scenario", "name": "s", "operations_in_start_order": [{"id": "o", "allocations": 3, "resources": {"user_slots": 1}}],
				"operation_user_slots_limits": [null, 2], "expect": {"running_allocations": [3, 1]}}`,
			want: result{checks: 2}, wantMismatches: []string{"case s: element <Root>: running_allocations of limit 1: got 2, want 1"}},
	})
}

// TestRunnerRefusesTheUnknown has cases with words that the runner does not know: none is passed over.
func TestRunnerRefusesTheUnknown(t *testing.T) {
	replayAll(t, map[string]runnerCase{
		"a setting of older revisions": {
			give:    `{"category": "starvation", "config": {"preemption_check_starvation": true}, ` + simpleCase + `}`,
			wantErr: "preemption_check_starvation is of older revisions"},
		"an unknown setting": {give: `{"category": "starvation", "config": {"hunger": 1}, ` + simpleCase + `}`, wantErr: `unknown setting "hunger"`},
		"a setting without effect": {
			give: `{"category": "status", "config": {"max_operation_count": 1}, ` + simpleCase + `}`, wantErr: `unknown setting "max_operation_count"`},
		"jobs that are not used": {
			give: `{"category": "starvation", "running_allocations": {"o": [{"count": 1, "resources": {"cpu": 1}}]}, ` + simpleCase + `}`, wantErr: "and it uses"},
		"conditional preemption":    {give: `{"category": "conditional_preemption"}`, wantErr: "version must be legacy"},
		"an unknown group":          {give: `{"category": "preemption_lists", "expect": {"allocation_status_ranges": {"safe": [0, 5]}}}`, wantErr: `unknown group "safe"`},
		"an unknown relation":       {give: `{"category": "packing", "expect": {"relation": "left is better"}}`, wantErr: `unknown relation "left is better"`},
		"a scenario of no kind":     {give: `{"category": "scenario", "expect": {"running_allocations": 3}}`, wantErr: "a scenario of 0 kinds"},
		"a scenario of other words": {give: `{"category": "scenario", "research_allocations": "some"}`, wantErr: "unknown words"},
		"a scenario that expects something else": {
			give: `{"category": "scenario", "operation_user_slots_limits": [], "expect": {"running_allocations": [], "peace": true}}`, wantErr: `unknown field "peace"`},
		"an unknown category": {give: `{"category": "magic"}`, wantErr: `unknown category "magic"`},
		"an unknown version":  {give: `{"category": "basic", "version": "next"}`, wantErr: `unknown version "next"`},
		"an unknown field":    {give: `{"category": "basic", "what": 1}`, wantErr: `unknown field "what"`},
		"an unknown option":   {give: `{"category": "basic", "options": {"what": true}}`, wantErr: `unknown option "what"`},
		"an unknown element": {
			give: `{"category": "basic", ` + simpleCase + `, "expect": {"elements": {"q": {}}}}`, wantErr: `unknown element "q"`},
		"an unknown attribute": {
			give: `{"category": "basic", ` + simpleCase + `, "expect": {"elements": {"p": {"mood": 1}}}}`, wantErr: "p.mood: unknown field"},
		"an unknown property": {
			give: `{"category": "property", ` + simpleCase + `, "expect": {"properties": [{"kind": "pretty"}]}}`, wantErr: "unknown property"},
	})
}
