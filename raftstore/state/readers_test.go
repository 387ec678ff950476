package state

import (
	"fmt"
	"slices"
	"testing"

	"weir/messages/statepb"
	"weir/scheduling"
)

// TestReaders shows what readers are given for what is not there.
func TestReaders(t *testing.T) {
	j := busy(t)
	s := j.state
	if _, ok := s.Operation("gone"); ok {
		t.Error("found an operation that is not there")
	}
	if _, ok := s.OperationByMutation("ann", false, ""); ok {
		t.Error("found an operation by no mutation id")
	}
	if _, ok := s.OperationByAlias("*bob"); ok {
		t.Error("found an operation by an alias that none has")
	}
	if _, ok := s.Node("gone"); ok || !s.NodeUsage("gone").IsZero() {
		t.Error("found a node that is not there")
	}
	if o, ok := s.OperationByAlias("*ann"); !ok || o.GetId() != "ann" {
		t.Errorf("alias *ann leads to %v", o)
	}
	if _, _, ok := s.Cookies("gone", "t"); ok {
		t.Error("found the cookies of an operation that is not there")
	}
	if _, _, ok := s.Cookies("ann", "gone"); ok {
		t.Error("found the cookies of a task that is not there")
	}
	pending, completed, ok := s.Cookies("ann", "t")
	if !ok || pending.Len() != 2 || completed.Len() != 0 {
		t.Errorf("cookies of ann: %v pending, %v completed", pending.Intervals(), completed.Intervals())
	}
	if got := jobsOf(s.AllocationsOfOperation("ann")); !slices.Equal(got, []string{"ann-0", "ann-1"}) {
		t.Errorf("allocations of ann: %v", got)
	}
	if got := jobsOf(s.AllocationsOfNode("n1")); !slices.Equal(got, []string{"ann-0", "ann-1", "ending-0"}) {
		t.Errorf("allocations of n1: %v", got)
	}
	if got := len(s.AllocationsOfNode("gone")) + len(s.AllocationsOfOperation("gone")); got != 0 {
		t.Errorf("%d allocations of what is not there", got)
	}
	var order, inProgress []string
	for o := range s.Operations() {
		order = append(order, o.GetId())
	}
	for o := range s.InProgress() {
		inProgress = append(inProgress, o.GetId())
	}
	want := []string{"new", "waiting", "made", "ann", "held", "ending", "done"}
	if !slices.Equal(order, want) || !slices.Equal(inProgress, want[:6]) {
		t.Errorf("operations %v, in progress %v, want %v and all but the last", order, inProgress, want)
	}
	for _, live := range []bool{false, true} {
		for _, n := range []int{1, 2, 100} {
			var pages []string
			for before := uint64(0); ; {
				some, next := OperationsBefore(s, before, n, live)
				if len(some) == 0 {
					break
				}
				for _, o := range some {
					pages = append(pages, o.GetId())
				}
				if at, known := NumberOf(s, scheduling.OperationID(pages[len(pages)-1])); !known || at != next {
					t.Errorf("%s has number %d, %t, want %d", pages[len(pages)-1], at, known, next)
				}
				before = next
			}
			slices.Reverse(pages)
			if of := map[bool][]string{false: order, true: inProgress}[live]; !slices.Equal(pages, of) {
				t.Errorf("in progress %t, %d at a time: %v, want %v", live, n, pages, of)
			}
		}
	}
	if some, next := EndedBefore(s, 0, 3); len(some) != 1 || some[0].GetId() != "done" {
		t.Errorf("ended: %v", some)
	} else if at, known := EndOf(s, "done"); !known || at != next {
		t.Errorf("done has number %d, %t, want %d", at, known, next)
	}
	if some, _ := EndedBefore(mustRestore(t, s.Freeze()), 0, 3); len(some) != 1 || some[0].GetId() != "done" {
		t.Errorf("ended, after a restart: %v", some)
	}
	if _, known := EndOf(s, "ann"); known {
		t.Error("an operation in progress has a place among those that have ended")
	}
	for range s.Operations() {
		break
	}
	_, counts, ok := s.Pools(scheduling.DefaultTree)
	if !ok || counts["small"].Running != 1 {
		t.Errorf("pools count %v", counts)
	}
	if _, ok := s.Tree("gone"); ok || len(s.Trees()) != 1 || len(s.Nodes()) != 2 {
		t.Errorf("%d trees, %d nodes", len(s.Trees()), len(s.Nodes()))
	}
	if want := (Counts{Operations: 7, InProgress: 6, Archived: 1, Allocations: 3, Nodes: 2, NodesOnline: 1, Trees: 1, Pools: 3}); s.Counts() != want {
		t.Errorf("counts %+v, want %+v", s.Counts(), want)
	}
}

func jobsOf(allocations []*statepb.Allocation) []string {
	jobs := make([]string, len(allocations))
	for i, a := range allocations {
		jobs[i] = a.GetJobId()
	}
	return jobs
}

// TestIndexesOnlyGrow shows that a log that is applied twice stops the process.
func TestIndexesOnlyGrow(t *testing.T) {
	j := newJournal(t)
	j.must(nodeOf("n1", 1))
	defer func() {
		if r := recover(); r == nil {
			t.Error("an index below the last one was applied")
		}
	}()
	j.state.Apply(1, nodeOf("n2", 1))
}

// TestNoCommand shows that what is no command stops the process.
func TestNoCommand(t *testing.T) {
	defer func() {
		if r := recover(); r == nil {
			t.Error("a message that is no command was applied")
		}
	}()
	New().Apply(1, &statepb.Node{})
}

// TestFirstAllocations wants the beginning of the list of an operation's allocations, however many there are.
func TestFirstAllocations(t *testing.T) {
	o := &operation{version: &version{record: &statepb.Operation{Id: "o"}}, allocations: map[scheduling.JobID]*statepb.Allocation{}}
	for i := range 100 {
		id := fmt.Sprint("j", i)
		o.allocations[scheduling.JobID(id)] = &statepb.Allocation{JobId: id, GrantIndex: uint64(i*7%100) / 3, Task: fmt.Sprint("t", i%2)}
	}
	s := &State{operations: map[scheduling.OperationID]*operation{"o": o}}
	for _, task := range []string{"", "t1"} {
		of := func(a *statepb.Allocation) bool { return task == "" || task == a.GetTask() }
		all := slices.DeleteFunc(s.AllocationsOfOperation("o"), func(a *statepb.Allocation) bool { return !of(a) })
		for n := 1; n <= 101; n++ {
			first, count := FirstAllocations(s, "o", n, of)
			if got, want := jobsOf(first), jobsOf(all[:min(n, len(all))]); !slices.Equal(got, want) || count != len(all) {
				t.Fatalf("the first %d of task %q: %v of %d, want %v of %d", n, task, got, count, want, len(all))
			}
		}
	}
}
