package agent

import (
	"fmt"
	"sync"
	"time"

	"weir/scheduling/lifecycle"
)

// diskPatience is how long something waits for the disk of the state folder until the node
// says so, and takes no new jobs: disks that are slow, but answer, take some seconds.
const diskPatience = 30 * time.Second

// waits are what waits for the disk of the state folder now.
type waits struct {
	mu    sync.Mutex
	begun uint64
	now   map[uint64]diskWait
}

type diskWait struct {
	what  string
	since time.Time
}

// begin notes that something begins to wait, until end is called, once.
func (w *waits) begin(what string) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun++
	number := w.begun
	if w.now == nil {
		w.now = map[uint64]diskWait{}
	}
	w.now[number] = diskWait{what, time.Now()}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.now, number)
	}
}

// hang says what has waited for longest, if that is longer than a disk takes that answers.
func (w *waits) hang(dir string, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var longest diskWait
	for _, each := range w.now {
		if longest.what == "" || each.since.Before(longest.since) {
			longest = each
		}
	}
	if waited := now.Sub(longest.since); longest.what != "" && waited >= diskPatience {
		return fmt.Errorf("disk of %s not responding: cannot %s within %v", dir, longest.what, waited.Truncate(time.Second))
	}
	return nil
}

// diskDuties are the duties that wait for the disk of the state folder, in words, and that
// a job is not to wait for for ever.
var diskDuties = map[Duty]string{
	NoteStart: "record the start of the job",
	StartRun:  "start the job",
	ReadTail:  "read the end of its stderr",
	NoteEnd:   "record the end of the job",
}

// Stalled says that a duty is given up, for the disk does not answer; the job goes on without.
// One that has no processes yet gets none: it is to run elsewhere.
func (j *Job) Stalled(now time.Time, duty Duty, why string) {
	if j.underway != duty {
		return
	}
	switch duty {
	case NoteStart, StartRun:
		j.pending = duty == StartRun
		// What the journal does not know it does not wait for: the next process of the agent
		// finds that nothing is left of the job.
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
		// The result is told all the same, and told again by the next process.
		j.Noted(NoteEnd)
	}
}

// StartedLate says how StartRun went that was given up before. Processes have to be ended.
func (j *Job) StartedLate(err error) {
	j.pending = false
	if err == nil {
		j.ran, j.late = true, true
	}
}
