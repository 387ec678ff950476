package state

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
)

// change is one command while it is being applied.
type change struct {
	*State
	// by is the subject who asked for the command; nil if the system proposed it.
	by    *commandpb.Subject
	index uint64
	// now is the time of the command, or that of an earlier command if that is later.
	now    time.Time
	result *commandpb.Result
	events []Event
	// demands lists the task groups whose number of pending jobs has changed. touched is the set of
	// these groups.
	demands []demand
	touched map[demand]bool
	// kept counts the job records that were added to each operation.
	kept map[*operation]int
	// charged are the trees whose record has already been copied by this command.
	charged map[*tree]bool
	// consequences are events caused by ends of jobs. They are emitted after the events of these
	// ends.
	consequences []Event
	// gangs are the gangs whose jobs have to stop because of the command.
	gangs []gangEvent
}

// setTime sets the time of the command. If the clock goes back, for instance after a
// change of leader, the time stays the same instead.
func (c *change) setTime(t *timestamppb.Timestamp) *refusal {
	if t == nil {
		return nil
	}
	if err := t.CheckValid(); err != nil {
		return refuse(CodeInvalidCommand, "time of the command: %v", err)
	}
	if at := t.AsTime(); at.After(c.now) {
		c.now = at
	}
	return nil
}

// timestamp returns the time of the command for a record.
func (c *change) timestamp() *timestamppb.Timestamp { return timestamppb.New(c.now) }

// emit appends to the events of the command.
func (c *change) emit(e Event) { c.events = append(c.events, e) }

// tellConsequences emits the consequences of the ends of jobs. It is called after the ends
// themselves are emitted.
func (c *change) tellConsequences() {
	c.events = append(c.events, c.consequences...)
	c.consequences = nil
}

// fence refuses commands unless they come from the leader of the latest term.
func (c *change) fence(what string, term uint64) *refusal {
	if last := c.term.GetTerm(); term != last {
		return refuse(CodeStaleTerm, "%s: proposed in term %d, but the current term is %d (leader %q): retry there",
			what, term, last, c.term.GetReplica())
	}
	return nil
}
