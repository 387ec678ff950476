package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

func TestPools(t *testing.T) {
	s := newSite(t)
	want(t, s.get("PoolService/Edit", `{"edits": [{"create": {"name": "z", "options": {"weight": 2}}}]}`), "2", "revision")
	want(t, s.get("PoolService/Edit", `{"edits": [{"create": {"name": "a", "parent": "z", "options": {"max-operation-count": 1, "max_running_operation_count": 1}}}]}`), "3", "revision")
	all := s.get("PoolService/List", "{}")
	for i, name := range []string{"default", "z", "a"} {
		want(t, all, name, "pools", i, "name")
	}
	want(t, all, "3", "revision")
	want(t, all, 2.0, "pools", 1, "effective_weight")
	want(t, all, 2.0, "pools", 1, "options", "weight")
	want(t, all, 1.0, "pools", 2, "options", "max_operation_count")
	want(t, all, "30s", "pools", 2, "effective", "fair_share_starvation_timeout")
	s.get("OperationService/Start", startBody(1, `, "pool": "a"`))
	full := s.post("OperationService/Start", startBody(1, `, "pool": "a"`))
	if full.status != 429 || full.header.Get(apipb.HeaderCode) != "pool_full" || full.header.Get(apipb.HeaderRetry) != "" {
		t.Errorf("a full pool: %d %v %s", full.status, full.header, full.raw)
	}
	want(t, s.get("PoolService/Get", `{"name": "z"}`), 1.0, "pool", "operation_count")
	want(t, s.get("PoolService/Edit", `{"expected_revision": "3", "edits": [{"change": {"name": "a", "options":
		{"weight": 3, "max_operation_count": null, "resource_limits/cpu": 2, "integral_guarantees.guarantee_type": "none"}}}]}`), "4", "revision")
	options := at(t, s.get("PoolService/Get", `{"name": "a"}`), "pool", "options").(map[string]any)
	if _, set := options["max_operation_count"]; set || options["weight"] != 3.0 || options["max_running_operation_count"] != 1.0 {
		t.Errorf("options after the change: %v", options)
	}
	want(t, options, 2.0, "resource_limits", "cpu")
	want(t, options, "none", "integral_guarantees", "guarantee_type")
	// More than the field of old can hold.
	want(t, s.get("PoolService/Edit", `{"edits": [{"change": {"name": "z", "options": {"max_operation_count": 3000000000}}}]}`), "5", "revision")
	z := s.get("PoolService/Get", `{"name": "z"}`)
	want(t, z, 2147483647.0, "pool", "effective_max_operation_count")
	want(t, z, 3e9, "pool", "effective", "max_operation_count")
}

// TestBriefPools (W1): a page that is open all day asks for figures, not for all options again and again.
func TestBriefPools(t *testing.T) {
	s := newSite(t)
	s.get("PoolService/Edit", `{"edits": [{"create": {"name": "ads", "options": {"weight": 2}}}]}`)
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s.view.Store(&actorpb.SchedulerView{Elements: []*actorpb.ElementView{
		{Tree: "default", Id: "<Root>", Pool: true, UsageShare: 0.5, Alerts: []string{"guarantees exceed the cluster"}},
		{Tree: "default", Id: "ads", Pool: true, StarvationStatus: "starving", BelowSince: timestamppb.New(since)},
	}})
	whole := s.post("PoolService/List", "{}")
	want(t, whole.fields, "ads", "pools", 0, "name")
	brief := s.post("PoolService/List", `{"brief": true, "with_root": true}`)
	for i, name := range []string{"<Root>", "ads", "default"} {
		want(t, brief.fields, name, "pools", i, "name")
		shown := at(t, brief.fields, "pools", i).(map[string]any)
		for _, left := range []string{"options", "effective"} {
			if _, told := shown[left]; told {
				t.Errorf("pool %s has its %s", name, left)
			}
		}
	}
	want(t, brief.fields, 0.5, "pools", 0, "usage_share")
	if alerts := at(t, brief.fields, "alerts").([]any); len(alerts) != 1 {
		t.Errorf("alerts: %v, want that of the root once", alerts)
	}
	want(t, brief.fields, 2.0, "pools", 1, "effective_weight")
	want(t, brief.fields, "starving", "pools", 1, "starvation_status")
	want(t, brief.fields, "2026-03-01T12:00:00Z", "pools", 1, "below_since")
	if len(brief.raw)*2 > len(whole.raw) {
		t.Errorf("the brief list has %d bytes, the whole one %d", len(brief.raw), len(whole.raw))
	}
	after := s.get("PoolService/List", `{"brief": true, "with_root": true, "after": "ads"}`)
	want(t, after, "default", "pools", 0, "name")
}

