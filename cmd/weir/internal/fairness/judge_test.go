package fairness

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/simulate"
)

// cluster has one pool, which starves after a minute; jobs leave within 20 seconds.
const cluster = `duration: 2h
heartbeat: 1s
nodes: [{count: 10, cpu: 10}]
options: {fair_share_starvation_timeout: 1m, preemptive_scheduling_backoff: 5s, allocation_preemption_timeout: 20s}
pools: {p: {resource_limits: {cpu: 50}}}
workloads:
  p: {jobs: 10, job: {cpu: 10, length: 1m}, interruption: {}}
`

// kept is the outcome of a pool that had what it was promised.
func kept() simulate.Outcome {
	return simulate.Outcome{
		Leaf: true, Hungry: true, Window: time.Hour, Fair: 0.5, Got: 0.5, LargestJob: 0.1, Asked: 1000, Had: 1000,
		Patience: 98 * time.Second, FirstWait: 90 * time.Second, FairMeanwhile: 0.5, Preempted: 3, UsedSeconds: 2000, LostSeconds: 100,
	}
}

// TestJudge: each promise is seen to be broken, and not when it is just kept.
func TestJudge(t *testing.T) {
	f, err := simulate.Read([]byte(cluster), nil, simulate.Changes{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		otherwise func(o *simulate.Outcome)
		want      string
	}{
		"all kept":                      {func(*simulate.Outcome) {}, ""},
		"too little":                    {func(o *simulate.Outcome) { o.Got = 0.39 }, "got 0.78 of its fair share"},
		"too little but for half a job": {func(o *simulate.Outcome) { o.Got = 0.401 }, ""},
		"too little of too little":      {func(o *simulate.Outcome) { o.Got, o.Fair = 0, 0.049 }, ""},
		"too little of enough":          {func(o *simulate.Outcome) { o.Got, o.Fair = 0, 0.06 }, "got 0.00 of its fair share"},
		"too little, not hungry":        {func(o *simulate.Outcome) { o.Got, o.Hungry = 0, false }, ""},
		"too little, not a leaf":        {func(o *simulate.Outcome) { o.Got, o.Leaf = 0, false }, ""},
		"too little, never settled":     {func(o *simulate.Outcome) { o.Got, o.Window = 0, 0 }, ""},
		"a guarantee not kept":          {func(o *simulate.Outcome) { o.Had = 969 }, "got 0.969 of the guaranteed share that it demanded"},
		"a guarantee just kept":         {func(o *simulate.Outcome) { o.Had = 970 }, ""},
		"a guarantee not asked for":     {func(o *simulate.Outcome) { o.Asked, o.Had = 0, 0 }, ""},
		"a guarantee hardly asked for":  {func(o *simulate.Outcome) { o.Asked, o.Had = 59, 0 }, ""},
		"a guarantee asked for so long": {func(o *simulate.Outcome) { o.Asked, o.Had = 60, 0 }, "got 0.000 of the guaranteed share that it demanded"},
		"a guarantee above not kept":    {func(o *simulate.Outcome) { o.Had, o.Leaf = 500, false }, "got 0.500"},
		"a first job too late":          {func(o *simulate.Outcome) { o.FirstWait = 99 * time.Second }, "waited 1m39s for its first job, the limit is 1m38s"},
		"a first job just in time":      {func(o *simulate.Outcome) { o.FirstWait = o.Patience }, ""},
		"a late job of too little":      {func(o *simulate.Outcome) { o.FirstWait, o.FairMeanwhile = time.Hour, 0.099 }, ""},
		"limits exceeded too long":      {func(o *simulate.Outcome) { o.OverLimits = 39 * time.Second }, "exceeded its resource_limits for 39s, at most 38s is allowed"},
		"limits exceeded for a while":   {func(o *simulate.Outcome) { o.OverLimits = 38 * time.Second }, ""},
		"jobs out of order":             {func(o *simulate.Outcome) { o.OutOfOrder = 1 }, "started 1 jobs while an earlier operation had a pending job that needs no more"},
		"too much lost":                 {func(o *simulate.Outcome) { o.LostSeconds = 801 }, "0.40 of all usage was lost by preemption"},
		"much lost":                     {func(o *simulate.Outcome) { o.LostSeconds = 800 }, ""},
		"too much lost in turns":        {func(o *simulate.Outcome) { o.LostSeconds, o.Fair, o.Got = 801, 0.09, 0.09 }, ""},
		"too much lost, never settled":  {func(o *simulate.Outcome) { o.LostSeconds, o.Fair, o.Window = 801, 0, 0 }, "0.40 of all"},
	} {
		t.Run(name, func(t *testing.T) {
			o := kept()
			c.otherwise(&o)
			got := Judge(f, []simulate.Pool{{Name: "p", Outcome: o}})
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("breaches %+v, want none", got)
			case c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0].Problem, c.want)):
				t.Errorf("breaches %+v, want %q", got, c.want)
			}
		})
	}
}

