package state

import (
	"fmt"
	"google.golang.org/protobuf/proto"
	"strings"
	"testing"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

func storeOf(name string, pools []string, prefixes ...string) *commandpb.EditStore {
	return &commandpb.EditStore{Create: true, Store: &statepb.Store{Name: name, Endpoint: "http://h", AccessKey: "k", Sealed: []byte("x"), Pools: pools, Prefixes: prefixes}}
}

// storesJournal has pools ads, ads-prod below it, and research, and three stores.
func storesJournal(t *testing.T) *journal {
	j := newJournal(t)
	j.must(
		createPool("ads", "", nil), createPool("ads-prod", "ads", nil), createPool("research", "", nil),
		storeOf("ads", []string{"ads"}, "s3://ads", "s3://shared/ads"),
		storeOf("deep", []string{"research"}, "s3://ads/research"),
		storeOf("all", []string{"<Root>"}, "s3://shared/all"),
	)
	return j
}

// TestStoresOfObjects (T3) finds the store of an object by the longest prefix. What is partly in a store
// is in none.
func TestStoresOfObjects(t *testing.T) {
	j := storesJournal(t)
	for path, want := range map[string]string{
		"/data/x": "", "s3://other/x": "", "s3://adsx/x": "", "s3://shared/adsx": "", "s3://shared/x": "",
		"s3://ads/x": "ads", "s3://ads/x/*.txt": "ads", "s3://ads/res": "ads", "s3://ads/research": "deep", "s3://ads/research/x": "deep", "s3://ads/research/": "deep",
		"s3://shared/ads/": "ads", "s3://shared/all/a*": "all",
		"s3://ads/":         `it is partly in store "deep", which has "s3://ads/research"`,
		"s3://ads/res*":     `partly in store "deep"`,
		"s3://ads/{task}":   `partly in store "deep"`,
		"s3://shared/":      `partly in store "ads"`,
		"s3://shared/*/x":   `partly in store "ads"`,
		"s3://shared/al[l]": `partly in store "all"`,
		"s3://x/../ads/y":   ". or .. as a name",
	} {
		store, err := StoresIn(j.state).Of(path)
		got := store.GetName()
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestStoresOfOperations (T3) refuses starts and moves of operations that would read or write in a store
// that is not for their pools, whatever names the objects.
func TestStoresOfOperations(t *testing.T) {
	specs := map[string]func(spec *statepb.OperationSpec, path string){
		"a file": func(spec *statepb.OperationSpec, path string) {
			spec.Tasks[0].Files = []*statepb.FileSpec{{Source: path, Path: "f"}}
		},
		"a kept file": func(spec *statepb.OperationSpec, path string) {
			spec.Tasks[0].Outputs = []*statepb.KeptFile{{Path: "f", Destination: path}}
		},
		"input": func(spec *statepb.OperationSpec, path string) {
			spec.Type, spec.Map = "map", &statepb.MapSpec{InputPaths: []string{"/x", path}, OutputPath: "/y"}
		},
		"output": func(spec *statepb.OperationSpec, path string) {
			spec.Type, spec.Map = "map", &statepb.MapSpec{InputPaths: []string{"/x"}, OutputPath: path}
		},
	}
	for name, set := range specs {
		t.Run(name, func(t *testing.T) {
			j := storesJournal(t)
			start := func(id, pool, path string) *commandpb.Refusal {
				spec := specOf(1)
				spec.Pool = pool
				set(spec, path)
				result, _ := j.apply(&commandpb.StartOperation{OperationId: id, User: "ann", Spec: spec})
				return result.GetRefusal()
			}
			for i, test := range []struct {
				pool, path string
				allowed    bool
			}{
				{"ads", "s3://ads/x", true}, {"ads-prod", "s3://ads/x", true}, {"research", "s3://ads/x", false}, {"", "s3://ads/x", false},
				{"research", "s3://ads/research/x", true}, {"ads", "s3://ads/research/x", false}, {"research", "s3://shared/all/x", true},
				{"research", "s3://shared/", false}, {"research", "s3://other/x", true}, {"research", "/data", true},
			} {
				refused := start(fmt.Sprint("op-", i), test.pool, test.path)
				if (refused == nil) != test.allowed || refused != nil && refused.GetCode() != CodeStoreDenied {
					t.Errorf("%s in pool %q: %v, want allowed %t", test.path, test.pool, refused, test.allowed)
				}
			}
			if got := start("said", "research", "s3://ads/x").GetMessage(); got != `start operation: "s3://ads/x" is in store "ads", which operations in pool "research" of tree "default" may not use: it is for pools ads of tree "default" (weir store set ads --pool ...)` {
				t.Errorf("refused with %q", got)
			}
			// It may move where the store is allowed, and nowhere else.
			for pool, allowed := range map[string]bool{"ads-prod": true, "research": false} {
				result, _ := j.apply(&commandpb.UpdateOperation{OperationId: "op-0", Changes: []*commandpb.OperationChange{{Pool: &pool}}})
				if refused := result.GetRefusal(); (refused == nil) != allowed {
					t.Errorf("moved to %s: %v", pool, refused)
				}
			}
			// A store that is taken from its pool is closed to those that run, by the rights of now.
			if store, err := StoresIn(j.state).For(j.operation("op-0"), "s3://ads/x"); err != nil || store.GetName() != "ads" {
				t.Errorf("for an operation in its pool: %v, %v", store, err)
			}
			j.must(&commandpb.EditStore{Store: &statepb.Store{Name: "ads", Pools: []string{"research"}}})
			if store, err := StoresIn(j.state).For(j.operation("op-0"), "s3://ads/x"); err == nil || !strings.Contains(err.Error(), `in store "ads"`) {
				t.Errorf("for an operation that lost it: %v, %v", store, err)
			}
		})
	}
}

// TestPoolsOfStoresStay (T3): a pool that a store names is neither removed nor renamed, nor is its
// tree removed; a pool of the same name in another tree has nothing of the store.
func TestPoolsOfStoresStay(t *testing.T) {
	j := storesJournal(t)
	j.must(treeEdit("", map[string]any{"nodes_filter": "!gpu"}), &commandpb.CreateTree{Tree: "gpu", Options: optionsOf(map[string]any{"nodes_filter": "gpu"})},
		&commandpb.EditTree{Tree: "gpu", Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: "ads"}}}}})
	elsewhere := storeOf("gpu", []string{"ads"}, "s3://gpu")
	elsewhere.Store.Tree = "gpu"
	j.must(elsewhere)
	for name, cmd := range map[string]proto.Message{
		"removed": &commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Remove{Remove: "ads-prod"}}, {Edit: &commandpb.TreeEdit_Remove{Remove: "ads"}}}},
		"renamed": &commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Rename{Rename: &commandpb.RenamePool{From: "ads", To: "now"}}}}},
		"tree":    &commandpb.RemoveTree{Tree: "gpu"},
	} {
		result, _ := j.apply(cmd)
		if refused := result.GetRefusal(); refused.GetCode() != CodePoolInUse || !strings.Contains(refused.GetMessage(), "weir store set") {
			t.Errorf("%s: %v, want it refused", name, refused)
		}
	}
	for path, trees := range map[string][2]bool{"s3://ads/x": {true, false}, "s3://gpu/x": {false, true}} {
		for i, tree := range []string{"default", "gpu"} {
			spec := specOf(1)
			spec.Pool, spec.PoolTrees = "ads", []string{tree}
			spec.Tasks[0].Files = []*statepb.FileSpec{{Source: path, Path: "f"}}
			result, _ := j.apply(&commandpb.StartOperation{OperationId: fmt.Sprint(path, i), User: "ann", Spec: spec})
			if refused := result.GetRefusal(); (refused == nil) != trees[i] || refused != nil && refused.GetCode() != CodeStoreDenied {
				t.Errorf("%s in tree %s: %v, want allowed %t", path, tree, refused, trees[i])
			}
		}
	}
}

