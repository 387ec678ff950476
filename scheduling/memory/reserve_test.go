package memory

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

const mebi = 1 << 20

func digest(t *testing.T, samples ...float64) *Digest {
	t.Helper()
	d, err := Of(samples...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestReserve(t *testing.T) {
	with := func(change func(*Options)) Options {
		o := Default()
		change(&o)
		return o
	}
	for story, test := range map[string]struct {
		task                Task
		user, proxy         []float64
		wantUser, wantProxy int64
	}{
		"half of the limit before anything is known":    {Task{512 * mebi, 0, 0, Default()}, nil, nil, 256 * mebi, 0},
		"the job proxy's estimate as it is":             {Task{512 * mebi, 0, 8 * mebi, Default()}, nil, nil, 256 * mebi, 8 * mebi},
		"what the jobs needed":                          {Task{100 * mebi, 0, 0, Default()}, []float64{.1, .2, .3}, nil, 30 * mebi, 0},
		"not for the largest of many":                   {Task{100 * mebi, 0, 0, Default()}, append(make([]float64, 95), .9, .9, .9, .9, .9), nil, 5 * mebi, 0},
		"never less than the lower bound":               {Task{100 * mebi, 0, 0, Default()}, []float64{.01}, nil, 5 * mebi, 0},
		"never more than the limit":                     {Task{100 * mebi, 0, 0, Default()}, []float64{1.2}, nil, 100 * mebi, 0},
		"the proxy's factor has bounds of its own":      {Task{100 * mebi, 0, 10 * mebi, Default()}, nil, []float64{9}, 50 * mebi, 20 * mebi},
		"a proxy that needs more than its estimate":     {Task{100 * mebi, 0, 16 * mebi, Default()}, nil, []float64{1.25}, 50 * mebi, 22 * mebi},
		"a proxy that needs less than its estimate":     {Task{100 * mebi, 0, 16 * mebi, Default()}, nil, []float64{.625}, 50 * mebi, 11 * mebi},
		"and a lower one":                               {Task{100 * mebi, 0, 10 * mebi, Default()}, nil, []float64{.1}, 50 * mebi, 5 * mebi},
		"a reserve factor is default and lower bound":   {Task{100 * mebi, 0, 0, Default().WithReserveFactor(.8)}, []float64{.1}, nil, 80 * mebi, 0},
		"a reserve factor holds before anything":        {Task{100 * mebi, 0, 0, Default().WithReserveFactor(.3)}, nil, nil, 30 * mebi, 0},
		"tmpfs is always held":                          {Task{100 * mebi, 60 * mebi, 0, Default()}, []float64{.1}, nil, 60 * mebi, 0},
		"tmpfs below the default changes nothing first": {Task{100 * mebi, 20 * mebi, 0, Default()}, nil, nil, 50 * mebi, 0},
		"tmpfs as large as the limit takes all":         {Task{100 * mebi, 100 * mebi, 0, Default()}, nil, nil, 100 * mebi, 0},
		"a default of the task's own":                   {Task{100 * mebi, 0, 0, with(func(o *Options) { o.UserDefault = .9 })}, nil, nil, 90 * mebi, 0},
		"bytes are rounded up":                          {Task{3, 0, 0, Default()}, nil, nil, 2, 0},
	} {
		t.Run(story, func(t *testing.T) {
			got := test.task.Reserve(digest(t, test.user...), digest(t, test.proxy...))
			if got.User != test.wantUser || got.Proxy != test.wantProxy {
				t.Errorf("got %d for the job, %d for the proxy; want %d and %d", got.User, got.Proxy, test.wantUser, test.wantProxy)
			}
			if got.Total() != test.wantUser+test.wantProxy {
				t.Errorf("total %d is not their sum", got.Total())
			}
		})
	}
}

func TestReserveStaysInItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 1<<44).Draw(t, "limit")
		task := Task{Limit: limit, Tmpfs: rapid.Int64Range(0, limit).Draw(t, "tmpfs"), ProxyEstimate: rapid.Int64Range(0, 1<<40).Draw(t, "estimate"), Options: Default()}
		user, proxy := new(Digest), new(Digest)
		for _, v := range rapid.SliceOf(rapid.Float64Range(0, 1e9)).Draw(t, "samples") {
			if err := Absorb(user, proxy, Sample{v, v}); err != nil {
				t.Fatal(err)
			}
		}
		r := task.Reserve(user, proxy)
		if r.User < task.Tmpfs || r.User > limit || float64(r.User) < float64(limit)*task.Options.UserLower-1 {
			t.Fatalf("%d of %d are reserved for the job", r.User, limit)
		}
		if e := float64(task.ProxyEstimate); float64(r.Proxy) < e/2 || float64(r.Proxy) > 2*e+2 {
			t.Fatalf("%d are reserved for the proxy that is thought to need %d", r.Proxy, task.ProxyEstimate)
		}
	})
}

