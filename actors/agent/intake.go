package agent

import (
	"errors"

	"weir/actors/agent/journal"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/scheduling"
)

// maxPlans bounds the plans that wait for the disk. A leader sends one a
// heartbeat, or when something changes, so more means that the disk hangs; what
// is refused comes again.
const maxPlans = 256

// ErrTooManyPlans is returned for a plan while as many wait as may.
var ErrTooManyPlans = errors.New("too many plans waiting for the journal")

// Intake decides which orders to follow, and what has to be in the journal before:
// an agent that crashes right after following an order must know of it in its next
// life, and must not follow an older one.
type Intake struct {
	fence  *Fence
	ledger *Ledger
	// noted is the highest token that is in the journal, or on its way there.
	noted   scheduling.Token
	waiting int
}

// NewIntake returns the intake behind a fence whose token is in the journal.
func NewIntake(fence *Fence, ledger *Ledger) *Intake {
	return &Intake{fence: fence, ledger: ledger, noted: fence.Seen()}
}

// Take takes a plan that a replica sent. closed, if not empty, says why no job may
// be started now, and full why none has room. It returns the orders to follow once
// the records are in the journal; Followed must be called then. An error means that
// nothing is to be followed; unless it is ErrTooManyPlans, the records tell so, and
// Followed must be called all the same.
func (in *Intake) Take(plan *actorpb.NodePlan, from, closed, full string) (Orders, []*journalpb.Record, error) {
	if in.waiting >= maxPlans {
		return Orders{}, nil, ErrTooManyPlans
	}
	token, seen := tokenOf(plan), in.fence.Seen()
	in.waiting++
	if err := in.fence.Admit(token); err != nil {
		return Orders{}, []*journalpb.Record{journal.Rejected(err.Error(), token, seen, from, "")}, err
	}
	orders := in.ledger.Sort(plan, closed, full)
	records := in.Note()
	for _, start := range orders.Start {
		records = append(records, journal.Granted(start, token))
	}
	for _, start := range orders.Gone {
		records = append(records, journal.Rejected(goneReason, token, seen, from, start.GetJobId()))
	}
	for _, start := range orders.Declined {
		records = append(records, journal.Rejected(full, token, seen, from, start.GetJobId()))
	}
	for _, refusal := range orders.Refused {
		records = append(records, journal.Rejected(refusal.Reason, token, seen, from, refusal.Job))
	}
	return orders, records, nil
}

// Followed says that the records of a plan are in the journal, or are not waited for.
func (in *Intake) Followed() { in.waiting-- }

// Note returns the records of what the fence has seen since it was last noted.
func (in *Intake) Note() []*journalpb.Record {
	if !in.noted.Less(in.fence.Seen()) {
		return nil
	}
	in.noted = in.fence.Seen()
	return []*journalpb.Record{journal.Seen(in.noted)}
}

func tokenOf(plan *actorpb.NodePlan) scheduling.Token {
	return scheduling.Token{Term: plan.GetToken().GetTerm(), Index: plan.GetToken().GetIndex()}
}
