package scheduler

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"weir/messages/explainpb"
	"weir/scheduling/explain"
	"weir/scheduling/resource"
)

// TestExplained writes down all that an engine can say.
func TestExplained(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	nodes := explain.NodeCounts{All: 21, Closed: 1, Unmatched: 2, TooSmall: 3, Full: 4, Held: 5, Fit: 6, UnmatchedBy: []explain.FilterCount{{Pool: "p", Filter: "gpu", Nodes: 2}}}
	nodes.SmallBy[resource.GPU], nodes.LackingBy[resource.CPU] = 3, 4
	out := &explainpb.Explanation{}
	explained(out, explain.Explanation{
		Verdict: "waiting_for_turn",
		Facts: []explain.Fact{{
			Code: "waiting_for_turn", Text: "later", Pool: "p", Operation: "o", Task: "t", Job: "j", Node: "n", Resource: "cpu", Setting: "s", Value: 1, Bound: 2, Count: 3, Of: 4, At: at, Until: at.Add(time.Second),
		}},
		Tasks:    []explain.TaskExplanation{{Name: "t", Verdict: "waiting_for_turn", Pending: 7, PerJob: resource.Amounts{UserSlots: 1, CPU: 150}, Nodes: nodes}},
		Position: 3, Waiting: 9, Start: at.Add(time.Minute), Earliest: at.Add(50 * time.Second), Latest: at.Add(70 * time.Second), StartBy: "preemption",
		Victims: []explain.Victim{{Job: "v", Operation: "o2", Node: "n", Started: at}},
		Share:   explain.ShareExplanation{Resource: "cpu", Fair: .1, Usage: .2, Demand: .3, Limits: .4, Strong: .5, Integral: .6, Proportional: .7, Bound: "b", Weight: 8, Weights: 9},
	})
	want := &explainpb.Explanation{}
	if err := protojson.Unmarshal([]byte(`{
		"verdict": "waiting_for_turn", "text": "later", "position": 3, "waiting": 9, "estimated_start": "2026-01-01T00:01:00Z",
		"estimated_earliest": "2026-01-01T00:00:50Z", "estimated_latest": "2026-01-01T00:01:10Z", "estimated_by": "preemption",
		"facts": [{"code": "waiting_for_turn", "text": "later", "pool": "p", "operation": "o", "task": "t", "job": "j", "node": "n", "resource": "cpu", "setting": "s",
			"value": 1, "bound": 2, "count": "3", "of": "4", "time": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:01Z"}],
		"tasks": [{"name": "t", "verdict": "waiting_for_turn", "pending": "7", "job_resources": {"user_slots": "1", "cpu": 1.5}, "nodes": {
			"all": 21, "closed": 1, "unmatched": 2, "too_small": 3, "full": 4, "held": 5, "fit": 6, "too_small_by": {"gpu": 3}, "lacking_by": {"cpu": 4},
			"unmatched_by": [{"pool": "p", "filter": "gpu", "nodes": 2}]}}],
		"likely_victims": [{"job": "v", "operation": "o2", "node": "n", "start_time": "2026-01-01T00:00:00Z"}],
		"share": {"resource": "cpu", "fair": 0.1, "usage": 0.2, "demand": 0.3, "limits": 0.4, "strong_guarantee": 0.5, "integral_guarantee": 0.6, "weight_proportional": 0.7,
			"bound": "b", "weight": 8, "weights": 9}
	}`), want); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(out, want) {
		t.Errorf("got  %v\nwant %v", out, want)
	}
}