// TestProxyReserveCoversWhatWasLearned, whatever the estimate was: proxies that need
// what others needed are within their reserve, and one that was not is the next time.
func TestProxyReserveCoversWhatWasLearned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task := Task{Limit: 1 << 30, ProxyEstimate: rapid.Int64Range(1, 64*mebi).Draw(t, "estimate"), Options: Default()}
		used := Usage{User: mebi, Proxy: rapid.Int64Range(1, 2*task.ProxyEstimate).Draw(t, "used")}
		user, proxy := new(Digest), new(Digest)
		for range 20 {
			if err := Absorb(user, proxy, task.Sample(used, nil)); err != nil {
				t.Fatal(err)
			}
		}
		if r := task.Reserve(user, proxy); r.Proxy < used.Proxy {
			t.Fatalf("%d are reserved for proxies that used %d", r.Proxy, used.Proxy)
		}
		had := task.Reserve(new(Digest), new(Digest))
		if used.Proxy <= had.Proxy {
			return
		}
		next, overdrafts := task.Rerun(new(Digest), new(Digest), used, had, Overdrafts{})
		if overdrafts.Proxy != 1 || next.Proxy < used.Proxy {
			t.Fatalf("%d are reserved after an overdraft with %d", next.Proxy, used.Proxy)
		}
	})
}

func TestValidate(t *testing.T) {
	for story, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"what holds by itself": {func(*Options) {}, ""},
		"all of the limit":     {func(o *Options) { *o = o.WithReserveFactor(1) }, ""},
		"a default of nothing": {func(o *Options) { o.UserDefault = 0 }, "user_job_memory_digest_default_value"},
		"a default above all":  {func(o *Options) { o.UserDefault = 1.1 }, "user_job_memory_digest_default_value"},
		"no number":            {func(o *Options) { o.UserLower = math.NaN() }, "user_job_memory_digest_lower_bound"},
		"bounds that cross":    {func(o *Options) { o.UserLower = .7 }, "user_job_memory_digest_default_value"},
		"a proxy without any":  {func(o *Options) { o.ProxyLower = 0 }, "job_proxy_memory_digest"},
		"a proxy's bounds":     {func(o *Options) { o.ProxyUpper = .9 }, "job_proxy_memory_digest"},
		"an endless proxy":     {func(o *Options) { o.ProxyUpper = math.Inf(1) }, "job_proxy_memory_digest"},
		"a smaller rerun":      {func(o *Options) { o.UserMultiplier = .9 }, "user_job_resource_overdraft_memory_multiplier"},
		"a far larger rerun":   {func(o *Options) { o.ProxyMultiplier = 11 }, "job_proxy_resource_overdraft_memory_multiplier"},
		"a rerun with double":  {func(o *Options) { o.UserMultiplier = 2 }, ""},
	} {
		t.Run(story, func(t *testing.T) {
			o := Default()
			test.change(&o)
			err := o.Validate()
			var fault *Fault
			if test.want == "" && err != nil || test.want != "" && (!errors.As(err, &fault) || fault.Name != test.want) {
				t.Errorf("got %v, want a fault of %q", err, test.want)
			}
		})
	}
}

