package memory

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling/statistics"
)

func TestPriorIsOutgrown(t *testing.T) {
	before := new(Digest)
	for range 300 {
		add(t, before, .8)
	}
	d := FromPrior(before)
	if got, _ := d.Quantile(Quantile); got != .8 || d.Count() != 0 {
		t.Fatalf("begins at %v with %d samples of its own, want 0.8 and none", got, d.Count())
	}
	needed := 0
	for v := .8; v != .2; v, _ = d.Quantile(Quantile) {
		add(t, d, .2)
		needed++
	}
	if needed < 5 || needed > outgrown {
		t.Errorf("%d samples of 0.2 change what was known, want some, and %d at most", needed, outgrown)
	}
	low := FromPrior(digest(t, .2, .2, .2))
	add(t, low, .9)
	if got, _ := low.Quantile(Quantile); got != .9 {
		t.Errorf("p95 is %v after the first job needed more than all before, want what it needed", got)
	}
	scaled := digest(t, .2, .8).Scaled(2, 1)
	if got, _ := scaled.Quantile(0.5); got != .4 {
		t.Errorf("half a limit makes the median %v, want 0.4", got)
	}
	if got, _ := scaled.Quantile(1); got != 1 {
		t.Errorf("half a limit makes the most %v, want all of it", got)
	}
	if d := FromPrior(new(Digest)); !d.Empty() {
		t.Error("a prior that knows nothing is something")
	}
}

func TestPointsKeepThe95thPercentile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := new(Digest)
		for _, v := range rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 1200).Draw(t, "samples") {
			add(t, d, v)
		}
		want, _ := d.Quantile(Quantile)
		for _, k := range []int{PriorSamples, ProfileSamples} {
			points := d.Points(k)
			got := exactly(points, Quantile)
			if len(points) > k || len(points) == k && math.Abs(got-want) > 1e-12 {
				t.Fatalf("p95 of %d points is %v, want %v", len(points), got, want)
			}
		}
	})
}

func TestBlend(t *testing.T) {
	many := func(n int, v float64) *Digest {
		d := new(Digest)
		for range n {
			add(t, d, v)
		}
		return d
	}
	p95 := func(d *Digest) float64 { v, _ := d.Quantile(Quantile); return v }
	if got := Blend(new(Digest), many(10, .3)); p95(got) != .3 || got.Count() != 10 {
		t.Errorf("the first operation leaves %v of %d samples", p95(got), got.Count())
	}
	if got := Blend(many(100, .3), new(Digest)); p95(got) != .3 {
		t.Errorf("an operation without samples leaves %v", p95(got))
	}
	if got := Blend(many(100, .3), FromPrior(many(100, .9))); p95(got) != .3 {
		t.Errorf("an operation that knows only its prior leaves %v", p95(got))
	}
	d, operations := many(100, .8), 0
	for p95(d) != .2 {
		if d, operations = Blend(d, many(1000, .2)), operations+1; operations > 10 {
			t.Fatal("what was once needed is never forgotten")
		}
	}
	if operations < 2 || operations > 4 {
		t.Errorf("what was once needed is forgotten after %d operations, want 2 to 4", operations)
	}
	if d := Blend(many(100, .8), many(10, .2)); p95(d) != .8 {
		t.Errorf("a small operation undoes what was known: %v", p95(d))
	}
	if d.Count() > ProfileSamples {
		t.Errorf("%d samples are kept", d.Count())
	}
}

func TestProfileKey(t *testing.T) {
	plain := Profile{Type: "vanilla", Task: "main", Shell: "sort"}
	other := plain
	other.Shell = "sort -u"
	given := Profile{Given: "sorting", Task: "main", Shell: "sort"}
	if plain.Key() == other.Key() || plain.Key() != (Profile{Type: "vanilla", Task: "main", Shell: "sort"}).Key() {
		t.Error("keys do not tell commands apart, or tell equal ones apart")
	}
	if given.Key() != "sorting" || !strings.HasPrefix(plain.Key(), "#") {
		t.Errorf("keys are %q and %q", given.Key(), plain.Key())
	}
	for name, want := range map[string]bool{"sort/hourly-v2": true, "": true, "a b": false, "#x": false, "/x": false, strings.Repeat("x", MaxProfileName+1): false} {
		if got := ValidateProfileName(name) == nil; got != want {
			t.Errorf("%q may be a name: %v, want %v", name, got, want)
		}
	}
}

