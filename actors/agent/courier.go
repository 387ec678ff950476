package agent

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
)

// Verdict is what a controller's answer means for the job that asked.
type Verdict uint8

// The verdicts.
const (
	// Again: ask once more after a pause.
	Again Verdict = iota
	// Answered: the controller has answered the question.
	Answered
	// Nobody: the job is not wanted, because its operation is not in progress.
	Nobody
)

// Courier routes a question to the current controller of an operation. Any replica can name it.
type Courier struct {
	controller Replica
	// lost: the controller is no longer at its last address; ask a replica for it.
	lost bool
	// followed: the last redirect was followed without a pause. The next redirect is not, so that
	// two replicas that name each other cannot keep the courier busy.
	followed bool
	turn     int
	pause    backoff
}

// NewCourier returns a courier that begins with the controller that the leader
// has named.
func NewCourier(controller Replica, timing Timing, chance func() float64) *Courier {
	return &Courier{
		controller: controller,
		lost:       controller.ID == "" || controller.Address == "",
		turn:       int(chance() * maxReplicas),
		pause:      backoff{min: timing.ReportMin, max: timing.ReportMax, chance: chance},
	}
}

// Next returns the replica to ask. If `find` is true, ask that replica which replica is the
// controller, instead of the question itself.
func (c *Courier) Next(replicas []Replica) (to Replica, find bool) {
	if !c.lost {
		return c.controller, false
	}
	c.turn++
	return replicas[c.turn%len(replicas)], true
}

// Heard handles an answer, or the error that came instead. If the verdict is Again, Heard also
// returns the pause before the next attempt, and its cause.
func (c *Courier) Heard(find bool, reply proto.Message, err error) (verdict Verdict, pause time.Duration, cause error) {
	switch m := reply.(type) {
	case *actorpb.ControllerFound:
		return c.found(m)
	case *actorpb.Refused:
		cause = fmt.Errorf("%s: %s", m.GetCode(), m.GetReason())
		switch m.GetCode() {
		case actorpb.CodeUnavailable, actorpb.CodeOverloaded:
			// The controller is reachable and gives a retry time.
			hint := min(millis(m.GetRetryMillis()), c.pause.max)
			return Again, max(c.rest(), hint), cause
		case actorpb.CodeNotFound:
			if !find {
				return Answered, 0, nil
			}
		}
	case *actorpb.Redirect:
		cause = errors.New("controller has moved")
	case nil:
		cause = err
	default:
		if !find {
			return Answered, 0, nil
		}
		cause = fmt.Errorf("unexpected answer %T", reply)
	}
	c.lost = true
	return Again, c.rest(), cause
}

// found handles a replica's answer about which replica controls the operation.
func (c *Courier) found(m *actorpb.ControllerFound) (Verdict, time.Duration, error) {
	if m.GetController().GetId() == "" {
		return Nobody, 0, nil
	}
	now := Replica{ID: m.GetController().GetId(), Address: m.GetController().GetAddress()}
	same := now == c.controller
	c.controller, c.lost = now, now.Address == ""
	if same || c.lost || c.followed {
		// Either it is the same controller, which did not answer, or a controller is being
		// assigned.
		return Again, c.rest(), fmt.Errorf("controller %s not responding yet", now.ID)
	}
	c.followed = true
	return Again, 0, fmt.Errorf("controller is %s", now.ID)
}

func (c *Courier) rest() time.Duration {
	c.followed = false
	return c.pause.pause()
}

// Lost records that the controller does not know the job: it may no longer be the controller.
// It returns the pause before the next attempt.
func (c *Courier) Lost() time.Duration {
	c.lost = true
	return c.rest()
}

// Reset prepares for another question.
func (c *Courier) Reset() {
	c.followed = false
	c.pause.reset()
}