// TestJudgeAll: what one cluster may lose, many may not.
func TestJudgeAll(t *testing.T) {
	lose := func(n int, lost float64) (all []Outcome) {
		for range n {
			all = append(all, Outcome{Scenario: Scenario{Kind: "plain"}, Result: &simulate.Result{Pools: []simulate.Pool{{Name: "a", Outcome: simulate.Outcome{Leaf: true, UsedSeconds: 100, LostSeconds: lost}}}}})
		}
		return all
	}
	for name, tc := range map[string]struct {
		outcomes []Outcome
		want     int
	}{
		"few lose much":     {lose(Many-1, 30), 0},
		"many lose little":  {lose(Many, 10), 0},
		"many lose much":    {lose(Many, 11), 1},
		"those that do not": {append(lose(Many/2, 30), lose(Many*2, 1)...), 0},
	} {
		if got := JudgeAll(tc.outcomes); len(got) != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestTable: the worst of each kind, and of all.
func TestTable(t *testing.T) {
	outcome := func(kind string, all ...simulate.Outcome) Outcome {
		o := Outcome{Scenario: Scenario{Kind: kind}, Result: &simulate.Result{Duration: 2 * time.Hour}}
		for _, one := range all {
			o.Result.Pools = append(o.Result.Pools, simulate.Pool{Name: "p", Outcome: one})
		}
		return o
	}
	poor, late, above := kept(), kept(), kept()
	poor.Got, poor.Had, poor.LostSeconds, poor.Lost, poor.OutOfOrder = 0.2, 500, 1000, 0.5, 2
	late.Hungry, late.Asked, late.FirstWait = false, 0, 2*late.Patience
	above.Leaf = false
	broken := outcome("fifo", poor, late, above)
	broken.Breaches = make([]Breach, 3)
	rows := Table([]Outcome{outcome("plain", kept()), broken})
	if len(rows) != 3 || rows[0].Kind != "plain" || rows[1].Kind != "fifo" || rows[2].Kind != "all" {
		t.Fatalf("rows %+v", rows)
	}
	for i, want := range []Row{
		{
			Kind: "plain", Scenarios: 1, Hungry: 1, WorstShare: 1, Judged: 1.1, Guarantees: 1, WorstGuarantee: 1,
			Wait: 90 * time.Second, Patience: 98 * time.Second, Lost: 0.05, Preempted: 1.5,
		},
		{
			Kind: "fifo", Scenarios: 1, Breaches: 3, Hungry: 1, Below: 1, WorstShare: 0.4, Judged: 0.5, Guarantees: 2, Short: 1, WorstGuarantee: 0.5, Late: 1,
			Wait: 196 * time.Second, Patience: 98 * time.Second, Lost: 1100. / 4000, PoolLost: 0.5, Preempted: 3, OutOfOrder: 2,
		},
		{
			Kind: "all", Scenarios: 2, Breaches: 3, Hungry: 2, Below: 1, WorstShare: 0.4, Judged: 0.5, Guarantees: 3, Short: 1, WorstGuarantee: 0.5, Late: 1,
			Wait: 196 * time.Second, Patience: 98 * time.Second, Lost: 0.2, PoolLost: 0.5, Preempted: 2.25, OutOfOrder: 2,
		},
	} {
		got := rows[i]
		got.lost, got.used, got.jobs, got.hours = 0, 0, 0, 0
		if got != want {
			t.Errorf("row\n%+v, want\n%+v", got, want)
		}
	}
	if empty := Table(nil)[0]; !math.IsNaN(empty.WorstShare) || !math.IsNaN(empty.WorstGuarantee) {
		t.Errorf("the worst of nothing is %+v", empty)
	}
}
