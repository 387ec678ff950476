package agent

import (
	"errors"

	"weir/messages/actorpb"
	"weir/scheduling"
)

// maxPlans bounds the plans that wait for the disk. A leader sends one a
// heartbeat, or when something changes, so more means that the disk hangs; what
// is refused comes again.
const maxPlans = 256

// ErrTooManyPlans is returned for a plan while as many wait as may.
var ErrTooManyPlans = errors.New("too many plans wait for their token to be on disk")

// Intake holds plans back until their token is on disk: an agent that crashes
// right after following an order must not follow an older one in its next life.
// Plans that come during a write share the next one.
type Intake struct {
	fence *Fence
	// stored is on disk. writing: another is on its way there.
	stored  scheduling.Token
	writing bool
	plans   []*actorpb.NodePlan
}

// NewIntake returns the intake behind a fence whose token is on disk.
func NewIntake(fence *Fence) *Intake { return &Intake{fence: fence, stored: fence.Seen()} }

// Take takes a plan, which Due returns in time, unless it is stale.
func (in *Intake) Take(plan *actorpb.NodePlan) error {
	if len(in.plans) >= maxPlans {
		return ErrTooManyPlans
	}
	if err := in.fence.Admit(tokenOf(plan)); err != nil {
		return err
	}
	in.plans = append(in.plans, plan)
	return nil
}

// Write returns the token to put on disk now; false: none. Stored must follow.
func (in *Intake) Write() (scheduling.Token, bool) {
	if in.writing || !in.stored.Less(in.fence.Seen()) {
		return scheduling.Token{}, false
	}
	in.writing = true
	return in.fence.Seen(), true
}

// Stored tells that a token is on disk, or that it could not be written: the
// plans are dropped then, and the leader will send them again.
func (in *Intake) Stored(token scheduling.Token, err error) {
	in.writing = false
	if err != nil {
		in.plans = nil
		return
	}
	in.stored = token
}

// Due returns the plans that may be followed, in the order in which they came,
// once.
func (in *Intake) Due() []*actorpb.NodePlan {
	n := 0
	for n < len(in.plans) && !in.stored.Less(tokenOf(in.plans[n])) {
		n++
	}
	due := in.plans[:n:n]
	in.plans = in.plans[n:]
	return due
}

func tokenOf(plan *actorpb.NodePlan) scheduling.Token {
	return scheduling.Token{Term: plan.GetToken().GetTerm(), Index: plan.GetToken().GetIndex()}
}