func TestSample(t *testing.T) {
	const half = 8 * mebi
	task := Task{Limit: 100, ProxyEstimate: 2 * half, Options: Default()}
	had := func(user, proxy float64) *Reserve { r := task.reserve(user, proxy); return &r }
	for story, test := range map[string]struct {
		used      Usage
		overdraft *Reserve
		want      Sample
	}{
		"shares of the limit and of the estimate":     {Usage{20, half}, nil, Sample{.2, .5}},
		"nothing measured":                            {Usage{}, nil, Sample{}},
		"an overdraft counts for a tenth more":        {Usage{60, half}, had(.5, 1), Sample{1.1 * .6, .5}},
		"or for a tenth more than what it had":        {Usage{40, 1}, had(.5, 1), Sample{1.1 * .5, 1. / (2 * half)}},
		"but not for more than the limit":             {Usage{95, half}, had(.5, 1), Sample{1, .5}},
		"of a proxy that used more than it had":       {Usage{10, 4 * half}, had(.5, 1), Sample{1.1 * .5, 2}},
		"of a proxy whose factor is above what it is": {Usage{10, 2*half + 1}, had(.5, 1), Sample{1.1 * .5, 1.1 * (1 + 1./(2*half))}},
	} {
		t.Run(story, func(t *testing.T) {
			got := task.Sample(test.used, test.overdraft)
			if math.Abs(got.User-test.want.User) > 1e-12 || math.Abs(got.Proxy-test.want.Proxy) > 1e-12 {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestAbsorbLeavesOutWhatWasNotMeasured(t *testing.T) {
	user, proxy := new(Digest), new(Digest)
	for _, s := range []Sample{{.3, 0}, {0, 1}, {.4, 1}} {
		if err := Absorb(user, proxy, s); err != nil {
			t.Fatal(err)
		}
	}
	if user.Count() != 2 || proxy.Count() != 2 {
		t.Errorf("%d and %d samples, want 2 and 2", user.Count(), proxy.Count())
	}
	if err := Absorb(user, proxy, Sample{1, math.Inf(1)}); !errors.Is(err, ErrNotFinite) {
		t.Errorf("an infinite sample: %v", err)
	}
}

func TestRerun(t *testing.T) {
	const beside = 1000
	task := Task{Limit: 1000, ProxyEstimate: beside + 100, Options: Default()}
	double := task
	double.Options.UserMultiplier, double.Options.ProxyMultiplier = 2, 1.5
	for story, test := range map[string]struct {
		task           Task
		used           Usage
		before         Overdrafts
		hadU, hadP     float64
		wantU, wantP   float64
		wantOverdrafts Overdrafts
	}{
		"the job used more: it gets the limit":                  {task, Usage{400, 1}, Overdrafts{}, .3, 1, 1, .88, Overdrafts{1, 0}},
		"the proxy used more: it gets the most":                 {task, Usage{100, beside + 500}, Overdrafts{}, .3, 1, .2, 2, Overdrafts{0, 1}},
		"both":                                                  {task, Usage{400, beside + 500}, Overdrafts{}, .3, 1, 1, 2, Overdrafts{1, 1}},
		"neither, the job was nearer":                           {task, Usage{299, beside}, Overdrafts{}, .3, 1, 1, .88, Overdrafts{1, 0}},
		"neither, and the proxy was not measured":               {task, Usage{100, 0}, Overdrafts{}, .3, 1, 1, .88, Overdrafts{1, 0}},
		"neither, equally near: the proxy":                      {task, Usage{290, beside + 90}, Overdrafts{}, .3, 1, .2, 2, Overdrafts{0, 1}},
		"neither, and the job has all of its limit: the proxy":  {task, Usage{999, beside}, Overdrafts{1, 0}, 1, 1, 1, 2, Overdrafts{1, 1}},
		"neither, and the proxy has the most: the job":          {task, Usage{100, 2*beside + 199}, Overdrafts{0, 1}, .3, 2, 1, 2, Overdrafts{1, 1}},
		"twice of what it had when the task says so":            {double, Usage{400, 1}, Overdrafts{}, .3, 1, .6, .88, Overdrafts{1, 0}},
		"but not beyond the limit":                              {double, Usage{800, 1}, Overdrafts{}, .7, 1, 1, .88, Overdrafts{1, 0}},
		"the second time it gets the limit":                     {double, Usage{700, 1}, Overdrafts{1, 0}, .6, 1, 1, .88, Overdrafts{2, 0}},
		"the proxy then the job: the proxy keeps what it had":   {double, Usage{400, 1}, Overdrafts{0, 1}, .3, 1.5, .6, 1.5, Overdrafts{1, 1}},
		"twice of little is not less than what is known by now": {double, Usage{60, 1}, Overdrafts{}, .05, 1, .2, .88, Overdrafts{1, 0}},
	} {
		t.Run(story, func(t *testing.T) {
			got, overdrafts := test.task.Rerun(digest(t, .2), digest(t, .8), test.used, test.task.reserve(test.hadU, test.hadP), test.before)
			if math.Abs(got.UserFactor-test.wantU) > 1e-12 || math.Abs(got.ProxyFactor-test.wantP) > 1e-12 || overdrafts != test.wantOverdrafts {
				t.Errorf("got factors %v and %v after %+v, want %v and %v after %+v",
					got.UserFactor, got.ProxyFactor, overdrafts, test.wantU, test.wantP, test.wantOverdrafts)
			}
		})
	}
}

// TestEstimate: what a job reads, writes and keeps counts, and nothing else does.
func TestEstimate(t *testing.T) {
	const kibi = 1 << 10
	for story, test := range map[string]struct {
		streams Streams
		want    int64
	}{
		"neither reads nor writes":            {Streams{}, 10 * mebi},
		"reads and writes":                    {Streams{Inputs: 1, Writes: true}, 11*mebi + kibi},
		"reads many":                          {Streams{Inputs: 1000, Writes: true}, 11*mebi + 1000*kibi},
		"reads from a store":                  {Streams{Inputs: 1, FromStore: true, Writes: true}, 12*mebi + kibi},
		"reads from a store and writes there": {Streams{Inputs: 1, FromStore: true, Writes: true, ToStore: true}, 13*mebi + kibi},
		"keeps a file":                        {Streams{Kept: 1}, 10*mebi + kibi},
		"keeps a hundred in a store":          {Streams{Kept: 100, ToStore: true}, 11*mebi + 100*kibi},
	} {
		t.Run(story, func(t *testing.T) {
			if got := test.streams.Estimate(); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
