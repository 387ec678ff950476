package state

import (
	"strings"
	"testing"

	"weir/messages/commandpb"
	"weir/scheduling"
)

// TestMovesOutOfFullPools moves operations within and out of pools that hold more than
// they may by now, and between the only ephemeral pools that their user may have.
func TestMovesOutOfFullPools(t *testing.T) {
	for name, tc := range map[string]struct {
		to, want string
		refusal  string
	}{
		"to the full pool that it is in":           {"a", "a", ""},
		"to a pool beside it, below a full one":    {"b", "b", ""},
		"to a pool that is not full":               {"free", "free", ""},
		"to a full pool that it is not in":         {"full", "", "limit of 0 operations reached"},
		"to an ephemeral pool":                     {"mine", "mine", ""},
		"to the pool of its user in the full pool": {"hub", "hub$ann", ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			j.must(edit(creation("team", "", nil), creation("a", "team", nil), creation("b", "team", nil), creation("free", "", nil),
				creation("full", "", map[string]any{"max_operation_count": 0, "max_running_operation_count": 0}), creation("hub", "", map[string]any{"create_ephemeral_subpools": true})))
			spec := specOf(1)
			spec.Pool = "a"
			j.run("op", spec)
			j.must(changePool("a", map[string]any{"max_operation_count": 0, "max_running_operation_count": 0}),
				changePool("team", map[string]any{"max_operation_count": 0, "max_running_operation_count": 0}))
			result, _ := j.apply(updateOf("op", "", to(tc.to), nil))
			if got := result.GetRefusal().GetMessage(); !strings.Contains(got, tc.refusal) || (got == "") != (tc.refusal == "") {
				t.Fatalf("refused with %q, want %q", got, tc.refusal)
			}
			o, _ := j.state.Operation("op")
			if got := o.GetTrees()[0].GetPool(); tc.want != "" && got != tc.want {
				t.Errorf("it is in pool %q, want %q", got, tc.want)
			}
		})
	}
}

// TestOneEphemeralPoolAfterAnother moves an operation from the one ephemeral pool that
// its user may have to another, and not while a second operation keeps the first.
func TestOneEphemeralPoolAfterAnother(t *testing.T) {
	j := newJournal(t)
	j.must(treeEdit("", map[string]any{"max_ephemeral_pools_per_user": 1}))
	spec := specOf(1)
	spec.Pool = "mine"
	j.run("op", spec)
	j.must(updateOf("op", "", to("mine"), nil), updateOf("op", "", to("other"), nil))
	if pools, _, _ := j.state.Pools(scheduling.DefaultTree); pools.Has("mine") || !pools.Has("other") {
		t.Errorf("pools %v", pools.Pools())
	}
	second := specOf(1)
	second.Pool = "other"
	j.run("second", second)
	result, _ := j.apply(updateOf("op", "", to("third"), nil))
	if got := result.GetRefusal(); got.GetCode() != CodeUnknownPool || !strings.Contains(got.GetMessage(), "too many ephemeral pools") {
		t.Errorf("a second ephemeral pool: %v", result)
	}
}

// TestOperationsOfAFullHubStay names the pool again that has made a subpool for the
// user, when that has become full.
func TestOperationsOfAFullHubStay(t *testing.T) {
	j := newJournal(t)
	j.must(edit(creation("hub", "", map[string]any{"create_ephemeral_subpools": true})))
	spec := specOf(1)
	spec.Pool = "hub"
	j.run("op", spec)
	j.must(changePool("hub", map[string]any{"max_operation_count": 0, "max_running_operation_count": 0}),
		updateOf("op", "", to("hub"), nil), updateOf("op", "", to("hub$ann"), nil))
	result, _ := j.apply(changePool("hub$ann", map[string]any{"weight": 2}))
	if got := result.GetRefusal(); got.GetCode() != CodeInvalidPool || !strings.Contains(got.GetMessage(), `made for user "ann"`) || !strings.Contains(got.GetMessage(), `ephemeral_subpool_config of pool "hub"`) {
		t.Errorf("a subpool of a user is set: %v", result)
	}
}

// TestTheDefaultParentIsRenamed gives the pool of ephemeral pools another name in an
// edit that changes other options of the tree, too.
func TestTheDefaultParentIsRenamed(t *testing.T) {
	j := newJournal(t)
	j.must(createPool("guests", "", nil), treeEdit("", map[string]any{"default_parent_pool": "guests"}))
	renamed := &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Rename{Rename: &commandpb.RenamePool{From: "guests", To: "visitors"}}}
	other := &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Change{Change: changesOf(map[string]any{"max_ephemeral_pools_per_user": 3})}}
	j.must(edit(renamed, other))
	pools, _, _ := j.state.Pools(scheduling.DefaultTree)
	if s := pools.Settings(); s.DefaultParentPool != "visitors" || s.MaxEphemeralPoolsPerUser != 3 {
		t.Errorf("default_parent_pool %q, max_ephemeral_pools_per_user %d", s.DefaultParentPool, s.MaxEphemeralPoolsPerUser)
	}
}

// TestOperationsGoToTheDefaultTree starts operations that name no tree, before another
// one becomes the default and after.
func TestOperationsGoToTheDefaultTree(t *testing.T) {
	j := newJournal(t)
	treeOf := func(id string) string {
		j.must(&commandpb.StartOperation{OperationId: id, User: "ann", Spec: specOf(1)})
		o, _ := j.state.Operation(scheduling.OperationID(id))
		if len(o.GetTrees()) != 1 {
			t.Fatalf("operation %s is in the trees %v", id, o.GetTrees())
		}
		return o.GetTrees()[0].GetTree()
	}
	before := treeOf("before")
	j.must(treeEdit("", map[string]any{"nodes_filter": "!gpu"}),
		&commandpb.CreateTree{Tree: "gpu", Options: optionsOf(map[string]any{"nodes_filter": "gpu"})}, &commandpb.SetDefaultTree{Tree: "gpu"})
	if after := treeOf("after"); before != "default" || after != "gpu" {
		t.Errorf("they are in the trees %q and %q, want default and gpu", before, after)
	}
}
