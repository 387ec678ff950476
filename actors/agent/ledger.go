package agent

import (
	"fmt"

	"weir/messages/actorpb"
)

// maxHad is how many jobs a node remembers that it has had. A plan that overtakes
// nothing is at most seconds old; a node ends some jobs a second.
const maxHad = 10_000

// goneReason is why a job that was had and forgotten is not started.
const goneReason = "the node has already run this job"

// Ledger is which jobs a life of the node has and has had. An order to start is
// followed once.
type Ledger struct {
	incarnation uint64
	limit       int
	held        map[string]bool
	// had is a ring of the jobs that were forgotten last.
	had     map[string]bool
	hadRing []string
	hadNext int
}

// Orders is what a plan asks of a node, less what it has done already.
type Orders struct {
	// Start are jobs to start; they are held from now on.
	Start []*actorpb.StartJob
	// Gone are jobs that were had and forgotten and that the leader still counts.
	// They must not run again; they are held until their end is acknowledged.
	Gone []*actorpb.StartJob
	// Declined are jobs that the node has no room for, as Full says. They are held
	// until their end is acknowledged, so that they run elsewhere.
	Declined []*actorpb.StartJob
	Full     string
	// Abort are orders to end jobs that are held.
	Abort []*actorpb.AbortJob
	// Refused are jobs that are not started.
	Refused []Refusal
}

// Refusal says why a job is not started.
type Refusal struct{ Job, Reason string }

// NewLedger returns the empty ledger of a life of the node, which holds at most
// limit jobs.
func NewLedger(incarnation uint64, limit int) *Ledger {
	return &Ledger{incarnation: incarnation, limit: limit, held: map[string]bool{}, had: map[string]bool{}}
}

// Sort returns what a plan asks for. closed, if not empty, says why no job may be
// started now, and full why none has room.
func (l *Ledger) Sort(plan *actorpb.NodePlan, closed, full string) Orders {
	orders := Orders{Full: full}
	refuse := func(job *actorpb.StartJob, format string, args ...any) {
		orders.Refused = append(orders.Refused, Refusal{Job: job.GetJobId(), Reason: fmt.Sprintf(format, args...)})
	}
	for _, start := range plan.GetStart() {
		id := start.GetJobId()
		switch {
		case l.held[id]:
			continue
		case start.GetNodeIncarnation() != l.incarnation:
			refuse(start, "granted to incarnation %x of this node, this is %x", start.GetNodeIncarnation(), l.incarnation)
			continue
		case closed != "":
			refuse(start, "%s", closed)
			continue
		case len(l.held) >= l.limit:
			refuse(start, "the node holds %d jobs, ten times its user_slots", len(l.held))
			continue
		}
		l.held[id] = true
		switch {
		case l.had[id] && !ignoresTokens:
			orders.Gone = append(orders.Gone, start)
		case full != "":
			orders.Declined = append(orders.Declined, start)
		default:
			orders.Start = append(orders.Start, start)
		}
	}
	for _, abort := range plan.GetAbort() {
		if l.held[abort.GetJobId()] {
			orders.Abort = append(orders.Abort, abort)
		}
	}
	return orders
}

// Hold says that a job is held, from an earlier process of the agent.
func (l *Ledger) Hold(job string) { l.held[job] = true }

// Forget says that a job is not held any more: nobody waits for its result. It may
// be told so of a job that an earlier process has held.
func (l *Ledger) Forget(job string) {
	delete(l.held, job)
	if l.had[job] {
		return
	}
	l.had[job] = true
	if len(l.hadRing) < maxHad {
		l.hadRing = append(l.hadRing, job)
		return
	}
	delete(l.had, l.hadRing[l.hadNext])
	l.hadRing[l.hadNext] = job
	l.hadNext = (l.hadNext + 1) % maxHad
}
