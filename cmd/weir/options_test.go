package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/scheduling/pooltree"
)

func TestAssignments(t *testing.T) {
	for name, test := range map[string]struct {
		given, unset []string
		want         map[string]any
		refusal      string
	}{
		"a number":                 {given: []string{"weight=3"}, want: map[string]any{"weight": 3.0}},
		"- is _, and an alias":     {given: []string{"min-share-resources.cpu=1.5"}, want: map[string]any{"strong_guarantee_resources/cpu": 1.5}},
		"text as it is":            {given: []string{"scheduling_tag_filter=!old & gpu"}, want: map[string]any{"scheduling_tag_filter": "!old & gpu"}},
		"a time":                   {given: []string{"fair_share_starvation_timeout=30s"}, want: map[string]any{"fair_share_starvation_timeout": "30s"}},
		"a list":                   {given: []string{"fifo_sort_parameters=[start_time]"}, want: map[string]any{"fifo_sort_parameters": []any{"start_time"}}},
		"an object":                {given: []string{"resource_limits={cpu: 2, memory: 4GiB}"}, want: map[string]any{"resource_limits": map[string]any{"cpu": 2.0, "memory": "4GiB"}}},
		"in a group":               {given: []string{"integral_guarantees/guarantee_type=burst"}, want: map[string]any{"integral_guarantees/guarantee_type": "burst"}},
		"the default":              {given: []string{"weight="}, unset: []string{"mode"}, want: map[string]any{"weight": nil, "mode": nil}},
		"no =":                     {given: []string{"weight"}, refusal: "missing ="},
		"an unknown option":        {given: []string{"wieght=1"}, refusal: "did you mean weight?"},
		"twice":                    {given: []string{"weight=1", "weight=2"}, refusal: "option weight is given twice"},
		"twice, by its other name": {given: []string{"min_share_resources={cpu: 1}"}, unset: []string{"strong_guarantee_resources"}, refusal: "is given twice"},
		"not a number":             {given: []string{"weight=heavy"}, refusal: "not a number"},
		"no mode":                  {given: []string{"mode=lifo"}, refusal: "not one of fair_share, fifo"},
	} {
		t.Run(name, func(t *testing.T) {
			values, err := assignments[pooltree.PoolOptions](test.given, test.unset)
			if test.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), test.refusal) {
					t.Errorf("got %v, want a refusal with %s", err, test.refusal)
				}
				return
			}
			got := map[string]any{}
			for _, v := range values {
				got[v.path] = v.value
			}
			if err != nil || cmp.Diff(test.want, got) != "" {
				t.Errorf("%v: %s", err, cmp.Diff(test.want, got))
			}
		})
	}
}

// TestChangesAreSaid: the line that tells what was changed says of each option what it is now.
func TestChangesAreSaid(t *testing.T) {
	for want, given := range map[string][]string{
		"weight=3, max_share_ratio=0.5":                 {"weight=3", "max_share_ratio=0.5"},
		"weight back to its default":                    {"weight="},
		"pool=ads, weight back to its default":          {"weight=", "pool=ads"},
		"pool=ads":                                      {"pool=ads"},
		"weight=3, max_share_ratio back to its default": {"weight=3", "max_share_ratio="},
	} {
		_, _, done, err := changeOf[pooltree.OperationOptions]("pool", given, nil)
		if err != nil || done != want {
			t.Errorf("%v: got %q, %v, want %q", given, done, err, want)
		}
	}
}

func TestNodesOf(t *testing.T) {
	for text, want := range map[string]int64{"+10x{cpu: 32, memory: 128GiB}": 10, "-2x{cpu: 1}": -2, "10x{cpu: 1}": 0, "+x{cpu: 1}": 0, "+0x{cpu: 1}": 0, "+1x{cores: 1}": 0, "+1": 0,
		"+1x{cpu: 1, tags: ssd}": 0} {
		n, err := nodesOf(text, true)
		if n.Count != want || (err == nil) != (want != 0) {
			t.Errorf("%s: %d and %v, want %d", text, n.Count, err, want)
		}
	}
	if n, err := nodesOf("+3x{cpu: 1, tags: [ssd, rack7]}", true); err != nil || n.Count != 3 || !slices.Equal(n.Tags, []string{"ssd", "rack7"}) {
		t.Errorf("nodes with tags: %+v and %v", n, err)
	}
}