func TestEditsAreOneRevision(t *testing.T) {
	s := newSite(t)
	want(t, s.get("PoolService/Edit", `{"edits": [
		{"tree_options": {"max_ephemeral_pools_per_user": 3}},
		{"create": {"name": "below", "parent": "above"}}, {"create": {"name": "gone"}},
		{"rename": {"from": "default", "to": "above"}}, {"remove": "gone"}]}`), "2", "revision")
	all := s.get("PoolService/List", "{}")
	want(t, all, "above", "pools", 0, "name")
	want(t, all, "above", "pools", 1, "parent")
	want(t, all, 3.0, "tree_options", "max_ephemeral_pools_per_user")
	refused := s.post("PoolService/Edit", `{"edits": [{"create": {"name": "x"}}, {"change": {"name": "above", "parent": "below"}}]}`)
	if refused.header.Get(apipb.HeaderCode) != "invalid_pool" || !strings.Contains(refused.raw, "below itself") {
		t.Errorf("a cycle: %d %s", refused.status, refused.raw)
	}
	want(t, s.get("PoolService/List", "{}"), "2", "revision")
}

func TestTrees(t *testing.T) {
	s := newSite(t)
	want(t, s.get("TreeService/Set", `{"options": {"nodes_filter": "!gpu"}}`), "2", "revision")
	want(t, s.get("TreeService/Create", `{"tree": "gpu", "options": {"nodes-filter": "gpu", "main_resource": "gpu"}}`), "1", "revision")
	all := s.get("TreeService/List", "{}")
	want(t, all, "default", "trees", 0, "name")
	want(t, all, true, "trees", 0, "default")
	want(t, all, "gpu", "trees", 1, "options", "nodes_filter")
	want(t, all, "1m", "trees", 1, "effective", "integral_guarantees", "smooth_period")
	want(t, s.get("PoolService/List", `{"tree": "gpu"}`), "default", "pools", 0, "name")
	want(t, s.get("PoolService/Edit", `{"tree": "gpu", "edits": [{"create": {"name": "ads"}}]}`), "gpu", "tree")
	s.get("TreeService/SetDefault", `{"tree": "gpu"}`)
	want(t, s.get("PoolService/Get", `{"name": "ads"}`), "gpu", "pool", "tree")
	s.get("TreeService/Remove", `{"tree": "default"}`)
	want(t, s.get("TreeService/Get", `{}`), "gpu", "tree", "name")
}

