package simulate

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

const day = 24 * time.Hour

// Workload is operations that are alike, and when they come.
type Workload struct {
	Name     string
	Pool     scheduling.PoolName
	Arrivals Arrivals
	Shape    Shape
}

// Shape is what an operation is like.
type Shape struct {
	// Jobs is how many jobs it has.
	Jobs Distribution
	// Resources are what each job takes; CPU and Memory are drawn for each operation.
	Resources   resource.Amounts
	CPU, Memory Distribution
	// MemoryUsed is what a job uses of Memory, which then is its memory_limit, where Learns:
	// what is reserved for a job follows from what those before it have used.
	MemoryUsed Distribution
	Learns     bool
	// Length is how long a job runs, in seconds. Endless jobs run until the operation
	// ends.
	Length  Distribution
	Endless bool
	// Restart has completed jobs run again.
	Restart bool
	// Lasts is after how long the operation is completed, whatever is left of it;
	// For says that it is at all.
	Lasts Distribution
	For   bool
	// Gang operations are of use only as a whole; jobs of those that start together do so,
	// TogetherSize of them, 0: all.
	Gang, Together bool
	TogetherSize   int64
	// Leaves is how long an interrupted job takes to leave by itself, in seconds;
	// Interruptible says that it does.
	Leaves        Distribution
	Interruptible bool
	// Options are those of the operation, as they are written.
	Options map[string]any
}

// Submission is one operation that is started.
type Submission struct {
	At    time.Duration
	ID    string
	Pool  scheduling.PoolName
	Shape Shape
	// Lengths are those of its jobs by cookie, in seconds; nil: they are drawn.
	Lengths []float64
}

// Arrivals says when operations come: at times, every so often, or by chance.
type Arrivals struct {
	At      []time.Duration
	Every   time.Duration
	Poisson time.Duration
	// From and Until bound them; Until 0 is the end.
	From, Until time.Duration
	// Daily are the times of the day in which they come; none: always.
	Daily []window
}

// window is a part of each day, which may reach over midnight.
type window struct{ from, to time.Duration }

func (w window) has(at time.Duration) bool {
	at %= day
	if w.from < w.to {
		return w.from <= at && at < w.to
	}
	return at >= w.from || at < w.to
}

func (f *File) readWorkloads(top *fields) {
	value, _ := top.get("workloads")
	workloads := top.named(place{"workloads"}, value)
	for _, name := range slices.Sorted(maps.Keys(workloads)) {
		w, ok := top.object(place{"workloads", name}, workloads[name])
		if !ok {
			continue
		}
		read := Workload{Name: name, Pool: f.pool(w, scheduling.PoolName(name)), Arrivals: w.arrivals()}
		read.Shape = w.shape()
		w.end()
		f.Workloads = append(f.Workloads, read)
	}
}

// pool reads the pool of operations, by default the one of this name if there is one.
func (f *File) pool(w *fields, missing scheduling.PoolName) scheduling.PoolName {
	if !f.Pools.Has(missing) {
		missing = scheduling.DefaultPool
	}
	name := scheduling.PoolName(w.text("pool", string(missing)))
	if len(w.faults) == 0 && !f.Pools.Has(name) {
		w.fault(w.at.to("pool"), "there is no pool %q", name)
	}
	return name
}

// shape reads what an operation is like.
func (f *fields) shape() Shape {
	before := len(f.faults)
	s := Shape{Jobs: f.distribution("jobs", always(1), inNumbers), Gang: f.truth("gang"), Options: f.operationOptions("options")}
	if f.values["lasts"] != nil {
		s.For = true
		s.Lasts = f.distribution("lasts", always(0), inSeconds)
	}
	value, _ := f.get("job")
	job, _ := f.object(f.at.to("job"), value)
	job.job(&s)
	job.end()
	value, s.Together = f.get("gang_options")
	together, _ := f.object(f.at.to("gang_options"), value)
	s.TogetherSize = together.count("size", 0)
	together.end()
	most := math.Round(s.Jobs.Most())
	if most < 1 && len(f.faults) == before {
		f.fault(f.at.to("jobs"), "an operation has at least 1")
	}
	if float64(s.TogetherSize) > most && len(f.faults) == before {
		f.fault(f.at.to("gang_options").to("size"), "%d jobs start together, and an operation has no more than %v", s.TogetherSize, most)
	}
	if s.Together && s.Restart {
		f.fault(f.at.to("gang_options"), "jobs that run again when they complete are of use by themselves: take away job.restart, or this")
	}
	value, s.Interruptible = f.get("interruption")
	interruption, _ := f.object(f.at.to("interruption"), value)
	s.Leaves = interruption.distribution("leaves_after", always(0), inSeconds)
	interruption.end()
	if s.Endless && !s.For && len(f.faults) == before {
		f.fault(f.at, "its jobs never end: give job a length, or the operation lasts")
	}
	return s
}