func TestLearn(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	task := Task{Limit: 1000 * mebi, Options: Default()}
	l, err := NewLearner(task, nil, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	told := l.Reserve()
	ask := func(after time.Duration, waiting int64) (bool, time.Duration) {
		reserve, tell, wait := l.Learn(now.Add(after), told, waiting)
		if tell {
			told = reserve
		}
		return tell, wait
	}
	absorb := func(v float64) {
		if err := l.Absorb(Sample{User: v}); err != nil {
			t.Fatal(err)
		}
	}
	if tell, wait := ask(0, 0); tell || wait != 0 {
		t.Error("tells without a sample")
	}
	absorb(.2)
	if tell, _ := ask(0, 1); !tell || told.User != 200*mebi {
		t.Errorf("tells after the first sample: %v, %d bytes", tell, told.User)
	}
	absorb(.3)
	if tell, wait := ask(400*time.Millisecond, 2); tell || wait != 600*time.Millisecond {
		t.Errorf("tells again after 0.4 s: %v, or waits %v", tell, wait)
	}
	if tell, _ := ask(time.Second, 2); !tell || told.User != 300*mebi {
		t.Errorf("tells again after 1 s: %v, %d bytes", tell, told.User)
	}
	absorb(.301)
	if tell, wait := ask(5*time.Second, 3); tell || wait != 0 {
		t.Errorf("tells of a thousandth: %v, or waits %v for it", tell, wait)
	}
	if tell, _ := ask(5*time.Second, tellSamples); !tell {
		t.Error("does not write down many samples")
	}
	again, err := NewLearner(task, l.User.Encode(), l.Proxy.Encode(), l.Absorbed)
	if err != nil || again.Reserve() != l.Reserve() || again.Absorbed != 3 {
		t.Errorf("goes on with %+v, %v", again, err)
	}
	if _, err := NewLearner(task, []byte{99}, nil, 0); err == nil {
		t.Error("goes on from what is no digest")
	}
}

func TestAdvise(t *testing.T) {
	task := Task{Limit: 1000 * mebi, Options: Default()}
	stats := func(n int, values ...int64) statistics.Set {
		var s statistics.Set
		for i := range n {
			used := values[i%len(values)] * mebi
			s.Add("completed", map[string]int64{
				statistics.UserMaxMemory:           used,
				statistics.UserCumulativeMaxMemory: used * 10, statistics.UserCumulativeReserve: 500 * mebi * 10,
			})
		}
		return s
	}
	for story, test := range map[string]struct {
		task      Task
		stats     statistics.Set
		wantLimit int64
		wantText  string
	}{
		"too few jobs to tell":                         {task, stats(9, 100), 0, ""},
		"far below the limit":                          {task, stats(20, 100, 200), 250 * mebi, "set memory_limit to 250MiB"},
		"close to the limit":                           {task, stats(20, 100, 990), 1238 * mebi, "nearly failed"},
		"about right":                                  {task, stats(20, 300, 800), 0, ""},
		"a reserve far above the need":                 {Task{Limit: 1000 * mebi, Options: Default().WithReserveFactor(1)}, stats(200, append(make([]int64, 199), 800)...), 0, "lower user_job_memory_digest_lower_bound"},
		"a reserve that tmpfs asks for":                {Task{Limit: 1000 * mebi, Tmpfs: 900 * mebi, Options: Default()}, stats(200, append(make([]int64, 199), 95)...), 1019 * mebi, "used 95MiB beside tmpfs of 900MiB, of its memory_limit of 1000MiB"},
		"a reserve above the need that tmpfs asks for": {Task{Limit: 1000 * mebi, Tmpfs: 700 * mebi, Options: Default()}, stats(200, append(make([]int64, 199), 200)...), 0, ""},
	} {
		t.Run(story, func(t *testing.T) {
			got := Advise(test.task, test.task.Reserve(new(Digest), new(Digest)), test.stats, "completed")
			if got.SetLimit != test.wantLimit || !strings.Contains(got.Text, test.wantText) || test.wantText == "" && got.Text != "" {
				t.Errorf("got limit %d, %q", got.SetLimit, got.Text)
			}
		})
	}
	got := Advise(task, Reserve{User: 5}, stats(20, 100, 200), "completed")
	if got.Jobs != 20 || got.Max != 200*mebi || got.Wasted != 20*10*350*mebi || got.Reserve != 5 {
		t.Errorf("got %+v", got)
	}
}
