package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weir/scheduling/lifecycle"
)

// memoryEpoch is when the guards of tests begin.
var memoryEpoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// use is a job that began so many seconds after the epoch.
func use(id string, used, reserve int64, start int) MemoryUse {
	return MemoryUse{Job: id, Used: used << 20, Reserve: reserve << 20, Start: memoryEpoch.Add(time.Duration(start) * time.Second)}
}

func leaving(job MemoryUse, in time.Duration) MemoryUse {
	job.Deadline = memoryEpoch.Add(time.Hour + in)
	return job
}

// guardTimeout is how long a node may be full while all jobs are within their reserves.
const guardTimeout = 5 * time.Minute

// guardCase is a node, its jobs, and who has to leave.
type guardCase struct {
	node NodeMemory
	jobs []MemoryUse
	// full is how long the node has been as it is.
	full time.Duration
	want []string
}

// decideAll has a guard with an overcommit timeout of guardTimeout decide each case.
func decideAll(t *testing.T, cases map[string]guardCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if test.node.Limit == 0 {
				test.node.Limit = 1000 << 20
			}
			guard := NewMemoryGuard(50<<20, guardTimeout)
			now := memoryEpoch.Add(time.Hour)
			if test.full > 0 {
				if early := guard.Decide(now.Add(-test.full), test.node, test.jobs); len(early) > 0 {
					t.Fatalf("at first %v", early)
				}
			}
			var got []string
			for _, e := range guard.Decide(now, test.node, test.jobs) {
				got = append(got, e.Job+":"+e.Reason.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Decide (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMemoryGuardDecides has nodes whose jobs use more than the node has.
func TestMemoryGuardDecides(t *testing.T) {
	decideAll(t, map[string]guardCase{
		"a job above its reserve on a node with free memory may finish": {
			jobs: []MemoryUse{use("a", 600, 100, 1), use("b", 100, 200, 2)},
		},
		"the largest excess goes, not the largest job": {
			jobs: []MemoryUse{use("big", 500, 480, 1), use("far", 300, 100, 2), use("within", 200, 200, 3)},
			want: []string{"far:resource_overdraft"},
		},
		"of equal excesses the youngest goes": {
			jobs: []MemoryUse{use("old", 500, 300, 1), use("young", 500, 300, 2)},
			want: []string{"young:resource_overdraft"},
		},
		"as many go as it takes": {
			jobs: []MemoryUse{use("a", 700, 100, 1), use("b", 700, 200, 2), use("c", 700, 300, 3)},
			want: []string{"a:resource_overdraft", "b:resource_overdraft"},
		},
		"the watermark is kept free": {
			jobs: []MemoryUse{use("a", 500, 400, 1), use("b", 480, 500, 2)},
			want: []string{"a:resource_overdraft"},
		},
		"jobs within their reserves may use the watermark": {
			jobs: []MemoryUse{use("a", 500, 500, 1), use("b", 480, 500, 2)}, full: time.Hour,
		},
		"what is about to be killed makes room": {
			jobs: []MemoryUse{leaving(use("a", 800, 100, 1), 0), use("b", 700, 200, 2)},
		},
		"what leaves in a minute does not, and may have to leave now": {
			jobs: []MemoryUse{leaving(use("a", 800, 100, 1), time.Minute), use("b", 700, 200, 2)},
			want: []string{"a:resource_overdraft"},
		},
		"what could not be killed makes no room, and is not killed again": {
			jobs: []MemoryUse{leaving(use("a", 800, 100, 1), -time.Minute), use("b", 700, 200, 2)},
			want: []string{"b:resource_overdraft"},
		},
		"nobody above its reserve: not yet": {
			jobs: []MemoryUse{use("a", 600, 600, 1), use("b", 600, 600, 2)}, full: guardTimeout - time.Second,
		},
		"nobody above its reserve for long: the youngest": {
			jobs: []MemoryUse{use("a", 600, 600, 1), use("b", 600, 600, 3), use("c", 600, 600, 2)}, full: guardTimeout,
			want: []string{"b:node_resource_overcommit", "c:node_resource_overcommit"},
		},
		"no more than it takes: the watermark is for others": {
			jobs: []MemoryUse{use("a", 490, 490, 1), use("b", 490, 490, 2), use("c", 100, 100, 3)}, full: guardTimeout,
			want: []string{"c:node_resource_overcommit"},
		},
		"a node that was made smaller: first who is above its reserve": {
			node: NodeMemory{Limit: 300 << 20},
			jobs: []MemoryUse{use("a", 300, 300, 1), use("b", 300, 100, 2)},
			want: []string{"b:resource_overdraft"},
		},
	})
}

// TestMemoryGuardHeedsPressure has nodes that are under memory pressure.
func TestMemoryGuardHeedsPressure(t *testing.T) {
	decideAll(t, map[string]guardCase{
		"pressure takes one job above its reserve": {
			node: NodeMemory{Limit: 1000 << 20, Pressure: "it hurts"},
			jobs: []MemoryUse{use("a", 100, 50, 1), use("b", 120, 50, 2)},
			want: []string{"b:resource_overdraft"},
		},
		"pressure waits for who leaves": {
			node: NodeMemory{Limit: 1000 << 20, Pressure: "it hurts"},
			jobs: []MemoryUse{use("a", 100, 50, 1), leaving(use("b", 120, 50, 2), 0)},
		},
		"pressure spares jobs within their reserves for a while": {
			node: NodeMemory{Limit: 1000 << 20, Pressure: "it hurts"},
			jobs: []MemoryUse{use("a", 100, 100, 1), use("b", 120, 120, 2)}, full: guardTimeout - time.Second,
		},
		"pressure that lasts takes the youngest, one at a time": {
			node: NodeMemory{Limit: 1000 << 20, Pressure: "it hurts"},
			jobs: []MemoryUse{use("a", 100, 100, 1), use("b", 120, 120, 2)}, full: guardTimeout,
			want: []string{"b:node_resource_overcommit"},
		},
	})
}

func TestMemoryGuardSaysWhy(t *testing.T) {
	node := NodeMemory{Limit: 1000 << 20}
	jobs := []MemoryUse{use("a", 700, 100, 1), use("b", 500, 500, 2)}
	evictions := NewMemoryGuard(0, time.Minute).Decide(memoryEpoch, node, jobs)
	if len(evictions) != 1 {
		t.Fatalf("%d leave, want one", len(evictions))
	}
	want := map[string]string{"resource": "memory", "reserve": "104857600", "usage": "734003200", "node_usage": "1258291200", "node_memory": "1048576000"}
	if diff := cmp.Diff(want, evictions[0].Attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if m := evictions[0].Message; m != "memory overdraft: the job uses 700.0 MiB, more than its reserve of 100.0 MiB, and jobs of the node use 1200.0 MiB of its 1000.0 MiB" {
		t.Errorf("message %q", m)
	}
	guard := NewMemoryGuard(0, time.Minute)
	crowd := []MemoryUse{use("a", 700, 700, 1), use("b", 500, 500, 2)}
	guard.Decide(memoryEpoch, node, crowd)
	evictions = guard.Decide(memoryEpoch.Add(time.Minute), node, crowd)
	if len(evictions) != 1 || !strings.Contains(evictions[0].Message, "for 1m0s") || !strings.Contains(evictions[0].Message, "the youngest") {
		t.Errorf("evictions %v", evictions)
	}
}

func TestMemoryGuardForgetsAnOvercommitThatPassed(t *testing.T) {
	guard := NewMemoryGuard(0, time.Minute)
	full, node := []MemoryUse{use("a", 700, 700, 1), use("b", 500, 500, 2)}, NodeMemory{Limit: 1000 << 20}
	guard.Decide(memoryEpoch, node, full)
	guard.Decide(memoryEpoch.Add(30*time.Second), node, full[:1])
	guard.Decide(memoryEpoch.Add(31*time.Second), node, full)
	if evictions := guard.Decide(memoryEpoch.Add(time.Minute), node, full); len(evictions) != 0 {
		t.Errorf("%v leave, 29 s after the node was full again", evictions)
	}
	if evictions := guard.Decide(memoryEpoch.Add(91*time.Second), node, full); len(evictions) != 1 {
		t.Errorf("%v leave after a minute, want one", evictions)
	}
}

// TestMemoryGuardProperties: whoever leaves for its overdraft is above its reserve, and
// nobody who stays is farther above his; no more leave than it takes; and nobody leaves
// twice.
func TestMemoryGuardProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := NodeMemory{Limit: rapid.Int64Range(0, 4000).Draw(t, "limit")}
		watermark := rapid.Int64Range(0, 200).Draw(t, "watermark")
		guard := NewMemoryGuard(watermark, time.Minute)
		var jobs []MemoryUse
		for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
			jobs = append(jobs, MemoryUse{
				Job: fmt.Sprint(i), Used: rapid.Int64Range(0, 900).Draw(t, "used"), Reserve: rapid.Int64Range(0, 900).Draw(t, "reserve"),
				Start: memoryEpoch.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "start")) * time.Second),
			})
		}
		evictions := guard.Decide(memoryEpoch, node, jobs)
		rest, stay, last := int64(0), slices.Clone(jobs), int64(0)
		for _, job := range jobs {
			rest += job.Used
		}
		before := rest
		for _, e := range evictions {
			i := slices.IndexFunc(stay, func(j MemoryUse) bool { return j.Job == e.Job })
			if i < 0 || e.Reason != lifecycle.AbortResourceOverdraft || stay[i].excess() <= 0 {
				t.Fatalf("%v leaves of %v", e, stay)
			}
			before, last = rest, stay[i].excess()
			rest -= stay[i].Used
			stay = slices.Delete(stay, i, i+1)
		}
		if len(evictions) > 0 && before <= node.Limit-watermark {
			t.Fatalf("the last one had not to leave: %d of %d", before, node.Limit)
		}
		for _, job := range stay {
			switch {
			case len(evictions) > 0 && job.excess() > last:
				t.Fatalf("%v stays, with a larger excess than %d", job, last)
			case job.excess() > 0 && rest > node.Limit-watermark:
				t.Fatalf("%v stays above its reserve on a full node", job)
			}
		}
		for i := range jobs {
			if slices.ContainsFunc(evictions, func(e Eviction) bool { return e.Job == jobs[i].Job }) {
				jobs[i].Deadline = memoryEpoch
			}
		}
		if again := guard.Decide(memoryEpoch.Add(time.Second/4), node, jobs); len(again) != 0 {
			t.Fatalf("%v leave for those that do already", again)
		}
	})
}
