package engine_test

import (
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
)

// gangStory is a situation in which a gang, the operation gang, waits.
type gangStory struct {
	tree  options
	takes time.Duration
	// ends is how often a job of small ends of itself; 0: never.
	ends  time.Duration
	setup func(d *drive)
	want  string
}

// second lets a second pass in which, each ends, a job of small ends.
func (s gangStory) second(d *drive) {
	d.pass(time.Second, time.Second, "n1", "n2", "n3")
	if s.ends > 0 && d.now.Sub(begin).Truncate(time.Second)%s.ends == 0 {
		d.kill("small", 1)
	}
}

// until lets time pass until something is so.
func (s gangStory) until(d *drive, what string, so func() bool) {
	d.t.Helper()
	for range 600 {
		if so() {
			return
		}
		s.second(d)
	}
	d.t.Fatalf("%s is not so in 10 minutes", what)
}

// full is a cluster of 3 nodes of 4 slots, which are all used by small jobs, others of
// which wait.
func full(d *drive) {
	for _, n := range []scheduling.NodeID{"n1", "n2", "n3"} {
		d.node(n, 4)
	}
	d.wants("small", "a", 100, slotsOf(1), nil)
}

// TestStartsOfGangsAreForetold compares when a gang is said to start with when it does.
// Updates and heartbeats come each second.
func TestStartsOfGangsAreForetold(t *testing.T) {
	come := func(story *gangStory, n int64) func(d *drive) {
		return func(d *drive) {
			full(d)
			for range 180 {
				story.second(d)
			}
			d.gang("gang", "b", n, slotsOf(1))
			story.second(d)
		}
	}
	for name, story := range map[string]*gangStory{
		"there is room": {want: explain.ByHeldRoom, setup: func(d *drive) {
			full(d)
			d.gang("gang", "b", 6, slotsOf(1))
			d.tick(time.Second)
		}},
		"it will starve, and others leave when they have to": {takes: time.Hour, want: explain.ByPreemption},
		"it will starve, and one leaves a node in a backoff": {
			tree: options{"preemptive_scheduling_backoff": "7s"}, takes: time.Hour, want: explain.ByPreemption},
		"jobs end sooner than it starves":                    {tree: options{"fair_share_starvation_timeout": "5m", "fair_share_aggressive_starvation_timeout": "1h"}, ends: 5 * time.Second, want: explain.ByEnds},
		"others have been told to leave for all of its jobs": {takes: time.Hour, want: explain.ByHeldRoom},
		"another gang has its turn, and will not have room": {want: explain.ByHeldRoom, setup: func(d *drive) {
			full(d)
			must(d.t, d.SetDemand("small", "t", 0, 8, slotsOf(1)))
			d.pass(time.Second, time.Second, "n1", "n2", "n3")
			d.gang("wide", "b", 9, slotsOf(1))
			d.pass(3*time.Second, time.Second, "n1", "n2", "n3")
			d.gang("gang", "b", 3, slotsOf(1))
			d.pass(2*time.Second, time.Second, "n1", "n2", "n3")
		}},
		"room was not to be had, and comes meanwhile": {tree: options{"fair_share_starvation_timeout": "1h", "fair_share_aggressive_starvation_timeout": "2h"}, want: explain.ByHeldRoom},
	} {
		t.Run(name, func(t *testing.T) {
			tree := options{"fair_share_starvation_timeout": "30s", "preemptive_scheduling_backoff": "1s", "allocation_preemption_timeout": "9s"}
			for option, value := range story.tree {
				tree[option] = value
			}
			d := newDrive(t, tree, map[scheduling.PoolName]pool{"a": {}, "b": {}})
			d.takes = story.takes
			if story.setup == nil {
				story.setup = come(story, 6)
			}
			story.setup(d)
			switch name {
			case "others have been told to leave for all of its jobs":
				story.until(d, "room held for all", func() bool { return d.viewOf("gang").Gathered == 6 })
			case "room was not to be had, and comes meanwhile":
				story.until(d, "a pause", func() bool { x, _ := d.Explain("gang", d.now); return x.Verdict == explain.FactGangPause })
				must(t, d.SetDemand("small", "t", 0, 0, slotsOf(1)))
				d.kill("small", 7)
			}
			x, err := d.Explain("gang", d.now)
			must(t, err)
			if x.StartBy != story.want || fact(t, x, explain.FactEstimate).At != x.Start {
				t.Fatalf("it starts %q, want %q; %s", x.StartBy, story.want, textOf(x))
			}
			in := x.Start.Sub(d.now)
			story.until(d, "a start", func() bool { return d.runs()["gang"] > 0 })
			earliest, latest := x.Start.Add(-3*time.Second), x.Start.Add(4*time.Second)
			if story.want == explain.ByEnds {
				earliest, latest = x.Earliest, x.Latest
			}
			if late := d.now.Sub(x.Start); d.now.Before(earliest) || d.now.After(latest) {
				t.Errorf("it started %v after it was foretold for %v; %s", late, in, textOf(x))
			}
		})
	}
}

