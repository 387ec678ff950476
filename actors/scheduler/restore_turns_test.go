package scheduler

import (
	order "cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/scheduling/resource"
)

// ties tell who uses equally much of its fair share, before a plan.
type ties struct {
	// parents are the pools of operations and of pools, used what they use, of fair.
	parents map[string]string
	used    map[string]resource.Amounts
	fair    map[string]float64
	total   resource.Amounts
	// claims are how many jobs of operations have a claim.
	claims map[string]int
}

func tiesOf(t *Tree) ties {
	s := t.Snapshot()
	of := ties{map[string]string{}, map[string]resource.Amounts{}, map[string]float64{}, s.Total, map[string]int{}}
	for _, c := range s.Claims {
		of.claims[string(c.Operation)]++
	}
	for _, p := range s.Pools {
		of.parents[string(p.Name)], of.used[string(p.Name)] = string(p.Parent), p.Shares.Usage
		of.fair[string(p.Name)] = p.Shares.FairShare.MaxComponent()
	}
	for _, op := range s.Operations {
		of.parents[string(op.ID)], of.used[string(op.ID)] = string(op.Pool), op.Shares.Usage
		of.fair[string(op.ID)] = op.Shares.FairShare.MaxComponent()
	}
	return of
}

// explain reports whether plans give everybody as much, or differ from where it is the turn of one of two siblings that
// use equally much of their fair shares; or in the one fewer jobs start, for what is free is
// kept by the turns of parts of jobs.
func (s ties) explain(before, after []proto.Message) bool {
	a, b := turnsOf(before), turnsOf(after)
	if slices.Equal(slices.SortedFunc(slices.Values(a), byOperation), slices.SortedFunc(slices.Values(b), byOperation)) {
		return true
	}
	for i := range min(len(a), len(b)) {
		if a[i].operation != b[i].operation {
			return s.equal(a[i].operation, b[i].operation)
		}
		if s.claims[a[i].operation]--; s.claims[a[i].operation] >= 0 {
			// What a claim holds is usage already.
			continue
		}
		for id := a[i].operation; id != ""; id = s.parents[id] {
			s.used[id] = s.used[id].Add(a[i].needs)
		}
	}
	return len(a) != len(b) && preemptsOf(before) == preemptsOf(after)
}

func preemptsOf(commands []proto.Message) (n int) {
	for _, command := range commands {
		if m, ok := command.(*commandpb.PreemptAllocations); ok {
			n += len(m.GetPreemptions())
		}
	}
	return n
}

// equal reports whether the siblings that decide between two operations use equally much of
// their fair shares.
func (s ties) equal(x, y string) bool {
	x, y = s.siblings(x, y)
	return math.Abs(s.part(x)*s.fair[y]-s.part(y)*s.fair[x]) < 1e-6
}

func (s ties) part(id string) float64 { return resource.Share(s.used[id], s.total).MaxComponent() }

// siblings are those on the ways of two operations from the root that are of one pool.
func (s ties) siblings(x, y string) (of, other string) {
	for of = x; of != ""; of = s.parents[of] {
		for other = y; other != ""; other = s.parents[other] {
			if s.parents[of] == s.parents[other] {
				return of, other
			}
		}
	}
	return x, y
}

// turn is a job of an operation that starts, or for which others have to go.
type turn struct {
	operation string
	needs     resource.Amounts
}

func byOperation(a, b turn) int {
	return order.Or(strings.Compare(a.operation, b.operation), strings.Compare(fmt.Sprint(a.needs), fmt.Sprint(b.needs)))
}

// turnsOf are those of a plan, those that start first.
func turnsOf(commands []proto.Message) (turns []turn) {
	for _, command := range commands {
		switch m := command.(type) {
		case *commandpb.StartAllocations:
			for _, g := range m.GetGrants() {
				turns = append(turns, turn{g.GetOperationId(), g.GetResources().Amounts()})
			}
		case *commandpb.PreemptAllocations:
			claims := map[string]bool{}
			for _, p := range m.GetPreemptions() {
				of := p.GetOrder().GetPreemptedFor()
				if key := fmt.Sprint(of, p.GetOrder().GetMessage()); of != nil && !claims[key] {
					claims[key] = true
					turns = append(turns, turn{of.GetOperationId(), of.GetResources().Amounts()})
				}
			}
		}
	}
	return turns
}
