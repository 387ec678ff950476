package scheduler

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling/invarianttest"
)

// TestTreeFollowsGangs draws what becomes of a few gangs for which others have to go. As
// often as not the tree has seen all: then a new leader would make the same, and hold the
// same for the same gang.
func TestTreeFollowsGangs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		g := gangs{chance{t, w}}
		g.begin()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			g.step()
			if err := invarianttest.Check(w.tree.engine); err != nil {
				t.Fatal(err)
			}
			if g.pick(2, "quiet") == 0 {
				w.heal()
				checkQuiet(w)
			}
		}
		w.heal()
		checkQuiet(w)
		checkNothingRefused(w)
	})
}

// gangs draws what becomes of gangs that starve.
type gangs struct{ chance }

func (g gangs) begin() {
	g.w.set(map[string]string{
		"fair_share_starvation_timeout": "1s", "preemptive_scheduling_backoff": "1s", "best_allocation_share_update_period": "1ms",
		"waiting_for_resources_on_node_timeout": g.one([]string{"5s", "1m"}, "hold"), "gang_timeout": g.one([]string{"1s", "10s", "1m"}, "gathers for"),
	})
	g.w.must(create("a", "", 1), create("b", "", 1))
	for i := range 1 + g.pick(2, "nodes") {
		g.w.register(fmt.Sprint("n", i+1), 1, int64(3+g.pick(3, "slots")))
	}
	g.w.runOf("op0", "a", 12, 1)
	g.w.heal()
	g.beat()
}

func (g gangs) step() {
	steps := []func(){g.beat, g.beat, g.plan, g.outcome, g.deliver, g.gang, g.goes, g.goes, g.finish, g.finish, g.steer, g.overdraft, g.interrupt}
	rapid.SampledFrom(steps).Draw(g.T, "step")()
}

func (g gangs) beat() { g.w.beat(time.Duration(1+g.pick(8, "seconds")) * time.Second) }

// gang begins to run, unless there are enough of them.
func (g gangs) gang() {
	running := 0
	for range g.w.operations() {
		running++
	}
	if running < 4 {
		jobs := 1 + g.pick(4, "jobs of the gang")
		g.w.gang(fmt.Sprint("op", g.w.index), g.one([]string{"a", "b"}, "pool"), int32(jobs), int32(g.pick(jobs+1, "size")))
	}
}

// goes ends some of the jobs that have been told to go.
func (g gangs) goes() {
	id := g.operation()
	if jobs := g.w.goers(id); len(jobs) > 0 {
		g.w.finish(id, "aborted", jobs[:1+g.pick(len(jobs), "gone")])
	}
}

func (g gangs) finish() {
	id := g.operation()
	if jobs := g.w.allocations(id); len(jobs) > 0 {
		g.w.finish(id, g.one([]string{"completed", "failed", "failed", "aborted"}, "how"), jobs[:1+g.pick(len(jobs), "ended")])
	}
}