func TestStoresThatAreRefused(t *testing.T) {
	j := storesJournal(t)
	many := make([]string, MaxPlacesPerStore+1)
	for i := range many {
		many[i] = fmt.Sprintf("s3://b%d", i)
	}
	twice := storeOf("x", []string{"ads", "ads"}, "s3://x")
	both := storeOf("ads", nil)
	both.Delete = true
	for name, test := range map[string]struct {
		edit *commandpb.EditStore
		want string
	}{
		"a bad name":             {storeOf("a/b", []string{"ads"}, "s3://x"), `store "a/b": must be`},
		"there already":          {storeOf("ads", []string{"ads"}, "s3://x"), "there is one already"},
		"made and removed":       {both, "at once"},
		"unknown":                {&commandpb.EditStore{Store: &statepb.Store{Name: "x"}}, "there is none"},
		"remove an unknown":      {&commandpb.EditStore{Store: &statepb.Store{Name: "x"}, Delete: true}, "there is none"},
		"without a secret":       {&commandpb.EditStore{Create: true, Store: &statepb.Store{Name: "x", Endpoint: "http://h", AccessKey: "k", Pools: []string{"ads"}, Prefixes: []string{"s3://x"}}}, "are required"},
		"no prefix":              {storeOf("x", []string{"ads"}), "0 prefixes"},
		"too many prefixes":      {storeOf("x", []string{"ads"}, many...), "101 prefixes"},
		"no pool":                {storeOf("x", nil, "s3://x"), "0 pools"},
		"a pool twice":           {twice, `pool "ads" is listed twice`},
		"a pool that is not":     {storeOf("x", []string{"none"}, "s3://x"), `tree "default" has no pool "none" that stays`},
		"a path":                 {storeOf("x", []string{"ads"}, "/x"), `prefix "/x"`},
		"all stores":             {storeOf("x", []string{"ads"}, "s3://"), `prefix "s3://"`},
		"a pattern":              {storeOf("x", []string{"ads"}, "s3://x/*"), "without wildcards"},
		"a slash":                {storeOf("x", []string{"ads"}, "s3://x/"), "slash"},
		"of another":             {storeOf("x", []string{"ads"}, "s3://ads"), `belongs to store "ads"`},
		"changed to one's other": {&commandpb.EditStore{Store: &statepb.Store{Name: "all", Prefixes: []string{"s3://ads"}}}, `belongs to store "ads"`},
	} {
		t.Run(name, func(t *testing.T) {
			result, _ := j.apply(test.edit)
			if said := result.GetRefusal().GetMessage(); !strings.Contains(said, test.want) || said == "" {
				t.Errorf("refused with %q, want %q", said, test.want)
			}
		})
	}
}
