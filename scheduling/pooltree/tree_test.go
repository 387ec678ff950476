package pooltree_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

func ptr[T any](v T) *T { return &v }

func pool(name, parent scheduling.PoolName) pooltree.Pool {
	return pooltree.Pool{Name: name, Parent: parent}
}

// tree is <Root> with a, a/b, a/b/c, d.
func tree(t interface {
	Helper()
	Fatal(...any)
}) pooltree.Tree {
	t.Helper()
	tree, err := pooltree.FromPools(pooltree.Default(), []pooltree.Pool{
		pool("c", "b"), pool("b", "a"), pool("a", scheduling.RootPool), pool("d", scheduling.RootPool),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestEdits(t *testing.T) {
	cases := map[string]struct {
		edit    func(pooltree.Tree) (pooltree.Tree, error)
		wantErr error
		// wantText is part of the error's text: what is wrong, and what to do.
		wantText string
	}{
		"create at the root":   {edit: create(pool("e", scheduling.RootPool))},
		"create below another": {edit: create(pool("e", "c"))},
		"create twice":         {create(pool("a", scheduling.RootPool)), pooltree.ErrPoolExists, `create pool "a": pool already exists, below "<Root>": choose another name`},
		"create the root":      {create(pool(scheduling.RootPool, "a")), pooltree.ErrPoolExists, "as the root of the tree: choose another name"},
		"unknown parent":       {create(pool("e", "x")), pooltree.ErrUnknownPool, `parent "x"`},
		"no parent":            {create(pool("e", "")), pooltree.ErrUnknownPool, `use "<Root>"`},
		"own parent":           {create(pool("e", "e")), pooltree.ErrCycle, ""},
		"move":                 {edit: set(pool("b", "d"))},
		"move below itself":    {set(pool("a", "c")), pooltree.ErrCycle, `below itself: "a" below "c" below "b" below "a": choose another parent`},
		"move below itself what others are below": {func(t pooltree.Tree) (pooltree.Tree, error) {
			return t.Edit(nil, pooltree.Edit{Create: ptr(pool("ab", "c"))}, pooltree.Edit{Create: ptr(pool("aa", "ab"))}, pooltree.Edit{Set: ptr(pool("b", "c"))},
				pooltree.Edit{Set: ptr(pool("a", "d"))})
		}, pooltree.ErrCycle, `pool would be below itself: "c" below "b" below "c": choose another parent`},
		"set an unknown pool": {set(pool("x", "a")), pooltree.ErrUnknownPool, `set pool "x"`},
		"set the root":        {set(pool(scheduling.RootPool, "a")), pooltree.ErrRootPool, ""},
		"remove":              {edit: remove("d", 0)},
		"remove a parent":     {remove("a", 0), pooltree.ErrPoolInUse, `it has 1 pools, the first is "b": remove or move them`},
		"remove with operations": {remove("d", 2), pooltree.ErrPoolInUse,
			"it has 2 operations: wait for them, abort them or move them"},
		"remove an unknown pool": {remove("x", 0), pooltree.ErrUnknownPool, ""},
		"remove the root":        {remove(scheduling.RootPool, 0), pooltree.ErrRootPool, ""},

		"weight 0":        {edit: set(pooltree.Pool{Name: "d", Parent: "a", Options: pooltree.PoolOptions{Weight: ptr(0.)}})},
		"negative weight": {set(pooltree.Pool{Name: "d", Parent: "a", Options: pooltree.PoolOptions{Weight: ptr(-1.)}}), nil, "weight: -1 is not a number from 0"},
		"infinite weight": {set(pooltree.Pool{Name: "d", Parent: "a", Options: pooltree.PoolOptions{Weight: ptr(math.Inf(1))}}), nil, "weight: +Inf is not"},
		"weight NaN":      {set(pooltree.Pool{Name: "d", Parent: "a", Options: pooltree.PoolOptions{Weight: ptr(math.NaN())}}), nil, "weight: NaN is not"},
		"no operations at all": {
			edit: set(pooltree.Pool{Name: "d", Parent: "a", Options: pooltree.PoolOptions{MaxOperationCount: ptr[int64](0), MaxRunningOperationCount: ptr[int64](0)}})},
		"more run than there are": {
			set(pooltree.Pool{Name: "d", Parent: "a", Options: pooltree.PoolOptions{MaxOperationCount: ptr[int64](3), MaxRunningOperationCount: ptr[int64](4)}}), nil,
			"max_operation_count: 3 is less than max_running_operation_count, 4"},
		"more run in subpools than there are": {
			set(pooltree.Pool{Name: "d", Parent: "a", Options: pooltree.PoolOptions{Ephemeral: &pooltree.EphemeralOptions{
				MaxOperationCount: ptr[int64](2), MaxRunningOperationCount: ptr[int64](3)}}}), nil,
			`pool "d": ephemeral_subpool_config/max_operation_count: 2 is less than max_running_operation_count, 3`},
		"negative limit": {
			set(pooltree.Pool{Name: "d", Parent: "a", Options: pooltree.PoolOptions{MaxRunningOperationCount: ptr[int64](-1)}}), nil,
			"max_running_operation_count: -1 is not a number of at least 0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tree(t)
			after, err := tc.edit(before)
			if tc.wantErr == nil && tc.wantText == "" {
				if err != nil {
					t.Fatal(err)
				}
			} else if err == nil || (tc.wantErr != nil && !errors.Is(err, tc.wantErr)) || !strings.Contains(err.Error(), tc.wantText) {
				t.Fatalf("error %v, want %v with %q", err, tc.wantErr, tc.wantText)
			}
			if want := tree(t); !reflect.DeepEqual(before.Pools(), want.Pools()) {
				t.Errorf("the edit changed the tree that it was made of: %v", before.Pools())
			}
			if err != nil && tc.wantErr != nil && !reflect.DeepEqual(after.Pools(), before.Pools()) {
				t.Errorf("a refused edit gives another tree: %v", after.Pools())
			}
		})
	}
}

func create(p pooltree.Pool) func(pooltree.Tree) (pooltree.Tree, error) {
	return func(t pooltree.Tree) (pooltree.Tree, error) { return t.Create(p) }
}

func set(p pooltree.Pool) func(pooltree.Tree) (pooltree.Tree, error) {
	return func(t pooltree.Tree) (pooltree.Tree, error) { return t.Edit(nil, pooltree.Edit{Set: &p}) }
}

func remove(name scheduling.PoolName, operations int64) func(pooltree.Tree) (pooltree.Tree, error) {
	return func(t pooltree.Tree) (pooltree.Tree, error) { return t.Remove(name, operations) }
}

func TestNames(t *testing.T) {
	cases := map[string]struct {
		name   scheduling.PoolName
		wantOK bool
	}{
		"letters":         {"ads-prod_1.x", true},
		"other alphabets": {"пул", true},
		"100 bytes":       {scheduling.PoolName(strings.Repeat("a", 100)), true},
		"101 bytes":       {scheduling.PoolName(strings.Repeat("a", 101)), false},
		"empty":           {"", false},
		"slash":           {"a/b", false},
		"dollar":          {"a$b", false},
		"less":            {"a<b", false},
		"greater":         {"a>b", false},
		"star":            {"*", false},
		"space":           {"a b", false},
		"line":            {"a\nb", false},
		"control":         {"a\x00b", false},
		"no UTF-8":        {"a\xff", false},
		"the root":        {scheduling.RootPool, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := pooltree.ValidateName(tc.name); (err == nil) != tc.wantOK {
				t.Errorf("ValidateName(%q) = %v", tc.name, err)
			}
		})
	}
}

// FuzzValidateName holds every name that is taken to what paths and globs need of
// it.
func FuzzValidateName(f *testing.F) {
	for _, name := range []string{"ads", "a/b", "a b", "*", "", "a\xff", "\u2028", strings.Repeat("x", 101)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if pooltree.ValidateName(scheduling.PoolName(name)) != nil {
			return
		}
		if name == "" || len(name) > pooltree.MaxNameBytes || !utf8.ValidString(name) || strings.ContainsAny(name, "/$<>*") {
			t.Errorf("%q is taken", name)
		}
		if words := strings.Fields(name); len(words) != 1 || words[0] != name {
			t.Errorf("%q is taken with spaces", name)
		}
	})
}

