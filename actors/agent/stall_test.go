package agent

import (
	"strings"
	"sync"
	"testing"
	"time"

	"weir/actors/agent/journal"
	"weir/messages/journalpb"
)

// hang has the machine's disk not answer who starts a job, until it is thawed.
func (w *world) hang() (thaw func()) {
	frozen := make(chan struct{})
	w.machine.set(func() { w.machine.frozen = frozen })
	return func() {
		w.machine.set(func() { w.machine.frozen = nil })
		close(frozen)
		w.advance(100 * time.Millisecond)
	}
}

// TestAgentStartsAJobOnADiskThatHangs: the node says so and takes no others, the job is given
// up, and what the disk starts late is ended.
func TestAgentStartsAJobOnADiskThatHangs(t *testing.T) {
	inWorld(t, func(w *world) {
		said := w.registrations()
		w.send(plan(3, 7, granted("stays", 9)))
		thaw := w.hang()
		w.send(plan(3, 8, granted("j", 9)))
		w.advance(diskPatience - time.Second)
		if closed, _ := said(); closed != "" {
			t.Errorf("said %q of a disk that is slow", closed)
		}
		w.advance(3 * time.Second)
		closed, caveat := said()
		if !strings.Contains(closed, "disk of "+w.cfg.StateDir+" not responding: cannot start job j within 30s") || !strings.Contains(caveat, closed) {
			t.Errorf("said %q, %q, want the disk that hangs", closed, caveat)
		}
		w.send(plan(3, 9, granted("declined", 9)))
		w.advance(3 * time.Second)
		w.want("declined:aborted:job_proxy_failed")
		w.advance(w.cfg.JobEndTimeout)
		w.want("declined:aborted:job_proxy_failed j:aborted:job_proxy_failed")
		if e := w.result("j").GetJob().GetError().GetMessage(); !strings.Contains(e, "disk of "+w.cfg.StateDir+" not responding: cannot start the job within 5m0s") {
			t.Errorf("it ended with %q", e)
		}
		if got := w.phases("j"); !strings.HasSuffix(got, "ended") {
			t.Errorf("heartbeats said %q, want that it has ended", got)
		}
		if w.agent.Stats().DiskFull {
			t.Error("the disk is said to be full")
		}
		thaw()
		w.advance(time.Minute)
		if stops := w.stops("j"); len(stops) != 1 || !w.released("j") {
			t.Errorf("what was started late was told %q, released %v; want it ended and released", stops, w.released("j"))
		}
		if closed, _ := said(); closed != "" {
			t.Errorf("said %q of a disk that answers", closed)
		}
		w.send(plan(3, 10, granted("new", 9)))
		w.exit("new", 0)
		w.exit("stays", 0)
		w.want("declined:aborted:job_proxy_failed j:aborted:job_proxy_failed new:completed stays:completed")
		w.kill()
		if s := w.journal(); len(s.Jobs) != 0 {
			t.Errorf("the journal has %v still", s.Jobs)
		}
	})
}

// TestAgentAbortsAJobThatHangsAtItsStart: it ends as it was told, and the disk is named.
func TestAgentAbortsAJobThatHangsAtItsStart(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.hang()()
		w.send(plan(3, 7, granted("j", 9)))
		w.send(plan(3, 8, abort("j", "user_request", 0)))
		w.advance(w.cfg.JobEndTimeout + time.Second)
		w.want("j:aborted:user_request")
		if disk := w.result("j").GetJob().GetError().GetAttributes()["disk"]; !strings.Contains(disk, w.cfg.StateDir) {
			t.Errorf("error %v, want the disk named", w.result("j").GetJob().GetError())
		}
	})
}

// TestAgentStartFailsLate: nothing is left of a job that could not be started, after all.
func TestAgentStartFailsLate(t *testing.T) {
	inWorld(t, func(w *world) {
		thaw := w.hang()
		w.machine.set(func() { w.machine.failure = journal.ErrFull })
		w.send(plan(3, 7, granted("j", 9)))
		w.advance(w.cfg.JobEndTimeout + 3*time.Second)
		w.want("j:aborted:job_proxy_failed")
		thaw()
		w.kill()
		if s := w.journal(); len(s.Jobs) != 0 || len(s.Had) != 1 {
			t.Errorf("journal: jobs %v, had %v; want that it has gone", s.Jobs, s.Had)
		}
	})
}

// TestAgentFindsAJobThatWasStartedLate: the disk starts it when the process of the agent that
// gave it up is no more, and the next one ends it.
func TestAgentFindsAJobThatWasStartedLate(t *testing.T) {
	inWorld(t, func(w *world) {
		thaw := w.hang()
		w.send(plan(3, 7, granted("j", 9)))
		w.advance(w.cfg.JobEndTimeout + 3*time.Second)
		w.want("j:aborted:job_proxy_failed")
		w.kill()
		thaw()
		w.machine.leave()
		w.start()
		w.advance(time.Minute)
		if stops := w.stops("j"); len(stops) != 1 || !w.released("j") {
			t.Errorf("what was started late was told %q, released %v; want it ended and released", stops, w.released("j"))
		}
		w.kill()
		if s := w.journal(); len(s.Jobs) != 0 {
			t.Errorf("the journal has %v still", s.Jobs)
		}
	})
}

// slowJournal is a journal whose disk can hang.
type slowJournal struct {
	records
	mu     sync.Mutex
	frozen bool
	full   error
	queued []func()
}