func TestUpdateOperation(t *testing.T) {
	s := newSite(t)
	id := s.run(2, "j1")
	s.get("PoolService/Edit", `{"edits": [{"create": {"name": "ads"}}]}`)
	s.get("OperationService/Update", `{"operation": "`+id+`", "changes": [{"options": {"weight": 2, "resource_limits/cpu": 1}}, {"tree": "default", "pool": "ads"}]}`)
	op := at(t, s.get("OperationService/Get", `{"operation": "`+id+`"}`), "operation")
	want(t, op, "ads", "pool")
	want(t, op, 2.0, "weight")
	want(t, op, 1.0, "trees", 0, "options", "resource_limits", "cpu")
	for body, problem := range map[string]string{
		`{"options": {"wieght": 1}}`:             "did you mean weight?",
		`{"options": {"weight": -1}}`:            "weight",
		`{"tree": "gpu", "pool": "ads"}`:         `not in tree \"gpu\"`,
		`{}`:                                     "a change sets neither a pool nor an option",
		`{"pool": "<Root>"}`:                     "does not accept operations directly",
		`{"options": {"max_share_ratio": 1.25}}`: "from 0 to 1",
	} {
		if got := s.post("OperationService/Update", `{"operation": "`+id+`", "changes": [`+body+`]}`); got.status == 200 || !strings.Contains(got.raw, problem) {
			t.Errorf("%s: %d %s, want %s", body, got.status, got.raw, problem)
		}
	}
}

// TestBoundedSettings: who sets more than a pool allows is told so at once, and whoever
// looks at the operation.
func TestBoundedSettings(t *testing.T) {
	s := newSite(t)
	s.get("PoolService/Edit", `{"edits": [{"create": {"name": "ads", "options": {"fair_share_starvation_timeout_lower_bound": "10s"}}}]}`)
	const warning = `fair_share_starvation_timeout 2s: pool "ads" allows no less than 10s; 10s applies`
	started := s.get("OperationService/Start", `{"spec": {"pool": "ads", "fair_share_starvation_timeout": "2s", "tasks": {"t": {"job_count": 1, "command": ["true"]}}}}`)
	want(t, started, warning, "warnings", 0)
	id := at(t, started, "operation_id").(string)
	op := at(t, s.get("OperationService/Get", `{"operation": "`+id+`"}`), "operation")
	want(t, op, "bounded_setting", "alerts", 0, "name")
	want(t, op, warning, "alerts", 0, "message")
	attribute := func(name string) any {
		return at(t, s.get("AttributeService/Get", `{"path": "scheduler/pool_trees/default/operations/`+id+`/`+name+`"}`), "value")
	}
	want(t, attribute("bounded_settings"), warning, 0)
	if got := attribute("effective_fair_share_starvation_timeout"); got != "10s" {
		t.Errorf("%v holds, want 10s", got)
	}
	update := func(timeout string) map[string]any {
		return s.get("OperationService/Update", `{"operation": "`+id+`", "changes": [{"options": {"fair_share_starvation_timeout": "`+timeout+`"}}]}`)
	}
	want(t, update("3s"), `fair_share_starvation_timeout 3s: pool "ads" allows no less than 10s; 10s applies`, "warnings", 0)
	if answer := update("11s"); len(answer["warnings"].([]any)) > 0 || attribute("effective_fair_share_starvation_timeout") != "11s" {
		t.Errorf("11s is told %v, and %v holds", answer, attribute("effective_fair_share_starvation_timeout"))
	}
}

// TestOptionsOfTrees cannot be set for pools, which are told so.
func TestOptionsOfTrees(t *testing.T) {
	s := newSite(t)
	for _, edit := range []string{
		`{"create": {"name": "ads", "options": {"preemptive_scheduling_backoff": "1s"}}}`,
		`{"change": {"name": "default", "options": {"preemptive-scheduling-backoff": "1s"}}}`,
	} {
		refused := s.post("PoolService/Edit", `{"edits": [`+edit+`]}`)
		if refused.header.Get(apipb.HeaderCode) != "invalid_pool" || !strings.Contains(refused.raw, "backoff: applies to nodes, which belong to no pool: set it for the whole tree (weir tree set)") {
			t.Errorf("%s: %d %s", edit, refused.status, refused.raw)
		}
	}
	s.get("TreeService/Set", `{"options": {"preemptive_scheduling_backoff": "1s"}}`)
	want(t, s.get("TreeService/Get", `{}`), "1s", "tree", "effective", "preemptive_scheduling_backoff")
}

