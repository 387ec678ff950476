package simulate

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// Workload is a series of similar operations, and when they are submitted.
type Workload struct {
	Name     string
	Arrivals *Arrivals `option:"arrivals"`
	Shape
}

// Shape describes an operation. Job and all fields with a default are set.
type Shape struct {
	Pool *scheduling.PoolName `option:"pool"`
	// Jobs is how many jobs it has.
	Jobs *Distribution[number] `option:"jobs" kind:"number" default:"1"`
	Job  *Job                  `option:"job"`
	// Lasts is the time in seconds after which the operation is completed, even with work left;
	// nil for never.
	Lasts *Distribution[seconds] `option:"lasts" kind:"time"`
	// Gang operations are useful only as a whole: all jobs run, or none.
	Gang *bool `option:"gang" default:"false"`
	// Together says that Size jobs of the operation start together; nil if jobs are independent.
	Together *struct {
		// Size is 0 for all.
		Size *int64 `option:"size" min:"0" default:"0"`
	} `option:"gang_options"`
	// Interruption says that preempted jobs leave by themselves; nil if they cannot.
	Interruption *struct {
		// LeavesAfter is how long a job takes to leave, in seconds.
		LeavesAfter *Distribution[seconds] `option:"leaves_after" kind:"time" default:"0s"`
	} `option:"interruption"`
	Options *pooltree.OperationOptions `option:"options"`
}

// Job describes the jobs of an operation. CPU and memory are drawn once per operation.
type Job struct {
	UserSlots *int64                `option:"user_slots" min:"0" max:"1e12" default:"1"`
	CPU       *Distribution[number] `option:"cpu" kind:"number" default:"1"`
	GPU       *int64                `option:"gpu" min:"0" max:"1e12" default:"0"`
	Network   *int64                `option:"network" min:"0" max:"1e12" default:"0"`
	Memory    *Distribution[size]   `option:"memory" kind:"number" default:"0"`
	// MemoryUsed is what a job uses of MemoryLimit; the two replace Memory. The reserve of a
	// job is then learned from the jobs before it.
	MemoryLimit *Distribution[size] `option:"memory_limit" kind:"size"`
	MemoryUsed  *Distribution[size] `option:"memory_used" kind:"size"`
	// Length is how long a job runs, in seconds. nil means that it runs until the operation
	// ends.
	Length *Distribution[seconds] `option:"length" kind:"time"`
	// Restart makes completed jobs run again.
	Restart *bool `option:"restart" default:"false"`
}

// Submission is one operation to submit.
type Submission struct {
	At time.Duration
	ID string
	// Kind is the name of its workload; its id if it has none.
	Kind string
	// Lengths are the lengths of its jobs by cookie; nil if they are drawn.
	Lengths []span
	Shape
}

// Arrivals says when operations are submitted: at given times, periodically, or at random.
type Arrivals struct {
	At      []span `option:"at" kind:"list of times"`
	Every   *span  `option:"every" kind:"time" default:"0s"`
	Poisson *span  `option:"poisson" kind:"time" default:"0s"`
	// From and Until bound the arrivals; Until 0 means the end of the run.
	From  *span `option:"from" kind:"time" default:"0s"`
	Until *span `option:"until" kind:"time" default:"0s"`
	// Daily limits arrivals to these parts of the day; empty for no limit.
	Daily []window `option:"daily" kind:"list of daily time windows" short:"*"`
}

// workload checks and completes a workload. Without arrivals it has one operation, submitted at the
// beginning.
func (r *reader) workload(w *Workload) {
	if w.Arrivals == nil {
		w.Arrivals = &Arrivals{At: make([]span, 1)}
	} else {
		r.arrivals(w.Arrivals)
	}
	r.shape(&w.Shape, scheduling.PoolName(w.Name))
	option.Complete(w.Arrivals)
}

func (r *reader) arrivals(a *Arrivals) {
	ways := 0
	for _, way := range []any{&a.At, &a.Every, &a.Poisson} {
		if r.Given(a, way) != nil {
			ways++
		}
	}
	often := func(every *span) bool { return every == nil || every.Duration < time.Millisecond }
	switch {
	case ways != 1:
		r.Fault(a, nil, "exactly one of at, every and poisson is needed")
	case len(a.At) == 0 && often(a.Every) && often(a.Poisson):
		r.Fault(a, nil, "give at least one time, or an interval of at least 1ms")
	}
	slices.SortFunc(a.At, func(a, b span) int { return int(a.Duration - b.Duration) })
}

