package pooltree_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"weir/scheduling"
	"weir/scheduling/pooltree"
)

func TestPlace(t *testing.T) {
	cases := map[string]struct {
		options object
		pools   []node
		pool    scheduling.PoolName
		gang    bool
		want    scheduling.PoolName
		// wantParent is where a pool has to be made; "": none has.
		wantParent scheduling.PoolName
		wantErr    error
	}{
		"a pool that is there":           {pools: []node{{"a", scheduling.RootPool, nil}}, pool: "a", want: "a"},
		"a pool that is not":             {pool: "new", want: "new", wantParent: scheduling.RootPool},
		"below the default parent":       {options: object{"default_parent_pool": "a"}, pools: []node{{"a", scheduling.RootPool, nil}}, pool: "new", want: "new", wantParent: "a"},
		"none named":                     {pools: []node{{"default", scheduling.RootPool, nil}}, want: "default"},
		"none named, no default pool":    {want: "bob", wantParent: scheduling.RootPool},
		"none named, a default parent":   {options: object{"default_parent_pool": "a"}, pools: []node{{"default", scheduling.RootPool, nil}, {"a", scheduling.RootPool, nil}}, want: "bob", wantParent: "a"},
		"none named, the root as parent": {options: object{"default_parent_pool": "<Root>"}, pools: []node{{"default", scheduling.RootPool, nil}}, want: "bob", wantParent: scheduling.RootPool},
		"none named, the user has one":   {options: object{"default_parent_pool": "a"}, pools: []node{{"a", scheduling.RootPool, nil}, {"bob", scheduling.RootPool, nil}}, want: "bob"},
		"none named, the user has a hub": {options: object{"default_parent_pool": "a"}, pools: []node{{"a", scheduling.RootPool, nil}, {"bob", "a", object{"create_ephemeral_subpools": true}}},
			want: "bob$bob", wantParent: "bob"},
		"none named, a parent for pools only": {options: object{"default_parent_pool": "a"}, pools: []node{{"a", scheduling.RootPool, object{"forbid_immediate_operations": true}}}, want: "bob", wantParent: "a"},
		"none named, a FIFO parent":           {options: object{"default_parent_pool": "a"}, pools: []node{{"a", scheduling.RootPool, object{"mode": "fifo"}}}, want: "bob", wantParent: "a"},
		"a subpool of a FIFO pool":            {pools: []node{{"hub", scheduling.RootPool, object{"mode": "fifo", "create_ephemeral_subpools": true}}}, pool: "hub", want: "hub$bob", wantParent: "hub"},
		"none named, none may be made":        {options: object{"default_parent_pool": "<Root>", "max_ephemeral_pools_per_user": 0.0}, want: "bob", wantParent: scheduling.RootPool},
		"none named, a pool that takes none": {options: object{"default_parent_pool": "a"}, pools: []node{{"a", scheduling.RootPool, nil}, {"bob", "a", object{"forbid_immediate_operations": true}}},
			wantErr: pooltree.ErrNoImmediate},
		"none named, a default pool that takes none": {pools: []node{{"default", scheduling.RootPool, object{"forbid_immediate_operations": true}}}, wantErr: pooltree.ErrNoImmediate},
		"where none may be made":                     {options: object{"max_ephemeral_pools_per_user": 0.0}, pool: "new", wantErr: pooltree.ErrTooManyEphemeral},
		"a subpool of the user":                      {pools: []node{{"hub", scheduling.RootPool, object{"create_ephemeral_subpools": true}}}, pool: "hub", want: "hub$bob", wantParent: "hub"},
		"the root":                                   {pool: scheduling.RootPool, wantErr: pooltree.ErrNoImmediate},
		"the root, where it is allowed":              {options: object{"forbid_immediate_operations_in_root": false}, pool: scheduling.RootPool, want: scheduling.RootPool},
		"a pool for subpools only":                   {pools: []node{{"a", scheduling.RootPool, object{"forbid_immediate_operations": true}}}, pool: "a", wantErr: pooltree.ErrNoImmediate},
		"a subpool of a pool for them":               {pools: []node{{"a", scheduling.RootPool, object{"forbid_immediate_operations": true}}, {"b", "a", nil}}, pool: "b", want: "b"},
		"a gang in a fair-share pool":                {options: object{"allow_gang_operations_only_in_fifo_pools": true}, pools: []node{{"a", scheduling.RootPool, nil}}, pool: "a", gang: true, wantErr: pooltree.ErrGang},
		"a gang in a FIFO pool":                      {options: object{"allow_gang_operations_only_in_fifo_pools": true}, pools: []node{{"a", scheduling.RootPool, object{"mode": "fifo"}}}, pool: "a", gang: true, want: "a"},
		"a gang where it is always taken":            {options: object{"allow_gang_operations_only_in_fifo_pools": true}, pools: []node{{"a", scheduling.RootPool, object{"always_allow_gang_operations": true}}}, pool: "a", gang: true, want: "a"},
		"a gang in a FIFO subpool": {options: object{"allow_gang_operations_only_in_fifo_pools": true},
			pools: []node{{"hub", scheduling.RootPool, object{"create_ephemeral_subpools": true, "ephemeral_subpool_config": object{"mode": "fifo"}}}}, pool: "hub", gang: true, want: "hub$bob", wantParent: "hub"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := build(t, tc.options, tc.pools...).Place(tc.pool, "bob", tc.gang)
			if !errors.Is(err, tc.wantErr) || got.Pool != tc.want {
				t.Fatalf("placed in %q, %v, want %q, %v", got.Pool, err, tc.want, tc.wantErr)
			}
			if (got.Create != nil) != (tc.wantParent != "") || got.Create != nil && (got.Create.Parent != tc.wantParent || got.Create.Ephemeral != "bob") {
				t.Errorf("to make: %+v, want one below %q", got.Create, tc.wantParent)
			}
		})
	}
}