func TestAttributes(t *testing.T) {
	s := newSite(t)
	id := s.run(2, "j1")
	s.get("PoolService/Edit", `{"edits": [{"create": {"name": "ads", "options": {"weight": 3, "min_share_preemption_timeout": "5s",
		"max_unpreemptable_running_job_count": 2, "integral_guarantees": {"guarantee_type": "burst", "resource_flow": {"cpu": 1}, "burst_guarantee_resources": {"cpu": 2}}}}}]}`)
	const ratio = `{"path": "scheduler/pool_trees/default/pools/ads/fair_share_ratio"}`
	if got := s.post("AttributeService/Get", ratio); got.status != http.StatusServiceUnavailable || !strings.Contains(got.raw, "the leader's view of scheduler/pool_trees/default/pools/ads is unknown") {
		t.Errorf("without a leader: %d %s", got.status, got.raw)
	}
	s.view.Store(&actorpb.SchedulerView{Term: 2})
	if got := s.post("AttributeService/Get", ratio); got.status != http.StatusServiceUnavailable || !strings.Contains(got.raw, "has just started") {
		t.Errorf("with a new leader: %d %s", got.status, got.raw)
	}
	live, err := structpb.NewStruct(map[string]any{"fair_share_ratio": 0.5, "detailed_fair_share": map[string]any{"total": map[string]any{"cpu": 0.5}}})
	if err != nil {
		t.Fatal(err)
	}
	s.view.Store(&actorpb.SchedulerView{
		Elements: []*actorpb.ElementView{{Tree: "default", Id: "ads", Pool: true, Attributes: live}, {Tree: "default", Id: id, Attributes: live}},
		Nodes:    []*actorpb.NodeView{{Id: "n1", MemoryUsed: 7}},
	})
	get := func(path string) any {
		return at(t, s.get("AttributeService/Get", `{"path": "`+path+`"}`), "value")
	}
	for path, value := range map[string]any{
		"scheduler/default_tree":                                                                               "default",
		"scheduler/online_node_count":                                                                          1.0,
		"scheduler/cluster_resources/cpu":                                                                      10.0,
		"/scheduler/pool_trees/default/max_operation_count_per_pool":                                           50.0,
		"scheduler/pool_trees/default/resource_usage/user_slots":                                               1.0,
		"scheduler/pool_trees/default/pools/ads/weight":                                                        3.0,
		"scheduler/pool_trees/default/pools/ads/fair_share_ratio":                                              0.5,
		"scheduler/pool_trees/default/pools/ads/detailed_fair_share/total/cpu":                                 0.5,
		"scheduler/pool_trees/default/pools/ads/effective_fair_share_starvation_tolerance":                     0.8,
		"scheduler/pool_trees/default/pools/ads/effective_min_share_preemption_timeout":                        "5s",
		"scheduler/pool_trees/default/pools/ads/effective_fair_share_starvation_timeout":                       "30s",
		"scheduler/pool_trees/default/pools/ads/effective_non_preemptible_resource_usage_threshold/user_slots": 2.0,
		"scheduler/pool_trees/default/pools/ads/integral_guarantee_type":                                       "burst",
		"scheduler/pool_trees/default/operations/" + id + "/effective_enable_aggressive_starvation":            false,
		"scheduler/pool_trees/default/operations/" + id + "/is_gang":                                           false,
		"scheduler/pool_trees/default/pools/<Root>/running_operation_count":                                    1.0,
		"scheduler/pool_trees/default/operations/" + id + "/pool":                                              "default",
		"scheduler/pool_trees/default/operations/" + id + "/fair_share_ratio":                                  0.5,
		"scheduler/pool_trees/default/nodes/n1/memory_used":                                                    7.0,
		"scheduler/pool_trees/default/nodes/n1/job_count":                                                      1.0,
	} {
		if got := get(path); got != value {
			t.Errorf("%s: got %v, want %v", path, got, value)
		}
	}
	want(t, get("scheduler/pool_trees/default/pools"), "ads", 1)
	want(t, get("scheduler/pool_trees/default/pools/ads"), 0.5, "fair_share_ratio")
	want(t, get("scheduler/pool_trees/default"), "n1", "nodes", 0)
	for path, problem := range map[string]string{
		"schedular":                                       `there is no \"schedular\": did you mean scheduler?`,
		"scheduler/pool_trees/gpu":                        "below scheduler/pool_trees there are default",
		"scheduler/pool_trees/default/pool":               "did you mean pools?",
		"scheduler/pool_trees/default/pools/adz":          "did you mean ads?",
		"scheduler/pool_trees/default/pools/ads/wieght":   "did you mean weight?",
		"scheduler/pool_trees/default/pools/ads/weight/x": "scheduler/pool_trees/default/pools/ads/weight is a value",
		"scheduler/pool_trees/default/operations/nobody":  `operation \"nobody\" not found`,
		"scheduler/pool_trees/default/nodes/n2":           "did you mean n1?",
		"scheduler/pool_trees/default/nodes/elsewhere":    "below scheduler/pool_trees/default/nodes there are n1",
	} {
		got := s.post("AttributeService/Get", `{"path": "`+path+`"}`)
		if got.status != 404 || !strings.Contains(got.raw, problem) {
			t.Errorf("%s: %d %s, want %s", path, got.status, got.raw, problem)
		}
	}
}

