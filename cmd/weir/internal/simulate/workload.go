package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// Workload is operations that are alike, and when they come.
type Workload struct {
	Name     string
	Arrivals *Arrivals `option:"arrivals"`
	Shape
}

// Shape is what an operation is like. Job and what has a default is set.
type Shape struct {
	Pool *scheduling.PoolName `option:"pool"`
	// Jobs is how many jobs it has.
	Jobs *Distribution[number] `option:"jobs" kind:"number" default:"1"`
	Job  *Job                  `option:"job"`
	// Lasts is after how many seconds the operation is completed, whatever is left of it; nil: it is not.
	Lasts *Distribution[seconds] `option:"lasts" kind:"time"`
	// Gang operations are of use only as a whole.
	Gang *bool `option:"gang" default:"false"`
	// Together says that so many of its jobs start together; nil: they do not.
	Together *struct {
		// Size is 0 for all.
		Size *int64 `option:"size" min:"0" default:"0"`
	} `option:"gang_options"`
	// Interruption says that jobs that are told to leave do; nil: they do not.
	Interruption *struct {
		// LeavesAfter is how many seconds that takes.
		LeavesAfter *Distribution[seconds] `option:"leaves_after" kind:"time" default:"0s"`
	} `option:"interruption"`
	Options *pooltree.OperationOptions `option:"options"`
}

// Job is what the jobs of an operation are like. CPU and memory are drawn for each operation.
type Job struct {
	UserSlots *int64                `option:"user_slots" min:"0" max:"1e12" default:"1"`
	CPU       *Distribution[number] `option:"cpu" kind:"number" default:"1"`
	GPU       *int64                `option:"gpu" min:"0" max:"1e12" default:"0"`
	Network   *int64                `option:"network" min:"0" max:"1e12" default:"0"`
	Memory    *Distribution[size]   `option:"memory" kind:"number" default:"0"`
	// MemoryUsed is what a job uses of MemoryLimit, in place of Memory: what is reserved for
	// a job follows from what those before it have used.
	MemoryLimit *Distribution[size] `option:"memory_limit" kind:"size"`
	MemoryUsed  *Distribution[size] `option:"memory_used" kind:"size"`
	// Length is how many seconds a job runs; nil: until the operation ends.
	Length *Distribution[seconds] `option:"length" kind:"time"`
	// Restart has completed jobs run again.
	Restart *bool `option:"restart" default:"false"`
}

// Submission is one operation that is started.
type Submission struct {
	At time.Duration
	ID string
	// Lengths are those of its jobs by cookie; nil: they are drawn.
	Lengths []span
	Shape
}

// Arrivals says when operations come: at times, every so often, or by chance.
type Arrivals struct {
	At      []span `option:"at" kind:"list of times"`
	Every   *span  `option:"every" kind:"time" default:"0s"`
	Poisson *span  `option:"poisson" kind:"time" default:"0s"`
	// From and Until bound them; Until 0 is the end.
	From  *span `option:"from" kind:"time" default:"0s"`
	Until *span `option:"until" kind:"time" default:"0s"`
	// Daily are the times of the day in which they come; none: always.
	Daily []window `option:"daily" kind:"list of parts of the day" short:"*"`
}

// workload takes a workload. It comes at the beginning, once, if nothing is said.
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
		r.Fault(a, nil, "at least a millisecond has to be between two arrivals, or one time be given")
	}
	slices.SortFunc(a.At, func(a, b span) int { return int(a.Duration - b.Duration) })
}

// shape takes what an operation is like. It runs in the pool of this name if there is one, unless
// it says another.
func (r *reader) shape(s *Shape, missing scheduling.PoolName) {
	if !r.Pools.Has(missing) {
		missing = scheduling.DefaultPool
	}
	if s.Pool == nil {
		s.Pool = &missing
	}
	if len(r.Faults) == 0 && !r.Pools.Has(*s.Pool) {
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
		r.Fault(s, nil, "its jobs never end: give job a length, or the operation lasts")
	}
	if s.Together != nil && s.Job.Restart != nil && *s.Job.Restart {
		r.Fault(s, &s.Together, "jobs that run again when they complete are of use by themselves: take away job.restart, or this")
	}
	most := 1.0
	if s.Jobs != nil {
		most = math.Round(s.Jobs.Most())
	}
	if most < 1 {
		r.Fault(s, &s.Jobs, "an operation has at least 1")
	}
	if s.Together != nil && s.Together.Size != nil && float64(*s.Together.Size) > most && len(r.Faults) == 0 {
		r.Fault(s.Together, &s.Together.Size, "%d jobs start together, and an operation has no more than %v", *s.Together.Size, most)
	}
	// What the operation is told has no defaults here: they are those of its pool.
	options := s.Options
	option.Complete(s)
	s.Options = options
}

// perJob draws what the jobs of one operation take, of memory at most. Cpu is at least a hundredth.
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

// settings are the options of the operation in its tree.
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
	// at are times of operations to come, next is the time of the next one otherwise; made is how many there were.
	at   []span
	next time.Duration
	made int
	end  time.Duration
}

// newSource returns a source whose chance depends on the seed and its name alone.
func newSource(w *Workload, seed uint64, end time.Duration) *source {
	if until := w.Arrivals.Until.Duration; until > 0 {
		end = min(end, until)
	}
	return &source{Workload: w, chance: rand.New(rand.NewPCG(seed, hash(w.Name))), at: w.Arrivals.At, next: w.Arrivals.From.Duration, end: end}
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
			return Submission{At: at, ID: fmt.Sprintf("%s-%d", s.Name, s.made), Shape: s.Shape}, true
		}
	}
}

// step returns the next time at which one could come.
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
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}
