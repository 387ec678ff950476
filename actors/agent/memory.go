package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"weir/scheduling/lifecycle"
)

const (
	// leavingSoon is how long before its kill a job counts as gone: other jobs need not be
	// stopped for memory that is about to be freed.
	leavingSoon = time.Second
	// leavingLate is how long after its kill a job counts as gone. A job that is still there after
	// that hangs in the kernel and does not free its memory.
	leavingLate = 10 * time.Second
	// pressurePause is the time between two jobs stopped because of memory pressure: the
	// kernel's pressure value is an average of ten seconds, which falls slowly.
	pressurePause = 2 * time.Second
)

// MemoryUse is the memory that a job uses and has reserved, in bytes.
type MemoryUse struct {
	Job           string
	Used, Reserve int64
	Start         time.Time
	// Deadline is when its processes are killed; zero: it has no order to end.
	Deadline time.Time
}

func (u *MemoryUse) excess() int64 { return u.Used - u.Reserve }

// NodeMemory is how much memory a node has.
type NodeMemory struct {
	// Limit is the memory for jobs, in bytes.
	Limit int64
	// Pressure says why the machine is short of memory, however much its jobs use; empty if it is
	// not short.
	Pressure string
}

// Eviction is the order to stop a job for lack of memory.
type Eviction struct {
	Job        string
	Reason     lifecycle.AbortReason
	Message    string
	Attributes map[string]string
}

// MemoryGuard decides which jobs to stop when a node's memory is full. A job may exceed its
// reserve while there is room. Without room, the job farthest above its reserve is stopped at
// once, then the next, until the others have room. If all jobs are within their reserves, the
// node is overcommitted: after a timeout the youngest is stopped.
type MemoryGuard struct {
	watermark int64
	timeout   time.Duration
	// `since` is when the node was first seen full, or under pressure, even after jobs above their
	// reserves were stopped; zero if it is neither.
	since time.Time
	// relieved is when a job was last stopped.
	relieved time.Time
}

// NewMemoryGuard returns the guard of a node. Jobs above their reserves are stopped when fewer
// than watermark bytes are left. Other jobs are stopped when the node has been full for `timeout`.
func NewMemoryGuard(watermark int64, timeout time.Duration) *MemoryGuard {
	return &MemoryGuard{watermark: watermark, timeout: timeout}
}

// Decide returns the jobs to stop now. The caller must give them a deadline before the next
// call.
func (g *MemoryGuard) Decide(now time.Time, node NodeMemory, jobs []MemoryUse) []Eviction {
	s := takeStock(now, node, jobs)
	s.relief = s.relief || now.Sub(g.relieved) < pressurePause
	s.evictOverdrafts(g.watermark)
	g.evictOvercommitted(now, &s)
	if len(s.evictions) > 0 {
		g.relieved = now
	}
	return s.evictions
}

// evictOvercommitted stops jobs within their reserves, youngest first, once they have filled
// the node for longer than the timeout.
func (g *MemoryGuard) evictOvercommitted(now time.Time, s *shortage) {
	switch {
	case !s.full(0) && s.node.Pressure == "":
		g.since = time.Time{}
	case g.since.IsZero():
		g.since = now
	case now.Sub(g.since) >= g.timeout:
		slices.SortFunc(s.jobs, younger)
		for len(s.jobs) > 0 && (s.full(0) || s.pressed()) {
			g.since = time.Time{}
			s.evict(0, lifecycle.AbortNodeResourceOvercommit, fmt.Sprintf("node overcommit: for %v, %s, but no job exceeds its reserve; this job is the youngest",
				g.timeout, s.why(0)))
		}
	}
}

// shortage is the state of a node while Decide picks jobs to stop.
type shortage struct {
	node NodeMemory
	// total is the memory that all jobs use. `rest` is the memory of the jobs that are not about to
	// end. jobs are the jobs that may be stopped.
	total, rest int64
	jobs        []MemoryUse
	evictions   []Eviction
	// relief: a job is leaving or has just left, so that the machine's pressure may pass.
	relief bool
}

func takeStock(now time.Time, node NodeMemory, jobs []MemoryUse) shortage {
	s := shortage{node: node}
	for _, job := range jobs {
		s.total += job.Used
		until := job.Deadline.Sub(now)
		switch {
		case job.Deadline.IsZero(), until > leavingSoon:
			s.jobs = append(s.jobs, job)
			s.rest += job.Used
		case until < -leavingLate:
			s.rest += job.Used
		default:
			s.relief = true
		}
	}
	return s
}

// full reports whether fewer than watermark bytes are left for jobs.
func (s *shortage) full(watermark int64) bool { return s.rest > s.node.Limit-watermark }

// pressed reports whether one more job must be stopped because the machine is short of memory.
func (s *shortage) pressed() bool { return s.node.Pressure != "" && !s.relief }

func (s *shortage) why(watermark int64) string {
	if !s.full(watermark) {
		return s.node.Pressure
	}
	return fmt.Sprintf("jobs of the node use %s of its %s", mebibytes(s.total), mebibytes(s.node.Limit))
}

// evictOverdrafts stops jobs above their reserves, those farthest above first, until the other jobs
// have room.
func (s *shortage) evictOverdrafts(watermark int64) {
	if !s.full(watermark) && !s.pressed() {
		return
	}
	slices.SortFunc(s.jobs, func(a, b MemoryUse) int {
		return cmp.Or(cmp.Compare(b.excess(), a.excess()), younger(a, b))
	})
	for len(s.jobs) > 0 && s.jobs[0].excess() > 0 && (s.full(watermark) || s.pressed()) {
		job := s.jobs[0]
		s.evict(0, lifecycle.AbortResourceOverdraft, fmt.Sprintf("memory overdraft: the job uses %s, more than its reserve of %s, and %s",
			mebibytes(job.Used), mebibytes(job.Reserve), s.why(watermark)))
	}
}

// evict stops a job.
func (s *shortage) evict(i int, reason lifecycle.AbortReason, message string) {
	job := s.jobs[i]
	s.jobs = slices.Delete(s.jobs, i, i+1)
	s.rest -= job.Used
	s.relief = true
	attributes := map[string]string{
		"resource": "memory", "reserve": strconv.FormatInt(job.Reserve, 10), "usage": strconv.FormatInt(job.Used, 10),
		"node_usage": strconv.FormatInt(s.total, 10), "node_memory": strconv.FormatInt(s.node.Limit, 10),
	}
	if s.node.Pressure != "" {
		attributes["pressure"] = s.node.Pressure
	}
	s.evictions = append(s.evictions, Eviction{Job: job.Job, Reason: reason, Message: message, Attributes: attributes})
}

// younger orders jobs by their start, the latest first.
func younger(a, b MemoryUse) int {
	return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(a.Job, b.Job))
}

// mebibytes formats bytes for people; the attributes of an error hold the exact number.
func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
