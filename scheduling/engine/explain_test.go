package engine_test

import (
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
	"weir/scheduling/resource"
)

// fact returns the first fact of a code.
func fact(t *testing.T, x explain.Explanation, code string) explain.Fact {
	t.Helper()
	for _, f := range x.Facts {
		if f.Code == code {
			return f
		}
	}
	var all []string
	for _, f := range x.Facts {
		all = append(all, f.Code+": "+f.Text)
	}
	t.Fatalf("there is no fact %s among\n%s", code, strings.Join(all, "\n"))
	return explain.Fact{}
}

// situation is one to explain: its verdict on operation op, and what else there is to it.
type situation struct {
	tree  options
	pools map[scheduling.PoolName]pool
	setup func(d *drive)
	want  string
	check func(t *testing.T, d *drive, x explain.Explanation)
}

// plainPools are two pools without options.
var plainPools = map[scheduling.PoolName]pool{"a": {}, "b": {}}

// TestExplainNodes has operations whose jobs no node takes.
func TestExplainNodes(t *testing.T) {
	explainAll(t, map[string]situation{
		"no node takes jobs": {
			pools: plainPools,
			setup: func(d *drive) {
				must(d.t, d.SetNode("n1", slotsOf(4), false))
				d.wants("op", "a", 1, slotsOf(1), nil)
				d.tick(time.Second)
			},
			want: explain.FactNoNodes,
		},
		"no node matches the filter": {
			pools: map[scheduling.PoolName]pool{"a": {options: options{"scheduling_tag_filter": "gpu"}}},
			setup: func(d *drive) {
				d.node("n1", 4, "cpu")
				d.node("n2", 4, "cpu")
				d.wants("op", "a", 1, slotsOf(1), nil)
				d.pass(time.Second, time.Second, "n1", "n2")
			},
			want: explain.FactNoMatch,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				nodes := x.Tasks[0].Nodes
				if nodes.Unmatched != 2 || len(nodes.UnmatchedBy) != 1 || nodes.UnmatchedBy[0] != (explain.FilterCount{Pool: "a", Filter: "gpu", Nodes: 2}) {
					t.Errorf("nodes are %+v", nodes)
				}
				if f := x.Facts[0]; f.Pool != "a" || f.Count != 2 {
					t.Errorf("fact %+v", f)
				}
			},
		},
		"no node is big enough": {
			pools: plainPools,
			setup: func(d *drive) {
				d.node("n1", 4)
				d.node("n2", 2)
				d.wants("op", "a", 1, slotsOf(8), nil)
				d.pass(time.Second, time.Second, "n1", "n2")
			},
			want: explain.FactTooSmall,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				nodes := x.Tasks[0].Nodes
				if nodes.TooSmall != 2 || nodes.SmallBy[resource.CPU] != 2 || nodes.SmallBy[resource.Memory] != 0 {
					t.Errorf("nodes are %+v", nodes)
				}
			},
		},
	})
}

// TestExplainLacking has an operation that some nodes lack a resource for.
func TestExplainLacking(t *testing.T) {
	explainAll(t, map[string]situation{
		"a resource lacks on some nodes": {
			tree:  options{"fair_share_starvation_timeout": "1m"},
			pools: plainPools,
			setup: func(d *drive) {
				d.node("n1", 4)
				d.node("n2", 4)
				d.node("n3", 1)
				d.wants("greedy", "a", 8, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1", "n2", "n3")
				d.wants("op", "b", 4, slotsOf(3), nil)
				d.pass(2*time.Second, time.Second, "n1", "n2", "n3")
			},
			want: explain.FactLacking,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				nodes := x.Tasks[0].Nodes
				if nodes.Full != 2 || nodes.TooSmall != 1 || nodes.LackingBy[resource.CPU] != 2 {
					t.Errorf("nodes are %+v", nodes)
				}
				below := fact(t, x, explain.FactBelowFair)
				if !below.Until.Equal(below.At.Add(time.Minute)) {
					t.Errorf("it starves at %v, below since %v", below.Until, below.At)
				}
				if len(x.Victims) == 0 || x.Victims[0].Operation != "greedy" {
					t.Errorf("likely victims are %+v", x.Victims)
				}
				if f := fact(t, x, explain.FactNodes); !strings.Contains(f.Text, "2 with too little free (user_slots on 2, cpu on 2), 1 too small") {
					t.Errorf("the nodes: %+v", f)
				}
			},
		},
	})
}

