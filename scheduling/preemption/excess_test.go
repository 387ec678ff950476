package preemption_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// limited is a tree of which everything may be limited.
type limited struct {
	excess *preemption.Excess
	limit  resource.Amounts
	above  *limited
	groups *preemption.Groups
	jobs   []*preemption.Member
}

// usage is that of the jobs at or below l, of all operations, but for those without.
func (l *limited) usage(operations []*limited, without ...*preemption.Member) (sum resource.Amounts) {
	for _, op := range operations {
		below := false
		for up := op; up != nil; up = up.above {
			below = below || up == l
		}
		for _, m := range op.jobs {
			if below && !slices.Contains(without, m) {
				sum = sum.Add(m.Resources)
			}
		}
	}
	return sum
}

// repair tells Repair of those that use more than their limits; levels has those below
// before those above.
func repair(levels, operations []*limited) []*preemption.Member {
	for _, l := range slices.Backward(levels) {
		var above *preemption.Excess
		if l.above != nil {
			above = l.above.excess
		}
		l.excess = above
		if usage := l.usage(operations); !usage.Fits(l.limit) {
			l.excess = &preemption.Excess{Amounts: usage.Sub(l.limit), Above: above}
		}
	}
	var excesses []*preemption.Excess
	for _, l := range levels {
		if l.excess != nil && (l.above == nil || l.excess != l.above.excess) {
			excesses = append(excesses, l.excess)
		}
	}
	var of []preemption.ExcessiveOperation
	for _, op := range operations {
		if op.excess != nil {
			of = append(of, preemption.ExcessiveOperation{Groups: op.groups, Excess: op.excess})
		}
	}
	return preemption.Repair(excesses, of)
}

// operationOf has jobs of these cores, started one a second from a time on; so many of them
// are protected.
func operationOf(above *limited, id string, from, protected int, cores ...float64) *limited {
	op := &limited{limit: resource.Infinite, above: above, groups: &preemption.Groups{}}
	total := resource.Amounts{UserSlots: 100, CPU: 10000}
	op.groups.SetBounds(preemption.Bounds{Demand: resource.Ones, Total: total, Protected: resource.Infinite.With(resource.UserSlots, int64(protected))})
	for i, c := range cores {
		m := &preemption.Member{Job: scheduling.JobID(fmt.Sprint(id, i)), Started: begin.Add(time.Duration(from+i) * time.Second),
			Resources: resource.Amounts{UserSlots: 1, CPU: resource.Cores(c)}}
		op.jobs = append(op.jobs, m)
		op.groups.Add(m)
	}
	return op
}

func jobsOf(members []*preemption.Member) (jobs []scheduling.JobID) {
	for _, m := range members {
		jobs = append(jobs, m.Job)
	}
	return jobs
}

func TestRepair(t *testing.T) {
	cpu := func(cores float64) resource.Amounts {
		return resource.Infinite.With(resource.CPU, int64(resource.Cores(cores)))
	}
	for name, tc := range map[string]struct {
		build func(pool *limited) []*limited
		limit resource.Amounts
		want  []scheduling.JobID
	}{
		"within": {func(p *limited) []*limited { return []*limited{operationOf(p, "a", 0, 9, 1, 1)} }, cpu(2), nil},
		"the latest started, of all operations": {func(p *limited) []*limited {
			return []*limited{operationOf(p, "a", 0, 9, 1, 1), operationOf(p, "b", 1, 9, 1, 1)}
		}, cpu(2), []scheduling.JobID{"b1", "b0"}},
		"preemptible ones before": {func(p *limited) []*limited {
			return []*limited{operationOf(p, "a", 0, 1, 1, 1), operationOf(p, "b", 1, 9, 1, 1)}
		}, cpu(2), []scheduling.JobID{"a1", "b1"}},
		"no multiple of a job":           {func(p *limited) []*limited { return []*limited{operationOf(p, "a", 0, 9, 1, 1, 1)} }, cpu(1.5), []scheduling.JobID{"a2", "a1"}},
		"nothing may be used":            {func(p *limited) []*limited { return []*limited{operationOf(p, "a", 0, 9, 1, 1)} }, cpu(0), []scheduling.JobID{"a1", "a0"}},
		"a small one that does not help": {func(p *limited) []*limited { return []*limited{operationOf(p, "a", 0, 9, 3, 1)} }, cpu(2), []scheduling.JobID{"a0"}},
		"what holds none of it stays":    {func(p *limited) []*limited { return []*limited{operationOf(p, "a", 0, 9, 1, 1, 0)} }, cpu(1), []scheduling.JobID{"a1"}},
		"an operation, and its pool above": {func(p *limited) []*limited {
			a, b := operationOf(p, "a", 0, 9, 1, 1), operationOf(p, "b", 5, 9, 1, 1)
			a.limit = cpu(1)
			return []*limited{a, b}
		}, cpu(2), []scheduling.JobID{"b1", "a1"}},
		"slots go by what the pool needs": {func(p *limited) []*limited {
			// The pool needs the large one to go, without which a has one job too few to exceed its own.
			a := operationOf(p, "a", 0, 9, 4, 1)
			a.limit = resource.Infinite.With(resource.UserSlots, 1)
			return []*limited{a}
		}, cpu(1), []scheduling.JobID{"a0"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &limited{limit: tc.limit}
			operations := tc.build(p)
			got := jobsOf(repair(append(slices.Clone(operations), p), operations))
			if !slices.Equal(got, tc.want) {
				t.Errorf("%v have to go, want %v", got, tc.want)
			}
		})
	}
}

