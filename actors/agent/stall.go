package agent

import (
	"fmt"
	"sync"
	"time"

	"weir/scheduling/lifecycle"
)

// diskPatience is how long an operation may wait for the disk of the state folder before the
// node reports a hang and accepts no new jobs. Slow disks that still respond take some seconds.
const diskPatience = 30 * time.Second

// waits are the operations that now wait for the disk of the state folder: a set of *diskWait.
type waits struct{ now sync.Map }

type diskWait struct {
	what  string
	since time.Time
}

// begin records that a disk operation is in progress until `end` is called. Call `end` once.
func (w *waits) begin(what string) (end func()) {
	wait := &diskWait{what, time.Now()}
	w.now.Store(wait, nil)
	return func() { w.now.Delete(wait) }
}

// hang returns an error that names the longest waiting operation, if it has waited for
// diskPatience or longer.
func (w *waits) hang(dir string, now time.Time) error {
	var longest diskWait
	for key := range w.now.Range {
		if each := key.(*diskWait); longest.what == "" || each.since.Before(longest.since) {
			longest = *each
		}
	}
	if waited := now.Sub(longest.since); longest.what != "" && waited >= diskPatience {
		return fmt.Errorf("disk of %s not responding: cannot %s within %v", dir, longest.what, waited.Truncate(time.Second))
	}
	return nil
}

// diskDuties describes the duties that wait for the disk of the state folder and that a job
// gives up after JobEndTimeout.
var diskDuties = map[Duty]string{
	NoteStart: "record the start of the job",
	StartRun:  "start the job",
	ReadTail:  "read the end of its stderr",
	NoteEnd:   "record the end of the job",
}

// Stalled gives up a duty because the disk does not respond; the job goes on without it. A job that
// has no processes yet gets none: it ends, so that it runs elsewhere.
func (j *Job) Stalled(now time.Time, duty Duty, why string) {
	if j.underway != duty {
		return
	}
	switch duty {
	case NoteStart, StartRun:
		j.pending = duty == StartRun
		// Without a record of the start, the journal needs none of the end: the next agent
		// process finds no trace of the job.
		j.noted[NoteEnd] = j.noted[NoteEnd] || duty == NoteStart
		finished := unstarted(j.start, now, lifecycle.AbortJobProxyFailed, why)
		if j.order != nil {
			finished = unstarted(j.start, now, j.order.Reason, j.order.Message)
			finished.Stop = j.order.Stop
			explain(finished, map[string]string{"disk": why})
		}
		j.end(finished)
	case ReadTail:
		j.Tail(nil)
	case NoteEnd:
		// The result is still reported, and again by the next agent process.
		j.Noted(NoteEnd)
	}
}

// StartedLate records the outcome of a StartRun that was given up before. If it succeeded, the
// processes have to be ended.
func (j *Job) StartedLate(err error) {
	j.pending = false
	if err == nil {
		j.ran, j.late = true, true
	}
}