// shape checks and completes the shape of an operation. An operation without a pool gets the pool
// `missing` if it exists, or else the default pool.
func (r *reader) shape(s *Shape, missing scheduling.PoolName) {
	if !r.Pools.Has(missing) {
		missing = scheduling.DefaultPool
	}
	if s.Pool == nil {
		s.Pool = &missing
	}
	if len(r.Faults) == 0 && !r.poolless && !r.Pools.Has(*s.Pool) {
		r.Fault(s, &s.Pool, "there is no pool %q", *s.Pool)
	}
	if s.Options != nil {
		r.Adopt(s.Options, s.Options.Validate())
	}
	known := !r.Bad(s, &s.Job)
	if s.Job == nil {
		s.Job = new(Job)
	}
	learns := r.Given(s.Job, &s.Job.MemoryUsed) != nil
	if learns != (r.Given(s.Job, &s.Job.MemoryLimit) != nil) || learns && s.Job.Memory != nil {
		r.Fault(s.Job, nil, "memory_limit and memory_used go together, in place of memory")
	}
	if known && r.Given(s.Job, &s.Job.Length) == nil && s.Job.Length == nil && s.Lasts == nil {
		r.Fault(s, nil, "its jobs never end: set job.length, or lasts")
	}
	if s.Together != nil && s.Job.Restart != nil && *s.Job.Restart {
		r.Fault(s, &s.Together, "jobs that run again when they complete do not depend on each other: remove job.restart, or this")
	}
	most := 1.0
	if s.Jobs != nil {
		most = math.Round(s.Jobs.Most())
	}
	if most < 1 {
		r.Fault(s, &s.Jobs, "an operation must have at least 1")
	}
	if s.Together != nil && s.Together.Size != nil && float64(*s.Together.Size) > most && len(r.Faults) == 0 {
		r.Fault(s.Together, &s.Together.Size, "%d jobs start together, but an operation has at most %v", *s.Together.Size, most)
	}
	// The options of the operation get no defaults here: those of its pool apply.
	options := s.Options
	option.Complete(s)
	s.Options = options
}

// perJob draws the resources of one operation's jobs. Their memory is an upper bound.
func (s *Shape) perJob(chance *rand.Rand) resource.Amounts {
	memory := s.Job.Memory
	if s.Job.MemoryLimit != nil {
		memory = s.Job.MemoryLimit
	}
	a := resource.Amounts{UserSlots: *s.Job.UserSlots, GPU: *s.Job.GPU, Network: *s.Job.Network, CPU: resource.Cores(s.Job.CPU.Draw(chance))}
	a.Memory = int64(min(memory.Draw(chance), float64(resource.Infinite.Memory)))
	return a.Min(resource.Infinite)
}

// maxJobs bounds the jobs of an operation.
const maxJobs = 100_000_000

func (s *Shape) jobs(chance *rand.Rand) int32 {
	return int32(max(1, min(math.Round(s.Jobs.Draw(chance)), maxJobs)))
}

// settings are the scheduling options of the operation.
func (s *Shape) settings() pooltree.OperationOptions {
	if s.Options == nil {
		return pooltree.OperationOptions{}
	}
	return *s.Options
}

// source makes the operations of a workload one after another.
type source struct {
	*Workload
	chance *rand.Rand
	// `at` holds the given times that are still to come. If no times are given, `next` is the
	// time of the next operation. `made` counts the operations so far.
	at   []span
	next time.Duration
	made int
	end  time.Duration
}

// newSource returns a source whose random numbers depend only on the seed and the workload's
// name.
func newSource(w *Workload, seed uint64, end time.Duration) *source {
	if until := w.Arrivals.Until.Duration; until > 0 {
		end = min(end, until)
	}
	return &source{Workload: w, chance: rand.New(rand.NewPCG(seed, hash(w.Name))), at: w.Arrivals.At, next: w.Arrivals.From.Duration, end: end}
}

// take returns the next operation; false if there is none left.
func (s *source) take() (Submission, bool) {
	for {
		at, ok := s.step()
		if !ok || at >= s.end {
			return Submission{}, false
		}
		if len(s.Arrivals.Daily) == 0 || slices.ContainsFunc(s.Arrivals.Daily, func(w window) bool { return w.has(at) }) {
			s.made++
			return Submission{At: at, ID: fmt.Sprintf("%s-%d", s.Name, s.made), Kind: s.Name, Shape: s.Shape}, true
		}
	}
}

// step returns the next possible arrival time, before Daily is applied.
func (s *source) step() (time.Duration, bool) {
	a := s.Arrivals
	switch {
	case len(s.at) > 0:
		at := s.at[0]
		s.at = s.at[1:]
		return at.Duration, true
	case a.Every.Duration > 0:
		at := s.next
		s.next += a.Every.Duration
		return at, true
	case a.Poisson.Duration > 0:
		s.next += time.Duration(s.chance.ExpFloat64() * float64(a.Poisson.Duration))
		return s.next, true
	}
	return 0, false
}

// hash is the FNV-1a hash of a text.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}