// TestEphemeralSubpoolTakesItsConfig makes bob's subpool, which takes the options
// that its hub has for subpools, and then finds it there.
func TestEphemeralSubpoolTakesItsConfig(t *testing.T) {
	tree := build(t, nil, node{"hub", scheduling.RootPool, object{
		"create_ephemeral_subpools": true, "ephemeral_subpool_config": object{"mode": "fifo", "max_running_operation_count": 1.0, "resource_limits": object{"cpu": 2.0}},
	}})
	placed, err := tree.Place("hub", "bob", false)
	if err != nil {
		t.Fatal(err)
	}
	if tree, err = tree.Create(*placed.Create); err != nil {
		t.Fatal(err)
	}
	e, err := tree.Effective("hub$bob")
	if err != nil || e.Mode != pooltree.FIFO || e.MaxRunningOperationCount != 1 || e.Limits.CPU != 200 {
		t.Errorf("the subpool has %+v, %v", e, err)
	}
	if again, err := tree.Place("hub", "bob", false); err != nil || again.Create != nil || again.Pool != "hub$bob" {
		t.Errorf("placed again: %+v, %v", again, err)
	}
	if _, err := tree.Place("hub", "eve/..", false); err == nil || !strings.Contains(err.Error(), `user "eve/.." cannot have a subpool`) {
		t.Errorf("a user with an impossible name: %v", err)
	}
}

func TestEphemeralPoolsOfAUser(t *testing.T) {
	tree := build(t, nil)
	placed, err := tree.Place("one", "bob", false)
	if err != nil {
		t.Fatal(err)
	}
	if tree, err = tree.Create(*placed.Create); err != nil {
		t.Fatal(err)
	}
	_, err = tree.Place("two", "bob", false)
	want := `pool "two": no such pool, and no ephemeral one can be created: user "bob" has 1: too many ephemeral pools (option max_ephemeral_pools_per_user 1 of the tree)`
	if !errors.Is(err, pooltree.ErrTooManyEphemeral) || errorText(err) != want {
		t.Errorf("a second pool of bob: %v\nwant %s", err, want)
	}
	if _, err := tree.Place("two", "eve", false); err != nil {
		t.Errorf("a pool of eve: %v", err)
	}
	placed, err = tree.Place("bob", "bob", false)
	if err != nil || placed.Pool != "bob" {
		t.Fatalf("the pool of bob, who has another: %+v, %v", placed, err)
	}
	if tree, err = tree.Remove("one", 0); err != nil {
		t.Fatal(err)
	}
	if tree, err = tree.Create(*placed.Create); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Place("two", "bob", false); err != nil {
		t.Errorf("another pool of bob, who has his own: %v", err)
	}
	for user, want := range map[scheduling.User]string{
		"":     "the operation names no pool, and without a user name there is no default one: name a pool",
		"eve/": `the operation names no pool, and user "eve/" cannot have one: pool name "eve/" contains '/': not allowed are / $ < > * spaces and control characters: name a pool`,
	} {
		if _, err := tree.Place("", user, false); errorText(err) != want {
			t.Errorf("no pool named by user %q: %v\nwant %s", user, err, want)
		}
	}
	if _, err := tree.Place("$x", "eve", false); err == nil {
		t.Error("a name with $ is taken")
	}
}

