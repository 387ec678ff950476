package simulate

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling/option"
)

// noFiles is for simulations that name no others.
func noFiles(name string) ([]byte, error) { return nil, errors.New("no file " + name) }

func mustRead(t *testing.T, text string, changes Changes) *File {
	t.Helper()
	f, err := Read([]byte(text), noFiles, changes)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// small is a simulation of 10 cpu and one pool.
const small = `duration: 1h
nodes: [{count: 5, cpu: 2, memory: 8GiB}]
pools:
  ads: {weight: 2}
workloads:
  ads: {jobs: 10, job: {cpu: 1, memory: 1GiB, length: 5m}}
`

func TestFaultsHaveTheirPlaces(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"unknown key":            {small + "sed: 3\n", "line 7, column 1: sed: unknown option; did you mean seed?"},
		"unknown key of a job":   {strings.Replace(small, "length", "long", 1), "line 6, column 47: workloads.ads.job.long: unknown option: use one of user_slots, cpu, gpu"},
		"unknown option":         {strings.Replace(small, "weight", "wight", 1), "line 4, column 9: pools.ads.wight: unknown option; did you mean weight?"},
		"unknown pool":           {strings.Replace(small, "{jobs", "{pool: adds, jobs", 1), `workloads.ads.pool: there is no pool "adds"`},
		"no unit":                {strings.Replace(small, "5m", "5", 1), "is the number 5: a time with a unit is needed, such as 30s, 12h or 7d, or an object with one of uniform"},
		"negative":               {strings.Replace(small, "5m", "-5m", 1), "a time with a unit is needed"},
		"memory used of nothing": {strings.Replace(small, "memory: 1GiB", "memory_used: 1GiB", 1), "workloads.ads.job: memory_limit and memory_used go together, in place of memory"},
		"no size":                {strings.Replace(small, "memory: 1GiB", "memory: much", 1), `workloads.ads.job.memory: is "much": a size is needed`},
		"two shapes":             {strings.Replace(small, "5m", "{uniform: [1m, 2m], exponential: 1m}", 1), "exactly one of uniform, exponential, lognormal, empirical is needed"},
		"bounds the wrong way":   {strings.Replace(small, "5m", "{uniform: [2m, 1m]}", 1), "the first bound is more than the second"},
		"no sigma":               {strings.Replace(small, "5m", "{lognormal: {median: 1m}}", 1), "the median and the width are needed"},
		"empty list":             {strings.Replace(small, "5m", "{empirical: []}", 1), "a list of values is needed"},
		"no weights":             {strings.Replace(small, "5m", "{empirical: [{value: 1m, weight: 0}]}", 1), "all weights are 0"},
		"least above most":       {strings.Replace(small, "5m", "{exponential: 1m, least: 2m, most: 1m}", 1), "option least must not be greater than option most"},
		"endless":                {strings.Replace(small, ", length: 5m", "", 1), "its jobs never end: set job.length, or lasts"},
		"two arrivals":           {strings.Replace(small, "{jobs", "{arrivals: {every: 1h, poisson: 1h}, jobs", 1), "exactly one of at, every and poisson is needed"},
		"no arrivals":            {strings.Replace(small, "{jobs", "{arrivals: {every: 0s}, jobs", 1), "give at least one time, or an interval of at least 1ms"},
		"not of a day":           {strings.Replace(small, "{jobs", "{arrivals: {every: 1h, daily: 8-26}, jobs", 1), "must be a range of times of day, such as 08:00-20:00"},
		"too many failures":      {small + "failures: [{at: 1m, nodes: 6}]\n", "failures[0].nodes: 6 nodes are to fail, but there are only 5"},
		"no jobs":                {strings.Replace(small, "jobs: 10", "jobs: 0", 1), "workloads.ads.jobs: an operation must have at least 1"},
		"a gang of more":         {strings.Replace(small, "jobs: 10", "jobs: {uniform: [1, 10]}, gang_options: {size: 11}", 1), "workloads.ads.gang_options.size: 11 jobs start together, but an operation has at most 10"},
		"nodes without cpu":      {strings.Replace(small, "cpu: 2", "cpu: 0", 1), "nodes[0]: nodes need cpu, such as 32"},
		"no nodes":               {"workloads: {default: {job: {length: 1m}}}", "must be 1 to"},
		"nothing runs":           {"nodes: [{cpu: 1}]", "no workloads and no trace"},
		"nodes twice":            {strings.Replace(small, "}]", "}, {cpu: 1}]", 1), `nodes[1]: there are nodes named "n" already`},
		"no volume":              {small + "volumes: {ads: 60s}\n", `line 7, column 10: volumes.ads: there is no pool "ads" with integral_guarantees`},
		"a failure of nothing":   {small + "failures: [{at: 1m}]\n", "failures[0]: either a number of nodes is needed, or leader: true"},
		"longest below the rest": {small + "longest_update_period: 100ms\n", "100ms is less than fair_share_update_period, 1s"},
		"tolerance":              {small + "volume_tolerance: 2\n", "volume_tolerance: 2 is not a number above 0 and at most 1"},
		"options of operations":  {strings.Replace(small, "{jobs", "{options: {wieght: 2}, jobs", 1), "workloads.ads.options.wieght: unknown option; did you mean weight?"},
		"a trace that is not":    {small + "trace: none.jsonl\n", "trace: no file none.jsonl"},
		"control":                {small + "control:\n  pools: {ads: {wight: 3}}\n", "control run: simulation: line 8, column 17: pools.ads.wight: unknown option"},
		"control that is none":   {small + "control: 5\n", "line 7, column 10: control: is the number 5, not an object"},
		"no document":            {"- 1", "an object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read([]byte(test.text), noFiles, Changes{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestAllFaultsAreTold(t *testing.T) {
	_, err := Read([]byte(strings.ReplaceAll(strings.Replace(small, "weight", "wight", 1), "5m", "5")+"sed: 1\n"), noFiles, Changes{})
	var faults *option.Error
	if !errors.As(err, &faults) || len(faults.Faults) != 3 || !strings.Contains(err.Error(), "3 errors") {
		t.Errorf("error %v, want three faults", err)
	}
}

func TestDefaults(t *testing.T) {
	f := mustRead(t, small, Changes{})
	if f.Seed != 1 || f.Heartbeat != 5*time.Second || f.Pace != (Pace{time.Second, 10 * time.Minute, 0.05}) || f.Sample != 4*time.Second || f.Control != nil {
		t.Errorf("%+v", f)
	}
	if got := f.Nodes[0].Resources.UserSlots; got != 8 {
		t.Errorf("%d slots, want 4 a core", got)
	}
}

func TestChangesAndControl(t *testing.T) {
	text := small + "control: {name: heavier, pools: {ads: {weight: 7}}, seed: 9}\n"
	weight := func(f *File) float64 {
		p, _ := f.Pools.Pool("ads")
		if p.Options.Weight == nil {
			return 0
		}
		return *p.Options.Weight
	}
	setting := func(text string) []*option.Value {
		s, err := ReadSetting(text)
		if err != nil {
			t.Fatal(err)
		}
		return []*option.Value{s}
	}
	for name, test := range map[string]struct {
		changes             Changes
		wantName            string
		wantBase, wantOther float64
	}{
		"as the file says":       {Changes{}, "heavier", 2, 7},
		"set in both":            {Changes{Set: setting("pools.ads.weight=3")}, "heavier", 3, 7},
		"another control":        {Changes{Control: setting("pools.ads.weight=4")}, "control", 2, 4},
		"without an option":      {Changes{Control: setting("pools.ads.weight=")}, "control", 2, 0},
		"set, and no control":    {Changes{Set: setting("pools.ads.weight=3"), NoControl: true}, "", 3, 0},
		"a new object on a path": {Changes{Control: setting("options.smooth=1")}, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Read([]byte(text), noFiles, test.changes)
			if test.wantBase == 0 {
				if err == nil || !strings.Contains(err.Error(), "options.smooth") {
					t.Errorf("error %v, want one about options.smooth", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if weight(f) != test.wantBase || f.ControlName != test.wantName || f.Control != nil && weight(f.Control) != test.wantOther {
				t.Errorf("weight %v, control %q %v", weight(f), f.ControlName, f.Control)
			}
			if (f.Control == nil) != test.changes.NoControl {
				t.Errorf("control run %v", f.Control)
			}
		})
	}
	for _, text := range []string{"weight", "=3", "pools..weight=1", "a={"} {
		if _, err := ReadSetting(text); err == nil {
			t.Errorf("setting %q: no error", text)
		}
	}
}

func TestDurations(t *testing.T) {
	spanOf := func(value any) (time.Duration, error) {
		var s span
		err := s.ReadOption(option.Of(value))
		return s.Duration, err
	}
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "7d": 7 * day, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "0s": 0} {
		if got, err := spanOf(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, value := range []any{"", "d", "1", "-1s", "1h-2d", "1d-1h", 5.0, nil, "99999999d", "1dd"} {
		if got, err := spanOf(value); err == nil {
			t.Errorf("%v: %v, want an error", value, got)
		}
	}
}

// TestDrawnNumbers compares what is drawn with what the shape promises.
func TestDrawnNumbers(t *testing.T) {
	for name, test := range map[string]struct {
		of                  string
		mean, within        float64
		wantLeast, wantMost float64
	}{
		"constant":    {"5m", 300, 0, 300, 300},
		"uniform":     {"{uniform: [1m, 3m]}", 120, 2, 60, 180},
		"exponential": {"{exponential: 10m}", 600, 15, 0, math.Inf(1)},
		"lognormal":   {"{lognormal: {median: 1m, sigma: 0.5}}", 60 * math.Exp(0.125), 1.5, 0, math.Inf(1)},
		"empirical":   {"{empirical: [1s, {value: 11s, weight: 3}, 1s]}", 7, 0.2, 1, 11},
		"bounded":     {"{exponential: 10m, least: 1m, most: 2m}", 111.7, 1, 60, 120},
	} {
		t.Run(name, func(t *testing.T) {
			d := mustRead(t, strings.Replace(small, "5m", test.of, 1), Changes{}).Workloads[0].Job.Length
			chance := rand.New(rand.NewPCG(1, 2))
			sum, least, most := 0.0, math.Inf(1), 0.0
			const draws = 20000
			for range draws {
				x := d.Draw(chance)
				sum, least, most = sum+x, min(least, x), max(most, x)
			}
			if mean := sum / draws; math.Abs(mean-test.mean) > test.within || least < test.wantLeast || most > test.wantMost {
				t.Errorf("mean %v from %v to %v, want %v from %v to %v", mean, least, most, test.mean, test.wantLeast, test.wantMost)
			}
		})
	}
}

func TestArrivals(t *testing.T) {
	const h = time.Hour
	for name, test := range map[string]struct {
		of   string
		want []time.Duration
	}{
		"nothing said":    {"", []time.Duration{0}},
		"at times":        {"arrivals: {at: [2h, 30m, 2d]},", []time.Duration{h / 2, 2 * h}},
		"every":           {"arrivals: {every: 6h, from: 1h},", []time.Duration{h, 7 * h, 13 * h, 19 * h}},
		"until":           {"arrivals: {every: 6h, until: 12h},", []time.Duration{0, 6 * h}},
		"by day":          {"arrivals: {every: 3h, daily: 08:00-15:00},", []time.Duration{9 * h, 12 * h}},
		"over midnight":   {"arrivals: {every: 4h, daily: 20:00-04:00},", []time.Duration{0, 20 * h}},
		"in two parts":    {"arrivals: {every: 4h, daily: ['03:00-05:00', '15:00-17:00']},", []time.Duration{4 * h, 16 * h}},
		"later than ends": {"arrivals: {at: [25h]},", nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := mustRead(t, strings.Replace(strings.Replace(small, "1h", "1d", 1), "{jobs", "{"+test.of+" jobs", 1), Changes{})
			s := newSource(f.Workloads[0], 1, f.Duration)
			var got []time.Duration
			for next, ok := s.take(); ok; next, ok = s.take() {
				got = append(got, next.At)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("arrivals %v, want %v", got, test.want)
			}
		})
	}
	f := mustRead(t, strings.Replace(strings.Replace(small, "1h", "100d", 1), "{jobs", "{arrivals: {poisson: 1h}, jobs", 1), Changes{})
	s, count := newSource(f.Workloads[0], 1, f.Duration), 0
	for _, ok := s.take(); ok; _, ok = s.take() {
		count++
	}
	if count < 2250 || count > 2550 {
		t.Errorf("%d arrivals in 100 days, want some 2400", count)
	}
}

func TestTrace(t *testing.T) {
	trace := `{"at": "10m", "id": "b", "pool": "ads", "lengths": ["1m", "2m"], "job": {"cpu": 2, "memory": "1GiB"}}

{"at": "5m", "jobs": 3, "pool": "ads", "job": {"length": "1m"}}
`
	open := func(text string) func(string) ([]byte, error) {
		return func(string) ([]byte, error) { return []byte(text), nil }
	}
	text := "nodes: [{cpu: 8}]\npools: {ads: {}}\ntrace: jobs.jsonl\n"
	f, err := Read([]byte(text), open(trace), Changes{})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Trace) != 2 || f.Trace[0].ID != "trace-3" || f.Trace[0].At != 5*time.Minute || f.Trace[1].ID != "b" || !slices.Equal(f.Trace[1].Lengths, []span{{time.Minute}, {2 * time.Minute}}) {
		t.Errorf("trace %+v", f.Trace)
	}
	for line, want := range map[string]string{
		`{"at": "1m", "job": {"length": "1m"}, "poool": "ads"}`:     "line 3, column 8: trace: jobs.jsonl, line 1: poool: unknown option; did you mean pool?",
		`{"at": 60, "pool": "ads", "job": {"length": "1m"}}`:        "at: is the number 60: a time with a unit is needed",
		`{"at": "1m", "pool": "ads", "jobs": 2, "lengths": ["1m"]}`: "jobs: lengths is set too: give only one of the two",
		`{"at": "1m", "pool": "ads", "lengths": ["1m", 3]}`:         "lengths[1]: is the number 3",
		`{"at": "1m", "pool": "nowhere", "job": {"length": "1m"}}`:  `pool: there is no pool "nowhere"`,
		`{"at": "1m"`: "jobs.jsonl, line 1",
		"\n" + `{"at": "1m", "pool": "ads", "pool": "b", "job": {"length": ""}}`: "jobs.jsonl, line 2",
	} {
		if _, err := Read([]byte(text), open(line), Changes{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", line, err, want)
		}
	}
}

// TestTraceWithoutPools: a mistake among the pools is told, and not that lines of a trace name pools.
func TestTraceWithoutPools(t *testing.T) {
	line := `{"pool": "ads", "job": {"length": "1m"}}`
	_, err := Read([]byte("nodes: [{cpu: 8}]\npools: {ads: {wieght: 1}}\ntrace: jobs.jsonl\n"), func(string) ([]byte, error) { return []byte(line), nil }, Changes{})
	if err == nil || !strings.Contains(err.Error(), "did you mean weight?") || strings.Contains(err.Error(), "there is no pool") {
		t.Errorf("got %v", err)
	}
}

// TestQueueIsInOrder takes events out by time, and by their order within a moment.
func TestQueueIsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		type wanted struct {
			at  time.Duration
			seq int
		}
		var left []wanted
		seq, took := 0, 0
		check := func() {
			slices.SortStableFunc(left, func(a, b wanted) int { return cmp.Compare(a.at, b.at) })
			at, ok := q.next()
			if !ok || at != left[0].at {
				t.Fatalf("next is %v %v, want %v", at, ok, left[0].at)
			}
			if _ = q.take()(); took != left[0].seq {
				t.Fatalf("took %d, want %d", took, left[0].seq)
			}
			left = left[1:]
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if len(left) > 0 && rapid.IntRange(0, 2).Draw(t, "take") == 0 {
				check()
				continue
			}
			seq++
			at := time.Duration(rapid.IntRange(0, 5).Draw(t, "at"))
			mine := seq
			q.add(at, func() error {
				took = mine
				return nil
			})
			left = append(left, wanted{at, seq})
		}
		for len(left) > 0 {
			check()
		}
		if _, ok := q.next(); ok {
			t.Fatal("events are left")
		}
	})
}

// FuzzRead reads whatever comes without a panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte(small))
	for _, name := range examples(f) {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Read(data, func(string) ([]byte, error) { return data, nil }, Changes{})
		if err == nil && (file.Duration <= 0 || len(file.Nodes) == 0) {
			t.Errorf("accepted: %+v", file)
		}
	})
}
