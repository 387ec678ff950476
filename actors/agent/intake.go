package agent

import (
	"errors"

	"weir/actors/agent/journal"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/scheduling"
)

// maxPlans bounds the plans that wait for the journal. A leader sends one per heartbeat or
// change, so more waiting plans mean that the disk hangs. The leader sends refused orders again.
const maxPlans = 256

// ErrTooManyPlans is returned for a plan when maxPlans already wait.
var ErrTooManyPlans = errors.New("too many plans waiting for the journal")

// Intake decides which orders to follow, and which records must be in the journal first: an
// agent that crashes right after following an order must know of it after the restart, and must
// not follow an older one.
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

// Take handles a plan that a replica sent. If `closed` is not empty, it is why no job may be
// started now. If `full` is not empty, it is why the node has no room for new jobs. Take returns
// the orders to follow once the records are in the journal; call Followed at that point. On an
// error nothing is followed. Unless the error is ErrTooManyPlans, the records report the rejection,
// and Followed must be called all the same.
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

// Followed records that a plan no longer waits for the journal.
func (in *Intake) Followed() { in.waiting-- }

// Note returns a record of the highest token, or none if the token has not grown since the last
// record.
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
