package preemption_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

var begin = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func allocation(job string, second int, slots int64) *preemption.Member {
	return &preemption.Member{Job: scheduling.JobID(job), Started: begin.Add(time.Duration(second) * time.Second),
		Resources: resource.Amounts{UserSlots: slots}}
}

func preemptible(a *preemption.Member) *preemption.Member {
	new(preemption.Groups).Add(a)
	return a
}

func TestOvercommit(t *testing.T) {
	cases := map[string]struct {
		limit       int64
		allocations []*preemption.Member
		want        []scheduling.JobID
	}{
		"all fit":                        {3, []*preemption.Member{allocation("a", 0, 1), allocation("b", 1, 2)}, nil},
		"the latest goes":                {2, []*preemption.Member{allocation("b", 1, 1), allocation("a", 0, 1), allocation("c", 2, 1)}, []scheduling.JobID{"c"}},
		"a later small one stays":        {3, []*preemption.Member{allocation("a", 0, 2), allocation("b", 1, 2), allocation("c", 2, 1)}, []scheduling.JobID{"b"}},
		"equal times go by id":           {1, []*preemption.Member{allocation("b", 0, 1), allocation("a", 0, 1)}, []scheduling.JobID{"b"}},
		"nothing is left of the node":    {0, []*preemption.Member{allocation("a", 0, 1), allocation("b", 1, 1)}, []scheduling.JobID{"b", "a"}},
		"the most preemptible goes":      {2, []*preemption.Member{preemptible(allocation("a", 0, 1)), allocation("b", 1, 1), allocation("c", 2, 1)}, []scheduling.JobID{"a"}},
		"what needs nothing may stay on": {0, []*preemption.Member{allocation("a", 0, 0)}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := jobsOf(preemption.Overcommit(resource.Amounts{UserSlots: tc.limit}, tc.allocations))
			if !slices.Equal(got, tc.want) {
				t.Errorf("victims %v, want %v", got, tc.want)
			}
		})
	}
}

func TestOvercommitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := resource.Amounts{UserSlots: rapid.Int64Range(0, 8).Draw(t, "slots"), Memory: rapid.Int64Range(0, 20).Draw(t, "memory")}
		var all []*preemption.Member
		for i := range rapid.IntRange(0, 12).Draw(t, "allocations") {
			a := allocation(fmt.Sprint(i), rapid.IntRange(0, 5).Draw(t, "start"), 1)
			a.Resources.Memory = rapid.Int64Range(0, 6).Draw(t, "memory")
			all = append(all, a)
		}
		victims := jobsOf(preemption.Overcommit(limits, slices.Clone(all)))
		if again := jobsOf(preemption.Overcommit(limits, rapid.Permutation(all).Draw(t, "order"))); !slices.Equal(victims, again) {
			t.Fatalf("victims depend on the order: %v and %v", victims, again)
		}
		var kept resource.Amounts
		for _, a := range all {
			if !slices.Contains(victims, a.Job) {
				kept = kept.Add(a.Resources)
			}
		}
		if !kept.Fits(limits) {
			t.Fatalf("%v is kept of %v", kept, limits)
		}
		for _, a := range all {
			if slices.Contains(victims, a.Job) && a.Resources.Add(kept).Fits(limits) {
				t.Fatalf("%+v is preempted and would fit beside %v", a, kept)
			}
		}
	})
}
