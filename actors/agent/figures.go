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

// Stats is what an agent has done since it started, and its current state.
type Stats struct {
	// Registered is set once a leader has registered the agent. LeaseLeft is what remains of the
	// lease; 0 if it has expired or there was none.
	Registered bool
	LeaseLeft  time.Duration
	// HeartbeatsSent counts heartbeats and registrations. HeartbeatsAcknowledged counts the ones
	// that renewed the lease.
	HeartbeatsSent, HeartbeatsAcknowledged uint64
	// PlansRefused counts plans of leaders whose term is over, and plans that came when too many
	// were waiting for the journal.
	PlansRefused uint64
	// Starts and StartsFailed count attempts to start the processes of a job.
	Starts, StartsFailed uint64
	// Ended counts jobs whose result was acknowledged, or is no longer wanted.
	Ended map[JobEnd]uint64
	// Stages sums the stages that jobs have passed.
	Stages map[Stage]StageSum
	// Jobs counts the jobs held, by phase; MemoryUsed is the memory that they use together, in
	// bytes. Both are as of the last heartbeat.
	Jobs       map[string]int
	MemoryUsed int64
	// MemoryReserved is the memory reserved for jobs, and MemoryLimit is the node's memory for
	// jobs, both in bytes and as of the last measurement.
	MemoryReserved, MemoryLimit int64
	// Files are the figures of the cache of job files.
	Files filecache.Stats
	// Output is how much ended jobs wrote, in bytes.
	Output Output
	// SharedUser is set if jobs without a named user share one.
	SharedUser bool
	// DiskFull is set while no new jobs are accepted for lack of disk space. Journal are the
	// figures of the agent's journal.
	DiskFull bool
	Journal  journal.Stats
}

// JobEnd is how a job ended.
type JobEnd struct {
	// State is completed, failed or aborted; Reason is why it was aborted.
	State, Reason string
}

// StageSum is how many jobs have passed a stage, and their total time in it.
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
	stats.SharedUser = a.shared.sharedUser
	stats.LeaseLeft = max(a.shared.leaseLeft(), 0)
	return stats
}

func (f *figures) change(how func(*Stats)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(&f.stats)
}

// asked counts a heartbeat and the jobs in it.
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

// memory updates the memory figures.
func (f *figures) memory(limit int64, uses []MemoryUse) {
	reserved := int64(0)
	for _, use := range uses {
		reserved += use.Reserve
	}
	f.change(func(s *Stats) { s.MemoryReserved, s.MemoryLimit = reserved, limit })
}

func (f *figures) refused() { f.change(func(s *Stats) { s.PlansRefused++ }) }

// passed counts the stages that a job has passed, and how long they took.
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

// ended counts a job's result; nil: the job was dropped before it had one.
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