func TestDepthIsLimited(t *testing.T) {
	tree, err := pooltree.New(pooltree.Default())
	if err != nil {
		t.Fatal(err)
	}
	parent := scheduling.RootPool
	for i := range pooltree.MaxDepth {
		name := scheduling.PoolName(fmt.Sprint("p", i))
		if tree, err = tree.Create(pool(name, parent)); err != nil {
			t.Fatal(err)
		}
		parent = name
	}
	if _, err := tree.Create(pool("deep", parent)); !errors.Is(err, pooltree.ErrTooDeep) {
		t.Errorf("error %v, want %v", err, pooltree.ErrTooDeep)
	}
	if _, err := tree.Edit(nil, pooltree.Edit{Set: ptr(pool("p0", scheduling.DefaultPool))}); !errors.Is(err, pooltree.ErrTooDeep) {
		t.Errorf("a move takes the deepest too deep: error %v, want %v", err, pooltree.ErrTooDeep)
	}
}

func TestNewTree(t *testing.T) {
	tree, err := pooltree.New(pooltree.Default())
	if err != nil {
		t.Fatal(err)
	}
	if !tree.Has(scheduling.DefaultPool) || !tree.Has(scheduling.RootPool) || tree.Has("x") {
		t.Errorf("a new tree has %v", tree.Pools())
	}
	if got, err := tree.Effective(scheduling.DefaultPool); err != nil || got.Weight != 1 || got.Weighted ||
		got.MaxOperationCount != 50 || got.MaxRunningOperationCount != 8 || got.Limits != resource.Infinite || got.Mode != pooltree.FairShare {
		t.Errorf("defaults of a pool: %+v, %v", got, err)
	}
	if got, err := tree.Effective(scheduling.RootPool); err != nil ||
		got.MaxOperationCount != 50000 || got.MaxRunningOperationCount != 2000 || !got.ForbidImmediate {
		t.Errorf("defaults of the root: %+v, %v", got, err)
	}
	if _, err := tree.Effective("x"); !errors.Is(err, pooltree.ErrUnknownPool) {
		t.Errorf("an unknown pool: error %v", err)
	}
	bad := pooltree.TreeOptions{MaxRunningOperationCount: ptr[int64](-1)}
	if _, err := pooltree.New(bad); err == nil {
		t.Error("negative settings are taken")
	}
	twice := []pooltree.Pool{pool("a", scheduling.RootPool), pool("a", scheduling.RootPool)}
	if _, err := pooltree.FromPools(pooltree.Default(), twice); !errors.Is(err, pooltree.ErrPoolExists) {
		t.Errorf("a pool twice: error %v", err)
	}
}

