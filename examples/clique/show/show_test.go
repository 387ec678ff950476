package show

import (
	"bytes"
	"errors"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/examples/clique/load"
	"weir/examples/clique/playground"
	"weir/messages/actorpb"
	"weir/messages/apipb"
)

const s = time.Second

// run is how an operation went that comes at 5 s into a cluster that another one fills.
var run = []playground.Moment[state]{
	{At: 0, Is: state{service: holding{fair: 1, live: 1}}},
	{At: 5 * s, Is: state{service: holding{fair: 1, live: 1}, heavy: holding{fair: 0.5}}},
	{At: 6 * s, Is: state{service: holding{fair: 0.5, live: 0.5, draining: 0.5}, heavy: holding{fair: 0.5}}},
	{At: 7 * s, Is: state{service: holding{fair: 0.5, live: 0.5}, heavy: holding{fair: 0.5, live: 0.25}}},
	{At: 8 * s, Is: state{service: holding{fair: 0.5, live: 0.5}, heavy: holding{fair: 0.5, live: 0.5}}},
	{At: 9 * s, Is: state{service: holding{fair: 1, live: 1}}},
}

func TestReached(t *testing.T) {
	for name, tc := range map[string]struct {
		moments []playground.Moment[state]
		from    time.Duration
		want    time.Duration
		wantOK  bool
	}{
		"both have theirs":               {run, 5 * s, 3 * s, true},
		"those that leave are there yet": {run[:3], 5 * s, 0, false},
		"the other has not begun":        {run[:4], 5 * s, 0, false},
		"what was before does not count": {run, 8500 * time.Millisecond, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if took, ok := reached(tc.moments, tc.from); took != tc.want || ok != tc.wantOK {
				t.Errorf("got %v, %v; want %v, %v", took, ok, tc.want, tc.wantOK)
			}
		})
	}
}

func TestTraceHoldsWhatDiscoverySays(t *testing.T) {
	began := time.Now()
	run := &scene{stage: &stage{Stage: &playground.Stage{Places: 4}}}
	seen := []*apipb.Instance{{State: actorpb.InstanceLive}, {State: actorpb.InstanceLive}, {State: actorpb.InstanceDraining}, {State: actorpb.InstanceGone}}
	run.hold(heavyOf)(seen)
	run.hold(heavyOf)(seen)
	all := run.trace.Since(began)
	if last := all[len(all)-1].Is; len(all) != 3 || last.heavy != (holding{live: 0.5, draining: 0.25}) || last.service != (holding{}) || math.Abs(last.heavy.used()-0.75) > nearly {
		t.Errorf("got %+v", all)
	}
	if all = run.trace.Since(time.Now()); len(all) != 2 || all[0].At != 0 || all[0].Is.heavy.live != 0.5 {
		t.Errorf("after the beginning: %+v", all)
	}
}

// good are results that are as promised.
func good() (ordinary, gentle *result) {
	return &result{mode: normal, reached: 3 * s, tally: load.Tally{
			Closed: load.Count{Sent: 9000, Answered: 8995, Failed: 5}, Open: load.Count{Sent: 2000, Answered: 1999, Failed: 1, Withheld: 3},
			Cut: slices.Repeat([]load.Cut{{What: "connection cut"}}, 6),
		}},
		&result{mode: graceful, reached: 4 * s, tally: load.Tally{Closed: load.Count{Sent: 9000, Answered: 9000}, Open: load.Count{Sent: 1500, Answered: 1500}}}
}