func TestRename(t *testing.T) {
	tree, err := build(t, object{"default_parent_pool": "a"},
		node{"a", scheduling.RootPool, nil}, node{"b", "a", nil}, node{"d", scheduling.RootPool, nil}).Edit(nil, pooltree.Edit{Rename: &pooltree.Rename{From: "a", To: "z"}})
	if err != nil {
		t.Fatal(err)
	}
	if path, err := tree.Path("b"); err != nil || !reflect.DeepEqual(path, []scheduling.PoolName{"b", "z", scheduling.RootPool}) {
		t.Errorf("path of b: %v, %v", path, err)
	}
	if got := tree.Settings().DefaultParentPool; got != "z" {
		t.Errorf("default parent %q", got)
	}
	for to, want := range map[scheduling.PoolName]error{"d": pooltree.ErrPoolExists, scheduling.RootPool: pooltree.ErrPoolExists} {
		if _, err := tree.Edit(nil, pooltree.Edit{Rename: &pooltree.Rename{From: "z", To: to}}); !errors.Is(err, want) {
			t.Errorf("rename z to %s: %v", to, err)
		}
	}
	if _, err := tree.Edit(nil, pooltree.Edit{Rename: &pooltree.Rename{From: "nobody", To: "x"}}); !errors.Is(err, pooltree.ErrUnknownPool) {
		t.Errorf("rename an unknown pool: %v", err)
	}
	if _, err := tree.Edit(nil, pooltree.Edit{Rename: &pooltree.Rename{From: "b", To: "x$y"}}); err == nil {
		t.Error("a name with $ is taken")
	}
}

// TestEditsAsOne makes changes that are impossible one by one.
func TestEditsAsOne(t *testing.T) {
	guarantee := func(cpu float64) pooltree.PoolOptions {
		o, err := pooltree.ReadPoolOptions(object{"strong_guarantee_resources": object{"cpu": cpu}})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	tree := build(t, nil, node{"p", scheduling.RootPool, object{"strong_guarantee_resources": object{"cpu": 5.0}}},
		node{"c", "p", object{"strong_guarantee_resources": object{"cpu": 5.0}}}, node{"x", scheduling.RootPool, nil})
	held := map[scheduling.PoolName]int64{"x": 1}
	operations := func(name scheduling.PoolName) int64 { return held[name] }

	after, err := tree.Edit(operations,
		pooltree.Edit{Set: &pooltree.Pool{Name: "p", Parent: scheduling.RootPool, Options: guarantee(2)}},
		pooltree.Edit{Set: &pooltree.Pool{Name: "c", Parent: "p", Options: guarantee(1)}},
		pooltree.Edit{Create: &pooltree.Pool{Name: "n", Parent: "m"}},
		pooltree.Edit{Create: &pooltree.Pool{Name: "m", Parent: "p"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := after.Children("p"); !reflect.DeepEqual(got, []scheduling.PoolName{"c", "m"}) {
		t.Errorf("children of p: %v", got)
	}
	if _, err := tree.Edit(operations, pooltree.Edit{Rename: &pooltree.Rename{From: "x", To: "y"}}, pooltree.Edit{Remove: "y"}); !errors.Is(err, pooltree.ErrPoolInUse) {
		t.Errorf("removal of a renamed pool with an operation: %v", err)
	}
	if before, err := tree.Edit(operations, pooltree.Edit{Remove: "c"}, pooltree.Edit{Remove: "x"}); err == nil || !before.Has("c") {
		t.Errorf("a part of refused edits is done: %v, %v", before.Pools(), err)
	}
}