// TestWhyNoStartOfAGangIsForetold has situations in which nobody can tell.
func TestWhyNoStartOfAGangIsForetold(t *testing.T) {
	for name, tc := range map[string]struct {
		tree options
		ends time.Duration
		size int64
		want []string
	}{
		"nothing ends, and its fair share is less": {size: 7, want: []string{"too few jobs have ended", "its fair share is less than all of its jobs need"}},
		"jobs end, and others come first":          {options{"gang_timeout": "10m"}, 5 * time.Second, 7, []string{"once it has its fair share, it is the turn of other operations", "its fair share is less than all of its jobs need"}},
		"jobs end too slowly":                      {options{"gang_timeout": "5s"}, 5 * time.Second, 6, []string{"but the room held for the gang is released before that, at", "(gang_timeout)"}},
		"it starves too late":                      {options{"gang_timeout": "5s"}, 0, 6, []string{"jobs would be preempted for the last of its jobs only at about", "(gang_timeout)"}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := options{"fair_share_starvation_timeout": "30s"}
			for option, value := range tc.tree {
				tree[option] = value
			}
			d := newDrive(t, tree, map[scheduling.PoolName]pool{"a": {}, "b": {}})
			full(d)
			story := gangStory{ends: tc.ends}
			for range 30 {
				story.second(d)
			}
			d.gang("gang", "b", tc.size, slotsOf(1))
			story.second(d)
			x, err := d.Explain("gang", d.now)
			must(t, err)
			f := fact(t, x, explain.FactNoEstimate)
			for _, want := range tc.want {
				if !strings.Contains(f.Text, want) || !x.Start.IsZero() {
					t.Errorf("it is said: %s; want %q", f.Text, want)
				}
			}
		})
	}
}

// TestAGangWithoutAnEstimateHasNoStart: those that leave for some of its jobs are no reason to
// say that it starts when they have gone, if nobody can tell when the others have room.
func TestAGangWithoutAnEstimateHasNoStart(t *testing.T) {
	d := newDrive(t, options{"fair_share_starvation_timeout": "5s", "preemptive_scheduling_backoff": "2m", "allocation_preemption_timeout": "40s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.takes = time.Hour
	full(d)
	d.pass(time.Second, time.Second, "n1", "n2", "n3")
	d.gang("gang", "b", 6, slotsOf(1))
	gangStory{}.until(d, "a job that leaves for it", func() bool { return len(d.going) > 0 })
	x, err := d.Explain("gang", d.now)
	must(t, err)
	if !x.Start.IsZero() || fact(t, x, explain.FactNoEstimate).Text == "" {
		t.Errorf("it starts at %v %q; %s", x.Start, x.StartBy, textOf(x))
	}
}

// TestWhyAGangWaitsThatIsNoLongerWanted: who asks between two updates why a gang waits of which
// fewer jobs can start by now, all of which have room, hears that.
func TestWhyAGangWaitsThatIsNoLongerWanted(t *testing.T) {
	d := newDrive(t, options{"fair_share_starvation_timeout": "5s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	full(d)
	d.pass(time.Second, time.Second, "n1", "n2", "n3")
	d.gang("gang", "b", 6, slotsOf(1))
	d.kill("small", 2)
	d.pass(2*time.Second, time.Second, "n1", "n2", "n3")
	held := d.viewOf("gang").Gathered
	if held == 0 || held == 6 {
		t.Fatalf("room is held for %d jobs, want it for some", held)
	}
	must(t, d.SetDemand("gang", "t", 0, held, slotsOf(1)))
	x, err := d.Explain("gang", d.now)
	must(t, err)
	if x.Verdict != explain.FactGangIncomplete || !x.Start.IsZero() {
		t.Errorf("it is said: %s", textOf(x))
	}
}