// TestRootIsNamedAsOtherPools gives the name of the root, as answers have it, back to
// everything that takes the name of a pool.
func TestRootIsNamedAsOtherPools(t *testing.T) {
	s := newSite(t)
	s.get("PoolService/Edit", `{"edits": [{"tree_options": {"forbid_immediate_operations_in_root": false, "max_operation_count": 7, "max_running_operation_count": 5}},
		{"create": {"name": "ads", "parent": "<Root>"}}]}`)
	root := at(t, s.get("PoolService/Get", `{"name": "ads"}`), "pool", "parent").(string)
	if root != "<Root>" {
		t.Fatalf("the root is shown as %q", root)
	}
	op := at(t, s.get("OperationService/Start", startBody(1, `, "pool": "`+root+`"`)), "operation_id").(string)
	s.get("OperationService/Start", startBody(1, `, "pool": "ads"`))
	s.view.Store(&actorpb.SchedulerView{Elements: []*actorpb.ElementView{{Tree: "default", Id: root, Pool: true, FairShare: 0.75}}})

	shown := at(t, s.get("PoolService/Get", `{"name": "<Root>"}`), "pool")
	want(t, shown, root, "name")
	want(t, shown, "", "parent")
	want(t, shown, 0.75, "fair_share")
	want(t, shown, 2.0, "operation_count")
	want(t, shown, 7.0, "effective_max_operation_count")
	want(t, shown, 7.0, "effective", "max_operation_count")
	listed := s.get("OperationService/List", `{"pool": "<Root>"}`)
	if operations := at(t, listed, "operations").([]any); len(operations) != 1 {
		t.Errorf("operations right below the root: %v, want %s alone", operations, op)
	}
	want(t, listed, op, "operations", 0, "id")
	want(t, listed, root, "operations", 0, "pool")
	s.get("PoolService/Ledger", `{"pool": "<Root>"}`)
	empty := func(*actorpb.PoolHistoryRequest) *actorpb.PoolHistory { return &actorpb.PoolHistory{} }
	s.history.Store(&empty)
	want(t, s.get("PoolService/History", `{"pool": "<Root>"}`), root, "pool")
	s.get("PoolService/Edit", `{"edits": [{"create": {"name": "prod", "parent": "ads"}}, {"change": {"name": "prod", "parent": "<Root>"}}, {"tree_options": {"default_parent_pool": "<Root>"}}]}`)
	want(t, s.get("PoolService/Get", `{"name": "prod"}`), root, "pool", "parent")
	for i, name := range []string{"ads", "default", "prod"} {
		want(t, s.get("PoolService/List", "{}"), name, "pools", i, "name")
	}
	if got := s.post("PoolService/Edit", `{"edits": [{"remove": "<Root>"}]}`); !strings.Contains(got.raw, "not allowed for the root pool") {
		t.Errorf("the root is removed: %d %s", got.status, got.raw)
	}
}

