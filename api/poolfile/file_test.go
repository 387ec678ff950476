package poolfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

const example = `
tree: prod
options:
  max_running_operation_count: 500
  main-resource: gpu
pools:
  ads:
    weight: 3
    min_share_resources: {cpu: 100, memory: 400GiB}
    pools:
      ads-prod: {weight: 2, mode: fifo, fifo_sort_parameters: [start_time]}
      ads-test:
  batch:
    integral_guarantees:
      guarantee_type: relaxed
      resource_flow: {cpu: 10.5}
`

// shape is a file in a form that compares.
func shape(f File) map[string]any {
	out := map[string]any{"tree": string(f.Tree)}
	if f.Options != nil {
		out["options"] = option.Write(*f.Options)
	}
	pools := map[string]any{}
	for _, p := range f.Pools {
		pools[string(p.Name)] = map[string]any{"parent": string(p.Parent), "options": option.Write(p.Options)}
	}
	out["pools"] = pools
	return out
}

func TestRead(t *testing.T) {
	f, err := Read([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	root := string(scheduling.RootPool)
	want := map[string]any{
		"tree":    "prod",
		"options": map[string]any{"max_running_operation_count": 500.0, "main_resource": "gpu"},
		"pools": map[string]any{
			"ads": map[string]any{"parent": root, "options": map[string]any{
				"weight": 3.0, "strong_guarantee_resources": map[string]any{"cpu": 100.0, "memory": 400.0 * (1 << 30)},
			}},
			"ads-prod": map[string]any{"parent": "ads", "options": map[string]any{
				"weight": 2.0, "mode": "fifo", "fifo_sort_parameters": []any{"start_time"},
			}},
			"ads-test": map[string]any{"parent": "ads", "options": map[string]any{}},
			"batch": map[string]any{"parent": root, "options": map[string]any{
				"integral_guarantees": map[string]any{"guarantee_type": "relaxed", "resource_flow": map[string]any{"cpu": 10.5}},
			}},
		},
	}
	if diff := cmp.Diff(want, shape(f)); diff != "" {
		t.Error(diff)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nothing":                   {"", "it is empty"},
		"a list":                    {"[]", "an object"},
		"an unknown name":           {"tree: x\npols: {}", "line 2, column 1: pols: unknown option; did you mean pools?"},
		"a pool beside pools":       {"advertising: {}", "advertising: unknown option: use one of tree, options, pools"},
		"an unknown option":         {"pools:\n  ads:\n    wieght: 2", "line 3, column 5: pools.ads.wieght: unknown option; did you mean weight?"},
		"a bad value in a group":    {"pools: {ads: {integral_guarantees: {guarantee_type: always}}}", `pools.ads.integral_guarantees.guarantee_type: "always" is not one of`},
		"a negative weight":         {"pools: {ads: {weight: -1}}", "pools.ads.weight: -1 is not a number from 0"},
		"a tree option that is bad": {"options: {nodes_filter: 'a &'}", "options.nodes_filter: "},
		"a key twice":               {"pools:\n  ads: {}\n  ads: {}", "line 3"},
		"a name twice":              {"pools: {a: {pools: {c: }}, b: {pools: {c: }}}", "pools.b.pools.c: there is a pool of this name at pools.a.pools.c"},
		"too much guaranteed":       {"pools: {a: {strong_guarantee_resources: {cpu: 1}, pools: {b: {strong_guarantee_resources: {cpu: 2}}}}}", "pools.a: strong_guarantee_resources/cpu"},
		"a name that cannot be":     {"pools: {a$b: }", "pools.a$b: pool name"},
		"pools that are a number":   {"pools: 3", "pools: is the number 3, not an object"},
		"no name of the tree":       {"tree: 3", "tree: the name of a tree is needed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read([]byte(test.text))
			var refused *option.Error
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an Error with %q", err, test.want)
			}
		})
	}
}