// TestExplainLimits has operations that limits or fair shares hold back.
func TestExplainLimits(t *testing.T) {
	explainAll(t, map[string]situation{
		"a limit of the pool is reached": {
			pools: map[scheduling.PoolName]pool{"top": {options: options{"resource_limits": options{"cpu": 3.0}}}, "a": {parent: "top"}},
			setup: func(d *drive) {
				d.node("n1", 8)
				d.wants("op", "a", 5, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
			},
			want: explain.FactLimit,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				if f := x.Facts[0]; f.Pool != "top" || f.Setting != "resource_limits" || f.Resource != "cpu" || f.Value != 3 || f.Bound != 3 {
					t.Errorf("fact %+v", f)
				}
			},
		},
		"the fair share is used up": {
			pools: plainPools,
			setup: func(d *drive) {
				d.node("n1", 4)
				d.wants("first", "a", 9, slotsOf(1), nil)
				d.wants("op", "b", 9, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
			},
			want: explain.FactTurn,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				if x.Position < 1 || x.Waiting != 2 {
					t.Errorf("position %d of %d", x.Position, x.Waiting)
				}
				if f := x.Facts[0]; f.Value != 0.5 || f.Bound != 0.5 {
					t.Errorf("fact %+v", f)
				}
				fact(t, x, explain.FactHasFair)
				if x.Share.Bound != explain.FactBoundWeight {
					t.Errorf("share %+v", x.Share)
				}
			},
		},
	})
}

// TestExplainStarving has starving operations for which no job is preempted.
func TestExplainStarving(t *testing.T) {
	explainAll(t, map[string]situation{
		"starving, in backoff, and nobody could go after it": {
			tree:  options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "1h", "non_preemptible_resource_usage_threshold": options{"user_slots": 100.0}},
			pools: plainPools,
			setup: func(d *drive) {
				d.node("n1", 4)
				d.wants("greedy", "a", 9, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
				d.wants("op", "b", 2, slotsOf(1), nil)
				d.pass(10*time.Second, time.Second, "n1")
			},
			want: explain.FactNoVictims,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				if x.Tasks[0].Verdict != explain.FactBackoff {
					t.Errorf("the task waits for %s", x.Tasks[0].Verdict)
				}
				fact(t, x, explain.FactStarving)
			},
		},
		"starving, and nobody can be preempted": {
			tree:  options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "1ms", "non_preemptible_resource_usage_threshold": options{"user_slots": 100.0}},
			pools: plainPools,
			setup: func(d *drive) {
				d.node("n1", 4)
				d.wants("greedy", "a", 9, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
				d.wants("op", "b", 2, slotsOf(1), nil)
				d.pass(10*time.Second, time.Second, "n1")
				d.tick(time.Second)
			},
			want: explain.FactNoVictims,
		},
		"starving, and those that could go are let stay": {
			tree:  options{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "1ms"},
			pools: map[scheduling.PoolName]pool{"a": {options: options{"preemption_rate_limit": 0.0}}, "b": {}},
			setup: func(d *drive) {
				d.node("n1", 4)
				d.wants("greedy", "a", 9, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
				d.wants("op", "b", 2, slotsOf(1), nil)
				d.pass(10*time.Second, time.Second, "n1")
				d.tick(time.Second)
			},
			want: explain.FactNoVictims,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				if f := x.Facts[0]; f.Setting != "preemption_rate_limit" || !strings.Contains(f.Text, `2 jobs in pool "a" (preemption_rate_limit)`) {
					t.Errorf("fact %+v", f)
				}
				if f := fact(t, x, explain.FactSpared); f.Pool != "a" || f.Setting != "preemption_rate_limit" || f.Count != 2 {
					t.Errorf("fact %+v", f)
				}
				if len(x.Victims) > 0 {
					t.Errorf("jobs that may not go are named: %+v", x.Victims)
				}
			},
		},
	})
}

