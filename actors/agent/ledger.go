package agent

import (
	"fmt"

	"weir/messages/actorpb"
)

// maxHad is how many forgotten jobs a node remembers. A delayed plan is seconds old at most,
// and a node ends a few jobs a second.
const maxHad = 10_000

// goneReason is the reason why a forgotten job is not started again.
const goneReason = "the node has already run this job"

// Ledger records which jobs an incarnation of the node has, and has had, so that a start order
// is followed once.
type Ledger struct {
	incarnation uint64
	limit       int
	held        map[string]bool
	// `had` holds the jobs forgotten last. hadOrder lists them, oldest first.
	had      map[string]bool
	hadOrder []string
}

// Orders are the orders of a plan, without starts already followed.
type Orders struct {
	// Start are jobs to start; they are held from now on.
	Start []*actorpb.StartJob
	// Gone are jobs that the node had and forgot, but that the leader still counts. They must
	// not run again; they are held until their end is acknowledged.
	Gone []*actorpb.StartJob
	// Declined are jobs that the node has no room for. Full says why there is none. The jobs are
	// held until their end is acknowledged, so that they run elsewhere.
	Declined []*actorpb.StartJob
	Full     string
	// Abort are orders to end held jobs.
	Abort []*actorpb.AbortJob
	// Refused are start orders that are rejected; these jobs are not held.
	Refused []Refusal
}

// Refusal says why a job is not started.
type Refusal struct{ Job, Reason string }

// NewLedger returns an empty ledger for an incarnation of the node. The ledger holds at most
// `limit` jobs.
func NewLedger(incarnation uint64, limit int) *Ledger {
	return &Ledger{incarnation: incarnation, limit: limit, held: map[string]bool{}, had: map[string]bool{}}
}

// Sort sorts the orders of a plan. If `closed` is not empty, it is why no job may be started now.
// If `full` is not empty, it is why the node has no room for new jobs.
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
			refuse(start, "granted to incarnation %x of this node, but this is incarnation %x", start.GetNodeIncarnation(), l.incarnation)
			continue
		case closed != "":
			refuse(start, "%s", closed)
			continue
		case len(l.held) >= l.limit:
			refuse(start, "the node already holds %d jobs, the limit of ten times its user_slots", len(l.held))
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

// Hold records that a job of an earlier agent process is held.
func (l *Ledger) Hold(job string) { l.held[job] = true }

// Forget records that a job is no longer held, because nobody waits for its result. It may also
// be called for a job of an earlier agent process.
func (l *Ledger) Forget(job string) {
	delete(l.held, job)
	if l.had[job] {
		return
	}
	l.had[job] = true
	l.hadOrder = append(l.hadOrder, job)
	if len(l.hadOrder) > maxHad {
		delete(l.had, l.hadOrder[0])
		l.hadOrder = l.hadOrder[1:]
	}
}
