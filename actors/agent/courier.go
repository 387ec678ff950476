package agent

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
)

// Verdict is what a controller's answer means to who asked.
type Verdict uint8

// The verdicts.
const (
	// Again: ask once more after a pause.
	Again Verdict = iota
	// Answered: the answer is for the job.
	Answered
	// Nobody wants the job: its operation is not in progress.
	Nobody
)

// Courier brings a question to the controller of an operation, wherever it is by
// now. Any replica knows where.
type Courier struct {
	controller Replica
	// lost: the controller is not where it was; ask where it is.
	lost bool
	// followed: a pointer was followed without a pause, which is done once, lest
	// two replicas that point to each other keep the courier running.
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

// Next returns whom to ask. find: ask where the controller is, not the question.
func (c *Courier) Next(replicas []Replica) (to Replica, find bool) {
	if !c.lost {
		return c.controller, false
	}
	c.turn++
	return replicas[c.turn%len(replicas)], true
}

// Heard takes an answer, or why there is none. With Again it returns the pause,
// and why.
func (c *Courier) Heard(find bool, reply proto.Message, err error) (verdict Verdict, pause time.Duration, cause error) {
	switch m := reply.(type) {
	case *actorpb.ControllerFound:
		return c.found(m)
	case *actorpb.Refused:
		cause = fmt.Errorf("%s: %s", m.GetCode(), m.GetReason())
		switch m.GetCode() {
		case actorpb.CodeUnavailable, actorpb.CodeOverloaded:
			// It is there, and says when.
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

// found takes the word of a replica about who controls the operation.
func (c *Courier) found(m *actorpb.ControllerFound) (Verdict, time.Duration, error) {
	if m.GetController().GetId() == "" {
		return Nobody, 0, nil
	}
	now := Replica{ID: m.GetController().GetId(), Address: m.GetController().GetAddress()}
	same := now == c.controller
	c.controller, c.lost = now, now.Address == ""
	if same || c.lost || c.followed {
		// It is where it was but did not answer, or is on the move.
		return Again, c.rest(), fmt.Errorf("controller %s not responding yet", now.ID)
	}
	c.followed = true
	return Again, 0, fmt.Errorf("controller is %s", now.ID)
}

func (c *Courier) rest() time.Duration {
	c.followed = false
	return c.pause.pause()
}

// Lost says that the controller does not know what it was asked about: it may
// not be the controller any more.
func (c *Courier) Lost() time.Duration {
	c.lost = true
	return c.rest()
}

// Reset begins another question.
func (c *Courier) Reset() {
	c.followed = false
	c.pause.reset()
}
