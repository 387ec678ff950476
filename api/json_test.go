package api

import (
	"net/http"
	"strings"
	"testing"

	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

func TestBadRequests(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.MessageBytes = 4 << 10 })
	s.get("OperationService/Start", startBody(1, `, "alias": "*taken"`))
	s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "n1", Incarnation: 1, Resources: &statepb.Resources{UserSlots: 1}}})
	for name, test := range map[string]struct {
		method, body string
		wantStatus   int
		wantCode     string
		want         string
	}{
		"unknown field":        {"OperationService/Start", `{"speck": {}}`, 400, "", `StartRequest: (line 1:2): unknown field "speck"`},
		"unknown field inside": {"PoolService/Edit", `{"edits": [{"create": {"nam": "x"}}]}`, 400, "", `EditTreeRequest: (line 1:24): unknown field "nam"`},
		"wrong type":           {"OperationService/List", `{"limit": "many"}`, 400, "", "limit"},
		"no JSON":              {"OperationService/List", `limit=3`, 400, "", "ListOperationsRequest"},
		"empty body":           {"OperationService/List", ` `, 400, "", "the body is empty: send at least {}"},
		"too large":            {"OperationService/Start", `{"mutation_id": "` + strings.Repeat("x", 4<<10) + `"}`, 429, "invalid_argument", "Start: the request has more than 4096 bytes, the limit of this call (4 KiB)"},
		"no spec":              {"OperationService/Start", `{}`, 400, "invalid_spec", "a spec is needed"},
		"unknown option": {"OperationService/Start", `{"spec": {"tasks": {"t": {"job_count": 1, "comand": ["x"], "command": ["x"]}}}}`, 400, "invalid_spec",
			`tasks.t.comand: unknown option; did you mean command?`},
		"job_count 0":        {"OperationService/Start", startBody(0, ""), 400, "invalid_spec", "tasks.t.job_count: 0 is not a number from 1 to 100000"},
		"too many jobs":      {"OperationService/Start", startBody(100001, ""), 400, "invalid_spec", "100001 is not a number from 1 to 100000"},
		"empty command":      {"OperationService/Start", `{"spec": {"tasks": {"t": {"job_count": 1, "command": []}}}}`, 400, "invalid_spec", "tasks.t.command: it is empty"},
		"negative cpu":       {"OperationService/Start", `{"spec": {"tasks": {"t": {"job_count": 1, "command": ["x"], "cpu_limit": -1}}}}`, 400, "invalid_spec", "tasks.t.cpu_limit"},
		"absurd memory":      {"OperationService/Start", `{"spec": {"tasks": {"t": {"job_count": 1, "command": ["x"], "memory_limit": "1000TiB"}}}}`, 400, "invalid_spec", "the limit is 64TiB"},
		"the root, closed":   {"OperationService/Start", startBody(1, `, "pool": "<Root>"`), 400, "invalid_pool", "forbid_immediate_operations_in_root"},
		"a pool of no name":  {"OperationService/Start", startBody(1, `, "pool": "a/b"`), 400, "invalid_spec", "not allowed are"},
		"duplicate alias":    {"OperationService/Start", startBody(1, `, "alias": "*taken"`), 409, "duplicate_alias", `alias "*taken"`},
		"two mutation ids":   {"OperationService/Start", `{"mutation_id": "a", ` + startBody(1, `, "mutation_id": "b"`)[1:], 400, "invalid_spec", `mutation_id "a" differs from the spec's, "b"`},
		"unknown operation":  {"OperationService/Get", `{"operation": "nope"}`, 404, "unknown_operation", `operation "nope" not found`},
		"no operation":       {"OperationService/Get", `{}`, 400, "invalid_argument", "an operation's id or alias is needed"},
		"abort of nothing":   {"OperationService/Abort", `{"operation": "nope"}`, 404, "unknown_operation", `"nope"`},
		"resume of no sleep": {"OperationService/Resume", `{"operation": "*taken"}`, 400, "invalid_operation_state", "not suspended"},
		"complete too early": {"OperationService/Complete", `{"operation": "*taken"}`, 400, "invalid_operation_state", "only a running operation can be completed"},
		"list of a state":    {"OperationService/List", `{"state": "asleep"}`, 400, "invalid_argument", "asleep"},
		"list too long":      {"OperationService/List", `{"limit": 1001}`, 400, "invalid_argument", "limit 1001: must be 1 to 1000"},
		"list after nothing": {"OperationService/List", `{"after": "nope"}`, 404, "unknown_operation", "start again without it"},
		"wait too long":      {"OperationService/Wait", `{"operation": "*taken", "timeout_millis": "600001"}`, 400, "invalid_argument", "must be 1 to 600000"},
		"wait backwards":     {"OperationService/Wait", `{"operation": "*taken", "timeout_millis": "-1"}`, 400, "invalid_argument", "must be 1 to 600000"},
		"jobs of nothing":    {"JobService/List", `{}`, 400, "invalid_argument", "an operation's id or alias is needed"},
		"jobs of a state":    {"JobService/List", `{"operation": "*taken", "state": "asleep"}`, 400, "invalid_argument", "asleep"},
		"jobs before all":    {"JobService/List", `{"operation": "*taken", "offset": -1}`, 400, "invalid_argument", "must not be negative"},
		"unknown job":        {"JobService/Get", `{"job_id": "nope"}`, 404, "no_such_job", `job "nope" not found`},
		"no job":             {"JobService/Get", `{}`, 400, "invalid_argument", "a job's id is needed"},
		"a third stream":     {"JobService/Output", `{"job_id": "x", "stream": "stdin"}`, 400, "invalid_argument", "must be stdout or stderr"},
		"too much output":    {"JobService/Output", `{"job_id": "x", "stream": "stdout", "limit": "1048577"}`, 400, "invalid_argument", "must be 1 to 1048576"},
		"unknown pool set":   {"PoolService/Edit", `{"edits": [{"change": {"name": "nowhere", "options": {"weight": 1}}}]}`, 404, "unknown_pool", "nowhere"},
		"unknown setting":    {"PoolService/Edit", `{"edits": [{"change": {"name": "default", "options": {"wieght": 1}}}]}`, 400, "invalid_pool", "did you mean weight?"},
		"stale revision":     {"PoolService/Edit", `{"edits": [{"change": {"name": "default", "options": {"weight": 1}}}], "expected_revision": "99"}`, 409, "revision_mismatch", "at revision 1, not 99"},
		"pool twice":         {"PoolService/Edit", `{"edits": [{"create": {"name": "default"}}]}`, 409, "pool_exists", "default"},
		"pool of no name":    {"PoolService/Edit", `{"edits": [{"create": {}}]}`, 400, "invalid_pool", "name"},
		"deep options":       {"PoolService/Edit", `{"edits": [{"tree_options": {"nodes_filter": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}]}`, 400, "invalid_pool", "values nest more than 32 deep"},
		"deep changes":       {"OperationService/Update", `{"operation": "x", "changes": [{"options": {"weight": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}]}`, 400, "invalid_spec", "values nest more than 32 deep"},
		"an edit of nothing": {"PoolService/Edit", `{"edits": [{}]}`, 400, "invalid_command", "edit pool tree: an edit is empty"},
		"no edits":           {"PoolService/Edit", `{}`, 400, "invalid_command", "there is nothing to change"},
		"unknown tree":       {"PoolService/List", `{"tree": "gpu"}`, 404, "unknown_tree", `no pool tree "gpu"`},
		"tree twice":         {"TreeService/Create", `{"tree": "default"}`, 409, "tree_exists", "default"},
		"default tree goes":  {"TreeService/Remove", `{"tree": "default"}`, 400, "tree_in_use", "it is the default tree"},
		"a bad filter":       {"TreeService/Set", `{"options": {"nodes_filter": "a &"}}`, 400, "invalid_tree", "nodes_filter"},
		"pool in use":        {"PoolService/Edit", `{"edits": [{"remove": "default"}]}`, 400, "pool_in_use", "default"},
		"pool not there":     {"PoolService/Get", `{"name": "nowhere"}`, 404, "unknown_pool", "nowhere"},
		"unknown node":       {"NodeService/Get", `{"node": "n9"}`, 404, "unknown_node", `node "n9" not found: never registered, or removed`},
		"drain of no node":   {"NodeService/Drain", `{"node": "n9"}`, 404, "unknown_node", `no node "n9" has registered`},
		"undrain of no node": {"NodeService/Undrain", `{"node": "n9"}`, 404, "unknown_node", `no node "n9" has registered`},
		"removal of no node": {"NodeService/Remove", `{"node": "n9"}`, 404, "unknown_node", `no such node has registered`},
		"removal of one on":  {"NodeService/Remove", `{"node": "n1"}`, 400, "node_in_use", `it is online: drain it, stop its agent`},
		"nodes by no tags":   {"NodeService/List", `{"tags": "gpu &"}`, 400, "invalid_argument", "list nodes: tags: node filter"},
		"nodes with nothing": {"NodeService/List", `{"free": {"disk": 1}}`, 400, "invalid_argument", "list nodes: free: "},
		"nodes of a state":   {"NodeService/List", `{"state": "broken"}`, 400, "invalid_argument", "must be online or offline"},
		"transfer to nobody": {"ClusterService/Transfer", `{"to": "r9"}`, 404, "unknown_replica", "r9"},
		"transfer fails":     {"ClusterService/Transfer", `{"to": "r3"}`, 400, "not_transferred", "does not catch up"},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.Applied()
			got := s.post(test.method, test.body)
			if got.status != test.wantStatus || got.header.Get(apipb.HeaderCode) != test.wantCode || !strings.Contains(strings.ReplaceAll(got.raw, `\"`, `"`), test.want) {
				t.Errorf("%d %q %s, want %d %q and %s", got.status, got.header.Get(apipb.HeaderCode), got.raw, test.wantStatus, test.wantCode, test.want)
			}
			if test.wantCode == "invalid_spec" && s.Applied() != before {
				t.Error("it got as far as the log")
			}
		})
	}
	// The replica goes on.
	want(t, s.get("OperationService/Get", `{"operation": "*taken"}`), "starting", "operation", "state")
}

func TestJSONOfBothNames(t *testing.T) {
	s := newSite(t)
	for _, kind := range []string{"application/json", "application/json; charset=utf-8"} {
		got := s.post("OperationService/List", `{"piority": 1}`, "Content-Type", kind)
		if got.status != http.StatusBadRequest || !strings.Contains(got.raw, "piority") {
			t.Errorf("%s: %d %s", kind, got.status, got.raw)
		}
		got = s.post("OperationService/List", `{"inProgress": true}`, "Content-Type", kind)
		if got.raw != `{"operations":[],"incomplete":false,"next":""}` {
			t.Errorf("%s: %d %s", kind, got.status, got.raw)
		}
	}
}
