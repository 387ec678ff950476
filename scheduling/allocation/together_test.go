package allocation_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// has is so many nodes of so many slots with so much memory.
func has(nodes, slots, memory int64) allocation.Hosts {
	return allocation.Hosts{Limits: resource.Amounts{UserSlots: slots, Memory: memory}, Nodes: nodes}
}

// jobs are so many that need so many slots and so much memory each.
func jobs(n, slots, memory int64) allocation.Task {
	return allocation.Task{Pending: n, PerJob: resource.Amounts{UserSlots: slots, Memory: memory}}
}

func TestTogether(t *testing.T) {
	for name, tc := range map[string]struct {
		tasks []allocation.Task
		on    []allocation.Hosts
		jobs  int64
		want  allocation.Lack
	}{
		"nothing is to start":   {nil, []allocation.Hosts{has(1, 4, 10)}, 0, allocation.Lack{}},
		"all of them fit":       {[]allocation.Task{jobs(8, 1, 2)}, []allocation.Hosts{has(2, 4, 10)}, 8, allocation.Lack{}},
		"there is no node":      {[]allocation.Task{jobs(8, 1, 2)}, nil, 0, allocation.Lack{Resource: resource.Memory, Needs: 16, Each: 2}},
		"too few nodes":         {[]allocation.Task{jobs(9, 1, 2)}, []allocation.Hosts{has(2, 4, 10)}, 8, allocation.Lack{Resource: resource.UserSlots, Needs: 9, Each: 1, Has: 8}},
		"too little memory":     {[]allocation.Task{jobs(8, 1, 4)}, []allocation.Hosts{has(2, 4, 10)}, 4, allocation.Lack{Resource: resource.Memory, Needs: 32, Each: 4, Has: 20}},
		"too little of two":     {[]allocation.Task{jobs(40, 1, 4)}, []allocation.Hosts{has(2, 4, 10)}, 4, allocation.Lack{Resource: resource.Memory, Needs: 160, Each: 4, Has: 20}},
		"in pieces too small":   {[]allocation.Task{jobs(3, 3, 1)}, []allocation.Hosts{has(2, 5, 10)}, 2, allocation.Lack{Resource: resource.UserSlots, Needs: 9, Each: 3, Has: 10}},
		"in pieces of two ends": {[]allocation.Task{jobs(5, 1, 6)}, []allocation.Hosts{has(1, 1, 50), has(3, 9, 10)}, 4, allocation.Lack{Resource: resource.Memory, Needs: 30, Each: 6, Has: 80}},
		"some of them are too large": {[]allocation.Task{jobs(2, 1, 60), jobs(1, 1, 2)}, []allocation.Hosts{has(1, 4, 60), has(9, 4, 50)},
			2, allocation.Lack{Resource: resource.Memory, Needs: 120, Each: 60, Has: 510}},
		"large and small ones": {[]allocation.Task{jobs(1, 1, 60), jobs(3, 1, 20)}, []allocation.Hosts{has(1, 3, 60), has(1, 1, 100)}, 4, allocation.Lack{}},
	} {
		t.Run(name, func(t *testing.T) {
			fit := allocation.Together(tc.tasks, slices.Values(tc.on))
			if fit.Jobs != tc.jobs || fit.All() != (tc.want == allocation.Lack{}) {
				t.Fatalf("%+v fit, want %d", fit, tc.jobs)
			}
			if fit.All() {
				return
			}
			for _, h := range tc.on {
				tc.want.Nodes += h.Nodes
			}
			if lack := fit.Lacks(slices.Values(tc.on)); lack != tc.want {
				t.Errorf("what lacks is %+v, want %+v", lack, tc.want)
			}
		})
	}
}

// TestTogetherSaysNeverOnlyOfWhatNeverFits: what can be put onto the nodes in any way is not
// said not to fit, and of alike jobs the bound is what fits.
func TestTogetherSaysNeverOnlyOfWhatNeverFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var on []allocation.Hosts
		var rooms []resource.Amounts
		for range rapid.IntRange(0, 3).Draw(t, "kinds of nodes") {
			h := has(rapid.Int64Range(1, 2).Draw(t, "nodes"), rapid.Int64Range(0, 4).Draw(t, "slots"), rapid.Int64Range(0, 9).Draw(t, "memory"))
			on = append(on, h)
			for range h.Nodes {
				rooms = append(rooms, h.Limits)
			}
		}
		var tasks []allocation.Task
		var each []resource.Amounts
		for range rapid.IntRange(1, 3).Draw(t, "tasks") {
			task := jobs(rapid.Int64Range(0, 3).Draw(t, "jobs"), 1, rapid.Int64Range(1, 6).Draw(t, "memory of a job"))
			tasks = append(tasks, task)
			for range task.Pending {
				each = append(each, task.PerJob)
			}
		}
		got, fit := allocation.Together(tasks, slices.Values(on)), mostOf(each, rooms, map[string]int64{})
		switch {
		case got.Of != int64(len(each)) || got.Jobs < fit:
			t.Fatalf("at most %d of %d jobs are said to fit, and %d of %d do", got.Jobs, got.Of, fit, len(each))
		case len(tasks) == 1 && got.Jobs != fit:
			t.Fatalf("%d alike jobs are said to fit, and %d do", got.Jobs, fit)
		case !got.All() && got.Lacks(slices.Values(on)).Each == 0:
			t.Fatalf("%+v does not say what lacks", got.Lacks(slices.Values(on)))
		}
	})
}

// mostOf is how many of the jobs can be put into the rooms, by trying all ways.
func mostOf(jobs, rooms []resource.Amounts, known map[string]int64) (most int64) {
	if len(jobs) == 0 {
		return 0
	}
	key := fmt.Sprint(len(jobs), rooms)
	if n, found := known[key]; found {
		return n
	}
	most = mostOf(jobs[1:], rooms, known)
	for i, room := range rooms {
		if jobs[0].Fits(room) {
			rooms[i] = room.Sub(jobs[0])
			most = max(most, 1+mostOf(jobs[1:], rooms, known))
			rooms[i] = room
		}
	}
	known[key] = most
	return most
}