// job reads what the jobs of an operation are like.
func (f *fields) job(s *Shape) {
	s.CPU = f.distribution(resource.CPU.String(), always(1), inNumbers)
	s.Learns = f.values["memory_used"] != nil
	if s.Learns != (f.values["memory_limit"] != nil) || s.Learns && f.values[resource.Memory.String()] != nil {
		f.fault(f.at, "memory_limit and memory_used go together, in place of memory")
	}
	s.Memory, s.MemoryUsed = f.distribution("memory_limit", always(0), inBytes), f.distribution("memory_used", always(0), inBytes)
	if exact := f.distribution(resource.Memory.String(), always(0), inBytes); !s.Learns {
		s.Memory = exact
	}
	var named [resource.Count]bool
	s.Resources, named = f.amounts(resource.UserSlots, resource.GPU, resource.Network)
	if !named[resource.UserSlots] {
		s.Resources.UserSlots = 1
	}
	s.Endless = f.values["length"] == nil
	s.Length = f.distribution("length", always(0), inSeconds)
	s.Restart = f.truth("restart")
}

// perJob draws what the jobs of one operation take. Cpu is at least a hundredth.
func (s Shape) perJob(chance *rand.Rand) resource.Amounts {
	a := s.Resources
	a.CPU = resource.Cores(s.CPU.Draw(chance))
	a.Memory = int64(min(s.Memory.Draw(chance), float64(resource.Infinite.Memory)))
	return a.Min(resource.Infinite)
}

// maxJobs bounds the jobs of an operation.
const maxJobs = 100_000_000

func (s Shape) jobs(chance *rand.Rand) int32 {
	return int32(max(1, min(math.Round(s.Jobs.Draw(chance)), maxJobs)))
}

// arrivals reads when operations come; at the beginning, once, if nothing is said.
func (f *fields) arrivals() Arrivals {
	a := Arrivals{At: []time.Duration{0}}
	value, given := f.get("arrivals")
	if !given {
		return a
	}
	at := f.at.to("arrivals")
	r, ok := f.object(at, value)
	if !ok {
		return a
	}
	ways := 0
	for _, name := range []string{"at", "every", "poisson"} {
		if r.values[name] != nil {
			ways++
		}
	}
	if ways != 1 {
		f.fault(at, "exactly one of at, every and poisson is needed")
	}
	a = Arrivals{Every: r.duration("every", 0), Poisson: r.duration("poisson", 0), From: r.duration("from", 0), Until: r.duration("until", 0)}
	for i, item := range r.items("at") {
		d, err := durationOf(item)
		if err != nil {
			f.fault(at.to("at").item(i), "%v", err)
		}
		a.At = append(a.At, d)
	}
	slices.Sort(a.At)
	a.Daily = r.daily("daily")
	if a.At == nil && a.Every < time.Millisecond && a.Poisson < time.Millisecond && ways == 1 {
		f.fault(at, "at least a millisecond has to be between two arrivals, or one time be given")
	}
	r.end()
	return a
}

// daily reads parts of the day: one, or a list.
func (f *fields) daily(name string) []window {
	value, given := f.get(name)
	if !given {
		return nil
	}
	items, ok := value.([]any)
	if !ok {
		items = []any{value}
	}
	var out []window
	for _, item := range items {
		text, _ := item.(string)
		from, to, _ := strings.Cut(text, "-")
		begin, beginErr := time.Parse("15:04", strings.TrimSpace(from))
		end, endErr := time.Parse("15:04", strings.TrimSpace(to))
		if beginErr != nil || endErr != nil || begin.Equal(end) {
			f.fault(f.at.to(name), "is %s: a part of the day is needed, such as 08:00-20:00", described(item))
			continue
		}
		out = append(out, window{sinceMidnight(begin), sinceMidnight(end)})
	}
	return out
}

func sinceMidnight(t time.Time) time.Duration {
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
}

// source makes the operations of a workload one after another.
type source struct {
	Workload
	chance *rand.Rand
	// next is the time of the next one; made is how many there were.
	next time.Duration
	made int
	end  time.Duration
}

// newSource returns a source whose chance depends on the seed and its name alone.
func newSource(w Workload, seed uint64, end time.Duration) *source {
	if w.Arrivals.Until > 0 {
		end = min(end, w.Arrivals.Until)
	}
	return &source{Workload: w, chance: rand.New(rand.NewPCG(seed, hash(w.Name))), next: w.Arrivals.From, end: end}
}

// take returns the next operation; false: there is none any more.
func (s *source) take() (Submission, bool) {
	for {
		at, ok := s.step()
		if !ok || at >= s.end {
			return Submission{}, false
		}
		if len(s.Arrivals.Daily) == 0 || slices.ContainsFunc(s.Arrivals.Daily, func(w window) bool { return w.has(at) }) {
			s.made++
			return Submission{At: at, ID: fmt.Sprintf("%s-%d", s.Name, s.made), Pool: s.Pool, Shape: s.Shape}, true
		}
	}
}

// step returns the next time at which one could come.
func (s *source) step() (time.Duration, bool) {
	a := &s.Arrivals
	switch {
	case len(a.At) > 0:
		at := a.At[0]
		a.At = a.At[1:]
		return at, true
	case a.Every > 0:
		at := s.next
		s.next += a.Every
		return at, true
	case a.Poisson > 0:
		s.next += time.Duration(s.chance.ExpFloat64() * float64(a.Poisson))
		return s.next, true
	}
	return 0, false
}

// hash is the FNV-1a hash of a text.
func hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}