// TestSharesOfFewNodes wants no shares from a leader that has begun and not heard of most nodes: they would be parts of a
// few. Nodes of which it does not hear later take no jobs.
func TestSharesOfFewNodes(t *testing.T) {
	s := newSite(t)
	s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "m1", Incarnation: 1, Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 10_000, Memory: 1 << 30}}})
	var all int64
	for _, n := range s.state.Nodes() {
		all += n.GetResources().GetCpuHundredths()
	}
	begun := s.state.Term().GetTime().AsTime()
	for _, tc := range []struct {
		part  int64
		leads time.Duration
		// later is by how much the leader's term is later than the one that this replica knows.
		later uint64
		known bool
	}{
		{0, time.Second, 0, false}, {50, time.Second, 0, false}, {89, 50 * time.Second, 0, false}, {91, time.Second, 0, true}, {100, time.Second, 0, true},
		{50, 2 * time.Minute, 0, true}, {50, 2 * time.Minute, 1, false},
	} {
		s.view.Store(&actorpb.SchedulerView{
			Term: s.state.Term().GetTerm() + tc.later, Time: timestamppb.New(begun.Add(tc.leads)),
			Total:    &statepb.Resources{CpuHundredths: all * tc.part / 100},
			Elements: []*actorpb.ElementView{{Tree: "default", Id: "default", Pool: true, UsageShare: 3.77}},
		})
		pool := at(t, s.get("PoolService/Get", `{"name": "default"}`), "pool").(map[string]any)
		if _, told := pool["usage_share"]; told != tc.known {
			t.Errorf("of a leader that knows %d%% of all nodes after %v: %v", tc.part, tc.leads, pool)
		}
	}
}

// TestPoolsAreListedInParts (T4) has more pools than an answer may have bytes: each answer says how
// many it leaves out, and each pool is in one of them.
func TestPoolsAreListedInParts(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.AnswerBytes = 10_000 })
	const made = 40
	for i := range made {
		s.get("PoolService/Edit", fmt.Sprintf(`{"edits": [{"create": {"name": "p%02d", "options": {"weight": 2}}}]}`, i))
	}
	var names []string
	after := ""
	for {
		answer := &apipb.ListPoolsResponse{}
		if err := protojson.Unmarshal([]byte(s.post("PoolService/List", fmt.Sprintf(`{"after": %q}`, after)).raw), answer); err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(answer); size > 12_000 || len(answer.GetPools()) == 0 {
			t.Fatalf("an answer of %d pools has %d bytes", len(answer.GetPools()), size)
		}
		for _, p := range answer.GetPools() {
			names = append(names, p.GetName())
		}
		if left := made + 1 - len(names); int(answer.GetLeftOut()) != left || (answer.GetNext() == "") != (left == 0) {
			t.Fatalf("%d pools are left out, next %q; want %d", answer.GetLeftOut(), answer.GetNext(), left)
		}
		if after = answer.GetNext(); after == "" {
			break
		}
	}
	if want := slices.Clone(names); len(slices.Compact(want)) != made+1 || !slices.IsSorted(names) {
		t.Errorf("listed are %v", names)
	}
	want(t, s.get("PoolService/Get", `{"name": "p39"}`), "p39", "pool", "name")
	s.refused("PoolService/List", `{"after": "gone"}`, "unknown_pool")
}
