package poolfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/scheduling"
	"weir/scheduling/pooltree"
)

func TestCompare(t *testing.T) {
	now, err := Read([]byte("options: {max_running_operation_count: 100}\npools: {ads: {weight: 2, max_operation_count: 60}, batch: {pools: {old: }}, stay: }"))
	if err != nil {
		t.Fatal(err)
	}
	user := pooltree.Pool{Name: "ann", Parent: "batch", Ephemeral: "ann"}
	tree, err := pooltree.FromPools(*now.Options, append(now.Pools, user))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		file  string
		prune bool
		want  []string
		left  []scheduling.PoolName
		err   string
	}{
		"nothing changes": {
			file: "pools: {ads: {weight: 2, max_operation_count: 60}, batch: {pools: {old: }}, stay: }",
		},
		"an option of a pool": {
			file: "pools: {ads: {weight: 3, resource_limits: {memory: 4GiB}}, batch: {pools: {old: }}, stay: }",
			want: []string{"~ pool ads", "    - max_operation_count: 60 -> default", "    + resource_limits/memory: 4GiB", "    ~ weight: 2 -> 3"},
		},
		"an option of the tree": {
			file: "options: {}\npools: {ads: {weight: 2, max_operation_count: 60}, batch: {pools: {old: }}, stay: }",
			want: []string{"~ options of the tree", "    - max_running_operation_count: 100 -> default"},
		},
		"a pool below a new one": {
			file: "pools: {ads: {weight: 2, max_operation_count: 60}, batch: {pools: {new: {weight: 4, pools: {old: }}}}, stay: }",
			want: []string{"~ pool old: moves from batch to new", "+ pool new below batch", "    + weight: 4"},
		},
		"pools that are not there stay": {
			file: "pools: {ads: {weight: 2, max_operation_count: 60}, batch: }",
			left: []scheduling.PoolName{"stay", "old"},
		},
		"pools that are not there go, and the user's stay": {
			file:  "pools: {ads: {weight: 2, max_operation_count: 60}, batch: }",
			prune: true,
			want:  []string{"- pool old below batch", "- pool stay below <Root>"},
		},
		"a pool that stays has no parent any more": {
			file: "pools: {ads: }", prune: true, err: `pool "ann": parent "batch"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := Read([]byte(test.file))
			if err != nil {
				t.Fatal(err)
			}
			plan, err := Compare(tree, file, test.prune)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got %v, want an error with %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, plan.Lines()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.left, plan.Left); diff != "" {
				t.Error(diff)
			}
		})
	}
}