func TestPath(t *testing.T) {
	got, err := tree(t).Path("c")
	if want := []scheduling.PoolName{"c", "b", "a", scheduling.RootPool}; err != nil || !slices.Equal(got, want) {
		t.Errorf("path %v, %v, want %v", got, err, want)
	}
	if got, want := tree(t).Children(scheduling.RootPool), []scheduling.PoolName{"a", "d"}; !slices.Equal(got, want) {
		t.Errorf("children of the root %v, want %v", got, want)
	}
}

// TestRandomEdits holds every tree that edits can make to: all paths end at the
// root, parents come first, and what is there can be made again from its pools.
func TestRandomEdits(t *testing.T) {
	name := rapid.SampledFrom([]scheduling.PoolName{"a", "b", "c", "d", "e", scheduling.RootPool})
	rapid.Check(t, func(t *rapid.T) {
		tree := tree(t)
		edit := func(apply func(*rapid.T) (pooltree.Tree, error)) func(*rapid.T) {
			return func(t *rapid.T) {
				if next, err := apply(t); err == nil {
					tree = next
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": edit(func(t *rapid.T) (pooltree.Tree, error) {
				return tree.Create(pool(name.Draw(t, "name"), name.Draw(t, "parent")))
			}),
			"set": edit(func(t *rapid.T) (pooltree.Tree, error) {
				return tree.Edit(nil, pooltree.Edit{Set: ptr(pool(name.Draw(t, "name"), name.Draw(t, "parent")))})
			}),
			"remove": edit(func(t *rapid.T) (pooltree.Tree, error) {
				return tree.Remove(name.Draw(t, "name"), 0)
			}),
			"": func(t *rapid.T) {
				seen := map[scheduling.PoolName]bool{scheduling.RootPool: true}
				for _, p := range tree.ParentsFirst() {
					if !seen[p.Parent] || seen[p.Name] {
						t.Fatalf("%q comes before its parent %q, or twice", p.Name, p.Parent)
					}
					seen[p.Name] = true
				}
				if len(seen) != len(tree.Pools())+1 {
					t.Fatalf("of %v only %v are below the root", tree.Pools(), seen)
				}
				if _, err := pooltree.FromPools(tree.Options(), tree.ParentsFirst()); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}