// TestRepairProperties: of any tree, nothing is exceeded without those that go, and with
// any one of them back something would be. Of jobs that are alike in one pool, those that go
// are the first in the order.
func TestRepairProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := func() resource.Amounts {
			l := resource.Infinite
			for _, k := range []resource.Kind{resource.UserSlots, resource.CPU} {
				if rapid.IntRange(0, 2).Draw(t, "limited") == 0 {
					l = l.With(k, rapid.Int64Range(0, 600).Draw(t, "limit")/map[resource.Kind]int64{resource.UserSlots: 100, resource.CPU: 1}[k])
				}
			}
			return l
		}
		root := &limited{limit: limit()}
		pools := []*limited{root}
		for range rapid.IntRange(0, 3).Draw(t, "pools") {
			pools = append(pools, &limited{limit: limit(), above: rapid.SampledFrom(pools).Draw(t, "parent")})
		}
		var operations []*limited
		alike := rapid.Bool().Draw(t, "alike")
		for i := range rapid.IntRange(1, 5).Draw(t, "operations") {
			cores := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 4), func(n int) float64 { return float64(n) / 2 }), 0, 6).Draw(t, "jobs")
			if alike {
				for j := range cores {
					cores[j] = 1
				}
			}
			op := operationOf(rapid.SampledFrom(pools).Draw(t, "pool"), fmt.Sprint(i, "-"), rapid.IntRange(0, 5).Draw(t, "from"), rapid.IntRange(0, 6).Draw(t, "protected"), cores...)
			op.limit = limit()
			operations = append(operations, op)
		}
		levels := slices.Clone(operations)
		for _, p := range slices.Backward(pools) {
			levels = append(levels, p)
		}
		gone := repair(levels, operations)
		for _, l := range levels {
			if usage := l.usage(operations, gone...); !usage.Fits(l.limit) {
				t.Fatalf("%v is used of %v without %d jobs", usage, l.limit, len(gone))
			}
		}
		for i, m := range gone {
			others := slices.Delete(slices.Clone(gone), i, i+1)
			if !slices.ContainsFunc(levels, func(l *limited) bool { return !l.usage(operations, others...).Fits(l.limit) }) {
				t.Fatalf("job %s has to go for nothing", m.Job)
			}
		}
		if alike {
			checkTheFirst(t, root, levels, operations, gone)
		}
	})
}

// checkTheFirst holds the choice to the order, where the root alone is exceeded.
func checkTheFirst(t *rapid.T, root *limited, levels, operations []*limited, gone []*preemption.Member) {
	for _, l := range levels {
		if l != root && !l.usage(operations).Fits(l.limit) {
			return
		}
	}
	var all []*preemption.Member
	for _, op := range operations {
		all = append(all, op.jobs...)
	}
	slices.SortFunc(all, func(a, b *preemption.Member) int {
		return cmp.Or(cmp.Compare(b.Level(), a.Level()), b.Started.Compare(a.Started), cmp.Compare(b.Job, a.Job))
	})
	if !slices.Equal(gone, all[:len(gone)]) {
		t.Fatalf("%v go, want the first of %v", jobsOf(gone), jobsOf(all))
	}
}