func TestBroken(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(ordinary, gentle *result)
		want   string
	}{
		"as promised": {func(_, _ *result) {}, ""},
		"nothing failed": {func(o, _ *result) {
			o.tally.Closed, o.tally.Open = load.Count{Sent: 10000, Answered: 10000}, load.Count{}
		}, "ordinary preemption failed no request"},
		"one was lost":          {func(_, g *result) { g.tally.Open.Answered, g.tally.Open.Failed = 1499, 1 }, "graceful preemption failed requests"},
		"one was never counted": {func(_, g *result) { g.tally.Open.Answered-- }, "were answered and 0 failed"},
		"too few":               {func(_, g *result) { g.tally.Open = load.Count{} }, "(minimum 10000)"},
		"too slow":              {func(_, g *result) { g.reached = 9 * s }, "graceful: usage share took 9.0 s"},
	} {
		t.Run(name, func(t *testing.T) {
			ordinary, gentle := good()
			tc.change(ordinary, gentle)
			faults := DefaultConfig().broken(ordinary, gentle)
			if got := strings.Join(faults, "\n"); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhatIsShown(t *testing.T) {
	ordinary, gentle := good()
	if got, want := summary(ordinary, gentle), "ordinary failed 6 of 11000 requests; graceful failed 0 of 10500 requests"; got != want {
		t.Errorf("the last line is %q, want %q", got, want)
	}
	if got := requestsTable(ordinary, gentle); !strings.Contains(got, "│ ordinary   │ both   │ 11000 │    10994 │      6 │        3 │") {
		t.Errorf("got\n%s", got)
	}
	ordinary.moments, ordinary.arrived, ordinary.departed = run, 5*s, 9*s
	c, printed := DefaultConfig(), new(strings.Builder)
	c.Out, c.Pictures = printed, filepath.Join(t.TempDir(), "pictures")
	if err := c.Report([2]string{}, []playground.Outcome{ordinary.outcome()}, "shares", nil, "the end"); err != nil {
		t.Fatal(err)
	}
	if got := printed.String(); !strings.Contains(got, "\nordinary: 6 x connection cut\nordinary: shares: ") || !strings.HasSuffix(got, "\nthe end\n") {
		t.Errorf("printed %q", got)
	}
	files := []string{filepath.Join(c.Pictures, "ordinary.svg"), filepath.Join(c.Pictures, "ordinary.png")}
	svg, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(svg), "ordinary preemption: 6 of 11000 requests failed") {
		t.Errorf("%s has no title: %v", files[0], err)
	}
	image, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(image)); err != nil {
		t.Errorf("%s: %v", files[1], err)
	}
	if err := c.Report([2]string{}, nil, "shares", []string{"too slow"}, "the end"); !errors.Is(err, playground.ErrBroken) || !strings.Contains(printed.String(), "WRONG: too slow") {
		t.Errorf("of a fault it says %v, and prints %q", err, printed)
	}
}

func TestNoticeOfEachMode(t *testing.T) {
	for name, tc := range map[string]struct {
		long       time.Duration
		wantNotice map[string]string
	}{
		"the same":        {0, map[string]string{normal: "1s", graceful: "1s"}},
		"more gracefully": {20 * s, map[string]string{normal: "1s", graceful: "20s"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			c.LongNotice = tc.long
			for mode, want := range tc.wantNotice {
				spec := (&stage{Config: c, Stage: new(playground.Stage)}).serviceSpec(mode)
				command := spec["tasks"].(map[string]any)["serve"].(map[string]any)["command"].([]any)
				if got := command[len(command)-1]; got != want {
					t.Errorf("%s: a notice of %v, want %s", mode, got, want)
				}
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"default":                  {func(*Config) {}, ""},
		"no program":               {func(c *Config) { c.Weir = "" }, "is missing"},
		"no nodes":                 {func(c *Config) { c.Agents = 0 }, "must be at least 1"},
		"a negative time":          {func(c *Config) { c.After = -1 }, "must not be negative"},
		"no starvation":            {func(c *Config) { c.Starvation = 0 }, "must be positive"},
		"a negative notice":        {func(c *Config) { c.LongNotice = -1 }, "must not be negative"},
		"a notice that is all":     {func(c *Config) { c.Notice = c.ShortTimeout }, "nothing could be finished"},
		"a timeout for all":        {func(c *Config) { c.ShortTimeout = 10 * s }, "nothing would fail"},
		"a timeout that cuts":      {func(c *Config) { c.LongTimeout = 8 * s }, "must be more than the notice"},
		"a notice that cuts":       {func(c *Config) { c.LongNotice = c.LongTimeout - 8*s }, "must be more than the notice 22s"},
		"a load that sends nought": {func(c *Config) { c.Load.Workers, c.Load.Rate = 0, 0 }, "something must be sent"},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			c.Weir, c.Self, c.Out = "weir", "clique", new(bytes.Buffer)
			tc.change(&c)
			err := c.Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