// startSlow starts the agent anew with a journal whose disk can hang.
func (w *world) startSlow() *slowJournal {
	w.t.Helper()
	w.kill()
	slow := &slowJournal{}
	w.cfg.slow = func(j records) records {
		slow.records = j
		return slow
	}
	w.start()
	w.advance(100 * time.Millisecond)
	return slow
}

// Full implements records.
func (j *slowJournal) Full() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.full
}

// fill has the journal say that it waits for space; nil: it does not.
func (j *slowJournal) fill(full error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.full = full
}

// Append implements records.
func (j *slowJournal) Append(done func(error), records ...*journalpb.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.frozen {
		j.queued = append(j.queued, func() { j.records.Append(done, records...) })
		return
	}
	j.records.Append(done, records...)
}

// freeze has all records wait from now on, or thaws them.
func (j *slowJournal) freeze(frozen bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.frozen = frozen
	for _, each := range j.queued {
		each()
	}
	j.queued = nil
}

// TestAgentWhoseJournalHangs ends jobs all the same, and starts none.
func TestAgentWhoseJournalHangs(t *testing.T) {
	inWorld(t, func(w *world) {
		said := w.registrations()
		slow := w.startSlow()
		w.send(plan(3, 7, granted("ends", 9), granted("aborted", 9), granted("stays", 9)))
		slow.freeze(true)
		w.send(plan(3, 8, granted("new", 9), abort("aborted", "user_request", 0)))
		w.exit("ends", 7)
		w.advance(diskPatience + 3*time.Second)
		w.want("")
		if closed, _ := said(); !strings.Contains(closed, "not responding: cannot write to its journal within 3") {
			t.Errorf("said %q, want that the disk hangs", closed)
		}
		w.advance(w.cfg.JobEndTimeout)
		w.want("ends:failed new:aborted:job_proxy_failed")
		w.advance(w.cfg.JobEndTimeout)
		w.want("ends:failed new:aborted:job_proxy_failed aborted:aborted:user_request")
		if e := w.result("new").GetJob().GetError().GetMessage(); !strings.Contains(e, "disk of "+w.cfg.StateDir+" not responding: cannot record the leader's orders within 5m0s") {
			t.Errorf("it ended with %q", e)
		}
		if w.starts("new") != 0 || len(w.stops("stays")) != 0 {
			t.Errorf("started %d times, stopped %q", w.starts("new"), w.stops("stays"))
		}
		slow.freeze(false)
		w.advance(3 * time.Second)
		if closed, _ := said(); closed != "" {
			t.Errorf("said %q of a disk that answers", closed)
		}
		w.send(plan(3, 9, granted("next", 9)))
		w.exit("next", 0)
		w.exit("stays", 0)
		w.want("ends:failed new:aborted:job_proxy_failed aborted:aborted:user_request next:completed stays:completed")
		if w.starts("new") != 0 {
			t.Error("it was started in the end")
		}
		w.kill()
		if s := w.journal(); len(s.Jobs) != 0 || len(s.Had) != 5 {
			t.Errorf("journal: jobs %v, had %v; want that all have gone", s.Jobs, s.Had)
		}
	})
}

// TestAgentWhoseJournalHangsLosesAJobAgain: what it has had and forgotten may have run, whatever
// hangs now.
func TestAgentWhoseJournalHangsLosesAJobAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		slow := w.startSlow()
		w.send(plan(3, 7, granted("had", 9)))
		w.exit("had", 0)
		w.advance(3 * time.Second)
		slow.freeze(true)
		w.send(plan(3, 7, granted("had", 9)))
		w.advance(w.cfg.JobEndTimeout + 3*time.Second)
		w.want("had:completed had:aborted:disappeared_from_node")
		slow.freeze(false)
	})
}

// TestAgentWhoseDiskHangsAndIsFullThen says that it is full, as soon as it answers so.
func TestAgentWhoseDiskHangsAndIsFullThen(t *testing.T) {
	inWorld(t, func(w *world) {
		said := w.registrations()
		slow := w.startSlow()
		slow.freeze(true)
		w.send(plan(3, 7, granted("j", 9)))
		w.advance(diskPatience + 3*time.Second)
		if closed, _ := said(); !strings.Contains(closed, "not responding") || w.agent.Stats().DiskFull {
			t.Errorf("said %q, want that the disk hangs", closed)
		}
		slow.fill(journal.ErrFull)
		w.advance(3 * time.Second)
		if closed, _ := said(); closed != journal.ErrFull.Error() || !w.agent.Stats().DiskFull {
			t.Errorf("said %q, want that the disk is full", closed)
		}
		slow.fill(nil)
		slow.freeze(false)
		w.advance(3 * time.Second)
		if closed, _ := said(); closed != "" || w.starts("j") != 1 {
			t.Errorf("said %q, started %d times; want that there is space", closed, w.starts("j"))
		}
	})
}

// TestAgentRemovesManyFiles for longer than a disk takes that answers: it goes on with others.
func TestAgentRemovesManyFiles(t *testing.T) {
	inWorld(t, func(w *world) {
		said := w.registrations()
		removing := make(chan struct{})
		w.machine.set(func() { w.machine.removing = removing })
		w.send(plan(3, 7, granted("j", 9)))
		w.exit("j", 0)
		w.advance(2 * diskPatience)
		w.want("j:completed")
		if closed, _ := said(); closed != "" || w.released("j") {
			t.Errorf("said %q while files are removed, released %v", closed, w.released("j"))
		}
		close(removing)
		w.advance(time.Second)
		if !w.released("j") {
			t.Error("it is not released")
		}
	})
}