func TestReadTellsAllFaultsInOrder(t *testing.T) {
	_, err := Read([]byte("pools:\n  b:\n    weight: x\n  a:\n    mode: y\nfoo: 1\n"))
	var refused *option.Error
	if !errors.As(err, &refused) || len(refused.Faults) != 3 {
		t.Fatalf("got %v, want three faults", err)
	}
	for i, want := range []int{3, 5, 6} {
		if refused.Faults[i].Line != want {
			t.Errorf("fault %d: line %d, want %d", i, refused.Faults[i].Line, want)
		}
	}
}

// TestWriteIsReadBack writes files of random trees and reads them again.
func TestWriteIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		f := Of("prod", tree)
		data, err := f.Write()
		if err != nil {
			t.Fatal(err)
		}
		read, err := Read(data)
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		if diff := cmp.Diff(shape(f), shape(read)); diff != "" {
			t.Fatalf("%s in\n%s", diff, data)
		}
		again, err := read.Write()
		if err != nil || string(again) != string(data) {
			t.Fatalf("written again (%v):\n%s\nwas\n%s", err, again, data)
		}
		plan, err := Compare(tree, read, true)
		if err != nil || !plan.Empty() {
			t.Fatalf("a file of the tree changes it: %v %v", err, plan.Lines())
		}
	})
}

// drawTree draws a tree that can be.
func drawTree(t *rapid.T) pooltree.Tree {
	var pools []pooltree.Pool
	parents := []scheduling.PoolName{scheduling.RootPool}
	for _, name := range []scheduling.PoolName{"a", "b-1", "c.d", "true", "7", "null", "~", "ü"} {
		if !rapid.Bool().Draw(t, "there") {
			continue
		}
		document := map[string]any{}
		if rapid.Bool().Draw(t, "weighted") {
			document["weight"] = rapid.Float64Range(0, 1000).Draw(t, "weight")
		}
		if rapid.Bool().Draw(t, "limited") {
			document["resource_limits"] = map[string]any{"cpu": float64(rapid.IntRange(0, 500).Draw(t, "cpu")), "memory": float64(rapid.Int64Range(0, 1<<45).Draw(t, "memory"))}
		}
		if rapid.Bool().Draw(t, "filtered") {
			document["scheduling_tag_filter"] = rapid.SampledFrom([]string{"gpu & !old", "!gpu", "(a | b)"}).Draw(t, "filter")
		}
		if rapid.Bool().Draw(t, "timed") {
			document["fair_share_starvation_timeout"] = rapid.SampledFrom([]string{"30s", "1m", "1m30s"}).Draw(t, "timeout")
		}
		if rapid.Bool().Draw(t, "fifo") {
			document["mode"] = "fifo"
			document["fifo_sort_parameters"] = []any{"start_time", "weight"}
		}
		options, err := pooltree.ReadPoolOptions(document)
		if err != nil {
			t.Fatal(err)
		}
		pools = append(pools, pooltree.Pool{Name: name, Parent: rapid.SampledFrom(parents).Draw(t, "parent"), Options: options})
		parents = append(parents, name)
	}
	options := pooltree.TreeOptions{}
	if rapid.Bool().Draw(t, "options") {
		var err error
		if options, err = pooltree.ReadTreeOptions(map[string]any{"main_resource": "memory", "integral_guarantees": map[string]any{"smooth_period": "2m"}}); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := pooltree.FromPools(options, pools)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("../../examples/pools*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no examples: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, seed := range []string{example, "pools: {a: {pools: {a: }}}", "pools: {a$b: {weight: .nan}}", "options: {nodes_filter: '!((a'}", `{"pools": {"x": null}}`, "a: &b {c: *b}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Read(data)
		if err != nil {
			var refused *option.Error
			if !errors.As(err, &refused) || len(refused.Faults) == 0 {
				t.Fatalf("refused without a fault: %v", err)
			}
			return
		}
		text, err := file.Write()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read(text)
		if err != nil {
			t.Fatalf("%v in what was written:\n%s", err, text)
		}
		if diff := cmp.Diff(shape(file), shape(again)); diff != "" {
			t.Fatalf("%s\n%s", diff, text)
		}
	})
}
