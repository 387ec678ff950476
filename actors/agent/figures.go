package agent

import (
	"maps"
	"sync"
	"time"

	"weir/actors/agent/filecache"
	"weir/actors/agent/journal"
	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// figures counts what an agent does. The zero value is ready.
type figures struct {
	mu    sync.Mutex
	stats Stats
}

// Stats is what an agent has done since it started, and how it stands.
type Stats struct {
	// Registered is set once a leader has registered the agent. LeaseLeft is how
	// long the node may go on without hearing from one; 0: no longer.
	Registered bool
	LeaseLeft  time.Duration
	// HeartbeatsSent counts registrations too; those acknowledged renewed the
	// lease.
	HeartbeatsSent, HeartbeatsAcknowledged uint64
	// PlansRefused counts plans of leaders whose time is over, or that could not
	// be taken.
	PlansRefused uint64
	// Starts and StartsFailed count jobs whose processes were to be started.
	Starts, StartsFailed uint64
	// Ended counts jobs that nobody waits for any more.
	Ended map[JobEnd]uint64
	// Stages are those that jobs have passed.
	Stages map[Stage]StageSum
	// Jobs are those held, by phase, and MemoryUsed what they used together, both
	// as of the last heartbeat.
	Jobs       map[string]int
	MemoryUsed int64
	// MemoryReserved is what of the node's memory is held for jobs, MemoryLimit what it
	// has for them, both as of the last look at it.
	MemoryReserved, MemoryLimit int64
	// Files is what the cache of jobs' files has, and has done.
	Files filecache.Stats
	// Output is how much ended jobs wrote, in bytes.
	Output Output
	// DiskFull is set while no new jobs are taken for lack of space. Journal is what
	// has been written to the agent's journal.
	DiskFull bool
	Journal  journal.Stats
}

// JobEnd is how a job ended.
type JobEnd struct {
	// State is completed, failed or aborted; Reason is why it was aborted.
	State, Reason string
}

// StageSum is how many jobs have passed a stage, and how long they were in it together.
type StageSum struct {
	Jobs uint64
	Took time.Duration
}

// Output is how much jobs wrote, in bytes, and how much of it was not kept.
type Output struct{ Stdout, Stderr, Dropped int64 }

// Stats returns a snapshot.
func (a *Agent) Stats() Stats {
	f := &a.shared.figures
	f.mu.Lock()
	defer f.mu.Unlock()
	stats := f.stats
	stats.Ended, stats.Jobs, stats.Stages = maps.Clone(stats.Ended), maps.Clone(stats.Jobs), maps.Clone(stats.Stages)
	stats.Journal, stats.Files = a.shared.journal.Stats(), a.shared.files.Stats()
	stats.LeaseLeft = max(time.Until(*a.shared.until.Load()), 0)
	return stats
}

func (f *figures) change(how func(*Stats)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(&f.stats)
}

// asked takes what a heartbeat says of jobs.
func (f *figures) asked(held []*actorpb.HeldJob) {
	jobs, memory := map[string]int{}, int64(0)
	for _, job := range held {
		jobs[job.GetPhase()]++
		memory += job.GetMemory()
	}
	f.change(func(s *Stats) {
		s.HeartbeatsSent++
		s.Jobs, s.MemoryUsed = jobs, memory
	})
}

func (f *figures) answered(outcome Outcome) {
	f.change(func(s *Stats) {
		s.Registered = s.Registered || outcome.Registered
		if outcome.Lease > 0 {
			s.HeartbeatsAcknowledged++
		}
	})
}

func (f *figures) full(is bool) { f.change(func(s *Stats) { s.DiskFull = is }) }

// memory takes what jobs use of a node's memory.
func (f *figures) memory(limit int64, uses []MemoryUse) {
	reserved := int64(0)
	for _, use := range uses {
		reserved += use.Reserve
	}
	f.change(func(s *Stats) { s.MemoryReserved, s.MemoryLimit = reserved, limit })
}

func (f *figures) refused() { f.change(func(s *Stats) { s.PlansRefused++ }) }

// passed takes stages that a job has passed.
func (f *figures) passed(stages []StageTime) {
	if len(stages) == 0 {
		return
	}
	f.change(func(s *Stats) {
		if s.Stages == nil {
			s.Stages = map[Stage]StageSum{}
		}
		for _, stage := range stages {
			sum := s.Stages[stage.Stage]
			s.Stages[stage.Stage] = StageSum{sum.Jobs + 1, sum.Took + stage.Took}
		}
	})
}

func (f *figures) started(err error) {
	f.change(func(s *Stats) {
		if err == nil {
			s.Starts++
		} else {
			s.StartsFailed++
		}
	})
}

// ended takes a job's result; nil: nobody wanted the job before it had one.
func (f *figures) ended(job *statepb.FinishedJob) {
	if job == nil {
		return
	}
	f.change(func(s *Stats) {
		if s.Ended == nil {
			s.Ended = map[JobEnd]uint64{}
		}
		s.Ended[JobEnd{job.GetState(), job.GetAbortReason()}]++
		measured := job.GetStatistics()
		s.Output.Stdout += measured.GetStdoutBytes()
		s.Output.Stderr += measured.GetStderrBytes()
		s.Output.Dropped += measured.GetStdoutDroppedBytes() + measured.GetStderrDroppedBytes()
	})
}
