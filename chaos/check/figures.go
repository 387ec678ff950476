package check

import (
	"slices"

	"weir/chaos/history"
	"weir/scheduling/lifecycle"
)

// Figures sum up a run.
type Figures struct {
	// Complete says that the state at the end is known.
	Complete bool
	// Faults are ordered by kind, then by scope.
	Faults []FaultFigures
	// Submitted and Aborted count acknowledged calls. Unknown counts calls without an answer.
	Submitted, Aborted, Unknown int
	// WorstGap is the longest time between two acknowledged submissions, in
	// nanoseconds. WorstGapAt is when this gap began.
	WorstGap, WorstGapAt int64
	Operations           map[string]int
	// Attempts counts the processes whose begin a witness recorded; Lost counts attempts that
	// were aborted and whose cookie ran again.
	Attempts, Lost int
	// Granted counts grants in the journals of agents. Stale counts messages that an agent
	// rejected because they came from a deposed leader. Adopted counts attempts that completed
	// although the agent process that had started them was gone.
	Granted, Stale, Adopted int
	LeaderChanges           int
	// Denied counts calls that were refused because their user lacked the right. Allowed counts
	// calls of the users whose rights come and go that were carried out. Turns counts the changes
	// of these rights, Deeds the events that name a user.
	Denied, Allowed, Turns, Deeds int
	// Unread is why the event log was not read to its end.
	Unread string
	// Compared counts the replicas that have told hashes of their states.
	Compared int
	// Simulated counts simulated nodes, SimulatedJobs their completed jobs, and SimulatedLost jobs that ended because
	// a node was lost.
	Simulated, SimulatedJobs, SimulatedLost int
	// Stalls counts replicas that stopped because the machine's disk hung.
	Stalls int
}

// Sum returns the figures of a run.
func Sum(run *history.Run) Figures {
	x := newIndex(run)
	f := Figures{Complete: run.Complete(), Operations: make(map[string]int)}
	for _, c := range run.Calls {
		switch {
		case c.Outcome == history.Unknown:
			f.Unknown++
		case c.Outcome != history.OK:
		case c.What == history.Submit:
			f.Submitted++
		case c.What == history.Abort:
			f.Aborted++
		}
	}
	f.askedFor(run)
	gaps := gapsOf(run.Calls)
	for _, g := range gaps {
		if g.length() > f.WorstGap {
			f.WorstGap, f.WorstGapAt = g.length(), g.from
		}
	}
	f.Faults = faultFigures(run.Acts, gaps)
	f.LeaderChanges, f.Stalls = leaders(run.Acts)
	for i := range run.Operations {
		f.Operations[run.Operations[i].State]++
	}
	f.Simulated = len(run.Simulated)
	for _, j := range x.simulatedJobs() {
		switch {
		case j.State == lifecycle.JobCompleted.String():
			f.SimulatedJobs++
		case lostWithNode(j):
			f.SimulatedLost++
		}
	}
	for c, attempts := range x.attempts {
		f.Lost += lost(attempts, x.lives[c])
	}
	for _, lives := range x.lives {
		f.Attempts += len(lives)
	}
	for _, name := range x.nodes {
		f.follow(x.entries[name])
	}
	return f
}

// askedFor adds the figures about rights.
func (f *Figures) askedFor(run *history.Run) {
	for _, a := range run.Asks {
		if a.Denied {
			f.Denied++
		}
		if a.Outcome == history.OK {
			f.Allowed++
		}
	}
	for _, turn := range run.Turns {
		// The first rights of clients and operators are not changes.
		if turn.Called != 0 && turn.Outcome == history.OK {
			f.Turns++
		}
	}
	f.Deeds = len(run.Deeds)
	compared := make(map[string]bool)
	for _, h := range run.Hashes {
		compared[h.Replica] = compared[h.Replica] || h.Index > 0
	}
	for _, told := range compared {
		if told {
			f.Compared++
		}
	}
	for _, a := range run.Acts {
		if a.What == history.Unread {
			f.Unread = a.Error
		}
	}
}

// leaders counts changes of the leader, and replicas that stopped because of a hanging disk.
func leaders(acts []history.Act) (changes, stalls int) {
	var term uint64
	for _, a := range acts {
		switch {
		case a.What == history.Stall:
			stalls++
		case a.What == history.Leads && a.Term > term:
			if term > 0 {
				changes++
			}
			term = a.Term
		}
	}
	return changes, stalls
}

// follow adds the figures of one node's journal.
func (f *Figures) follow(entries []history.Entry) {
	session := 0
	startedIn := make(map[string]int)
	for _, e := range entries {
		switch e.What {
		case history.Woke:
			session++
		case history.Granted:
			f.Granted++
		case history.Started:
			startedIn[e.Job] = session
		case history.Exited:
			if in, started := startedIn[e.Job]; started && in < session && e.State == lifecycle.JobCompleted.String() {
				f.Adopted++
			}
		case history.Rejected:
			if e.Token.Less(e.Seen) {
				f.Stale++
			}
		}
	}
}

// lost counts the attempts of a cookie that began, were aborted, and were followed by
// another that began.
func lost(attempts []history.Job, lives []life) int {
	began := func(job string) bool { return slices.ContainsFunc(lives, func(l life) bool { return l.job == job }) }
	count := 0
	for _, a := range attempts {
		if a.State != lifecycle.JobAborted.String() || !began(a.ID) {
			continue
		}
		if slices.ContainsFunc(attempts, func(b history.Job) bool { return b.Attempt > a.Attempt && began(b.ID) }) {
			count++
		}
	}
	return count
}