// TestExplainVictims has an operation for which a job is leaving.
func TestExplainVictims(t *testing.T) {
	explainAll(t, map[string]situation{
		"waiting for victims until their deadline": {
			tree:  options{"fair_share_starvation_timeout": "2s"},
			pools: plainPools,
			setup: func(d *drive) {
				d.takes = time.Hour
				d.node("n1", 4)
				d.wants("greedy", "a", 9, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
				d.wants("op", "b", 1, slotsOf(1), nil)
				for len(d.victims) == 0 {
					d.pass(time.Second, time.Second, "n1")
				}
			},
			want: explain.FactVictims,
			check: func(t *testing.T, d *drive, x explain.Explanation) {
				f := x.Facts[0]
				if f.Node != "n1" || f.Count != 1 || !f.Until.Equal(d.now.Add(15*time.Second)) || !strings.Contains(f.Text, "of operation greedy") {
					t.Errorf("fact %+v", f)
				}
				victim := d.victims[0].Job
				job, err := d.ExplainJob(victim)
				must(t, err)
				if job.Verdict != explain.FactLeaving || job.Facts[0].Operation != "op" || !job.Facts[0].Until.Equal(f.Until) {
					t.Errorf("the victim: %+v", job.Facts[0])
				}
			},
		},
	})
}

// TestExplainNothingLacks has operations that are suspended, have all that they can have,
// or start a job soon.
func TestExplainNothingLacks(t *testing.T) {
	explainAll(t, map[string]situation{
		"suspended": {
			pools: plainPools,
			setup: func(d *drive) {
				d.node("n1", 4)
				d.wants("op", "a", 5, slotsOf(1), nil)
				op := d.record("op", "a", nil)
				op.Suspended = true
				must(d.t, d.SetOperation(op))
				d.tick(time.Second)
			},
			want: explain.FactSuspended,
		},
		"as many run as fit": {
			pools: plainPools,
			setup: func(d *drive) {
				needs := resource.Amounts{UserSlots: 1, Memory: 600}
				for _, n := range []scheduling.NodeID{"n1", "n2"} {
					must(d.t, d.SetNode(n, resource.Amounts{UserSlots: 4, Memory: 1000}, true))
				}
				d.wants("op", "a", 9, needs, nil)
				d.pass(2*time.Second, time.Second, "n1", "n2")
			},
			want: explain.FactOwn,
			check: func(t *testing.T, d *drive, x explain.Explanation) {
				if x.Share.Bound != explain.FactBoundNodes || x.Share.Usage != 0.6 {
					t.Errorf("share %+v", x.Share)
				}
				for _, name := range []scheduling.PoolName{"a", scheduling.RootPool} {
					p, err := d.ExplainPool(name, d.now)
					must(t, err)
					if p.Share.Bound != explain.FactBoundBelow {
						t.Errorf("pool %s: share %+v", name, p.Share)
					}
				}
			},
		},
		"all run": {
			pools: plainPools,
			setup: func(d *drive) {
				d.node("n1", 4)
				d.wants("op", "a", 2, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
			},
			want: explain.FactNoJobs,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				if x.Share.Bound != explain.FactBoundDemand || x.Share.Usage != 0.5 {
					t.Errorf("share %+v", x.Share)
				}
			},
		},
		"a job fits": {
			pools: plainPools,
			setup: func(d *drive) {
				d.node("n1", 4)
				d.wants("op", "a", 2, slotsOf(1), nil)
				d.tick(time.Second)
			},
			want: explain.FactStartsSoon,
		},
	})
}

// explainAll sets up each of the situations, and checks what is said of its operation op.
func explainAll(t *testing.T, situations map[string]situation) {
	t.Helper()
	for name, test := range situations {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, test.tree, test.pools)
			test.setup(d)
			x, err := d.Explain("op", d.now)
			must(t, err)
			if x.Verdict != test.want || x.Facts[0].Text == "" {
				var all []string
				for _, f := range x.Facts {
					all = append(all, f.Code+": "+f.Text)
				}
				t.Fatalf("verdict %s, want %s; facts\n%s", x.Verdict, test.want, strings.Join(all, "\n"))
			}
			if test.check != nil {
				test.check(t, d, x)
			}
		})
	}
}
