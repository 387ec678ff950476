package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"weir/messages/apipb"
	"weir/messages/commandpb"
)

const (
	asUna = "user/una"
	asBob = "user/bob"
)

// start starts an operation as somebody, and returns its id.
func (s *site) start(who, more string) string {
	s.t.Helper()
	return at(s.t, s.get("OperationService/Start", startBody(1, more), roleHeader, who), "operation_id").(string)
}

// abort ends an operation that has not begun.
func (s *site) abort(operation string) {
	s.t.Helper()
	s.get("OperationService/Abort", fmt.Sprintf(`{"operation": %q}`, operation))
	s.must(&commandpb.AdvanceOperation{OperationId: operation, Term: 1, From: "aborting", To: "aborted"})
}

// listed returns which pools a tree has: "name", and "name of user below parent" of ephemeral ones.
func (s *site) listed(tree string) string {
	s.t.Helper()
	var out []string
	for _, shown := range at(s.t, s.get("PoolService/List", fmt.Sprintf(`{"tree": %q}`, tree)), "pools").([]any) {
		p := shown.(map[string]any)
		text := fmt.Sprint(p["name"])
		if p["ephemeral_user"] != "" {
			text += fmt.Sprintf(" of %v below %v", p["ephemeral_user"], p["parent"])
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// TestUnnamedPools starts operations that name no pool: they run in the pool of their user
// below default_parent_pool, which comes with the first of them and goes with the last.
func TestUnnamedPools(t *testing.T) {
	s := newSite(t)
	first := s.start(asUna, "")
	want(t, s.get("OperationService/Get", fmt.Sprintf(`{"operation": %q}`, first)), "default", "operation", "pool")

	s.get("PoolService/Edit", `{"edits": [{"create": {"name": "people", "options": {"forbid_immediate_operations": true}}}, {"tree_options": {"default_parent_pool": "people", "max_ephemeral_pools_per_user": 1}}]}`)
	second, third, bobs := s.start(asUna, ""), s.start(asUna, ""), s.start(asBob, "")
	for _, id := range []string{second, third} {
		want(t, s.get("OperationService/Get", fmt.Sprintf(`{"operation": %q}`, id)), "una", "operation", "pool")
	}
	want(t, s.get("OperationService/Get", fmt.Sprintf(`{"operation": %q}`, bobs)), "bob", "operation", "pool")
	// The pool that bob names is his other one, and the only one that he may have.
	another := s.start(asBob, `, "pool": "trial"`)
	refused := s.post("OperationService/Start", startBody(1, `, "pool": "second"`), roleHeader, asBob)
	if !strings.Contains(refused.raw, "max_ephemeral_pools_per_user") {
		t.Errorf("one more pool of bob: %d %s", refused.status, refused.raw)
	}
	if got, want := s.listed("default"), "default, people, bob of bob below people, trial of bob below people, una of una below people"; got != want {
		t.Errorf("pools %s\nwant %s", got, want)
	}
	for _, id := range []string{second, bobs, another} {
		s.abort(id)
	}
	if got, want := s.listed("default"), "default, people, una of una below people"; got != want {
		t.Errorf("pools %s\nwant %s", got, want)
	}
	s.abort(third)
	if got, want := s.listed("default"), "default, people"; got != want {
		t.Errorf("pools %s\nwant %s", got, want)
	}
	// A pool of the user's name that is there is used, wherever it is.
	s.get("PoolService/Edit", `{"edits": [{"create": {"name": "una"}}]}`)
	want(t, s.get("OperationService/Get", fmt.Sprintf(`{"operation": %q}`, s.start(asUna, ""))), "una", "operation", "pool")
	if got, want := s.listed("default"), "default, people, una"; got != want {
		t.Errorf("pools %s\nwant %s", got, want)
	}
}

// TestUnnamedPoolsOfTrees starts an operation in several trees, which say for themselves
// where those go that name no pool.
func TestUnnamedPoolsOfTrees(t *testing.T) {
	s := newSite(t)
	s.get("TreeService/Set", `{"tree": "default", "options": {"nodes_filter": "!gpu & !big"}}`)
	for tree, parent := range map[string]string{"gpu": `"default_parent_pool": "<Root>", "nodes_filter": "gpu"`, "big": `"nodes_filter": "big & !gpu"`} {
		s.get("TreeService/Create", fmt.Sprintf(`{"tree": %q, "options": {%s}}`, tree, parent))
	}
	s.get("PoolService/Edit", `{"tree": "default", "edits": [{"create": {"name": "people"}}, {"tree_options": {"default_parent_pool": "people"}}]}`)
	id := s.start(asUna, `, "pool_trees": ["default", "gpu", "big"]`)
	trees := at(t, s.get("OperationService/Get", fmt.Sprintf(`{"operation": %q}`, id)), "operation", "trees").([]any)
	got := map[any]any{}
	for i := range trees {
		got[at(t, trees, i, "tree")] = at(t, trees, i, "pool")
	}
	if text := fmt.Sprint(got); text != "map[big:default default:una gpu:una]" {
		t.Errorf("it is in the pools %s", text)
	}
	if text := s.listed("default") + "; " + s.listed("gpu") + "; " + s.listed("big"); text != "default, people, una of una below people; default, una of una below <Root>; default" {
		t.Errorf("pools %s", text)
	}
	s.abort(id)
	if text := s.listed("default") + "; " + s.listed("gpu"); text != "default, people; default" {
		t.Errorf("pools after the end: %s", text)
	}
}

// TestParentsOfUnnamedPools sets default_parent_pool to what cannot be one, and to full
// pools: it is said what is wrong, at once or at the start.
func TestParentsOfUnnamedPools(t *testing.T) {
	s := newSite(t)
	s.get("PoolService/Edit", `{"edits": [{"create": {"name": "people"}}, {"create": {"name": "queue", "options": {"mode": "fifo"}}}]}`)
	ephemeral := s.start(asBob, `, "pool": "passing"`)
	for name, text := range map[string]string{"gone": `default_parent_pool: \"gone\": no such pool`, "passing": `default_parent_pool: \"passing\" is ephemeral: it is removed with its last operation`} {
		got := s.post("PoolService/Edit", fmt.Sprintf(`{"edits": [{"tree_options": {"default_parent_pool": %q}}]}`, name))
		if got.status == http.StatusOK || !strings.Contains(got.raw, text) {
			t.Errorf("default_parent_pool %s: %d %s, want %q", name, got.status, got.raw, text)
		}
	}
	s.abort(ephemeral)
	s.get("PoolService/Edit", `{"edits": [{"tree_options": {"default_parent_pool": "people"}}]}`)
	if got := s.post("PoolService/Edit", `{"edits": [{"remove": "people"}]}`); !strings.Contains(got.raw, `default_parent_pool: \"people\": no such pool`) {
		t.Errorf("the default parent is removed: %d %s", got.status, got.raw)
	}
	s.get("PoolService/Edit", `{"edits": [{"change": {"name": "people", "options": {"max_operation_count": 1}}}]}`)
	una := s.start(asUna, "")
	full := s.post("OperationService/Start", startBody(1, ""), roleHeader, asBob)
	if full.header.Get(apipb.HeaderCode) != "pool_full" || !strings.Contains(full.raw, `pool \"people\": limit of 1 operations reached (option max_operation_count)`) {
		t.Errorf("a full parent: %d %s", full.status, full.raw)
	}
	s.abort(una)
	s.get("PoolService/Edit", `{"edits": [{"tree_options": {"default_parent_pool": "queue"}}]}`)
	una = s.start(asUna, "")
	if got := s.listed("default"); got != "default, people, queue, una of una below queue" {
		t.Errorf("pools below a FIFO pool: %s", got)
	}
	s.abort(una)
	if got := s.listed("default"); got != "default, people, queue" {
		t.Errorf("pools %s", got)
	}
}

// TestLimitsOfFewOperations starts operations where max_operation_count alone is set: of a
// pool, and for the subpools of users.
func TestLimitsOfFewOperations(t *testing.T) {
	s := newSite(t)
	s.get("PoolService/Edit", `{"edits": [{"create": {"name": "few", "options": {"max_operation_count": 2}}},
		{"create": {"name": "hub", "options": {"create_ephemeral_subpools": true, "ephemeral_subpool_config": {"max_operation_count": 2}}}}]}`)
	for pool, full := range map[string]string{"few": "few", "hub": "hub$una"} {
		for range 2 {
			s.start(asUna, fmt.Sprintf(`, "pool": %q`, pool))
		}
		third := s.post("OperationService/Start", startBody(1, fmt.Sprintf(`, "pool": %q`, pool)), roleHeader, asUna)
		if third.header.Get(apipb.HeaderCode) != "pool_full" || !strings.Contains(third.raw, fmt.Sprintf(`pool \"%s\": limit of 2 operations`, full)) {
			t.Errorf("the third operation of pool %s: %d %s", pool, third.status, third.raw)
		}
		want(t, s.get("PoolService/Get", fmt.Sprintf(`{"name": %q}`, full)), 2.0, "pool", "effective", "max_running_operation_count")
	}
}
