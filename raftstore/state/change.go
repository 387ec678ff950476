package state

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
)

// change is one command on its way.
type change struct {
	*State
	index uint64
	// now is the time of the command, and never before that of an earlier one.
	now    time.Time
	result *commandpb.Result
	events []Event
	// demands are the tasks whose number of pending jobs has changed, touched the
	// same as a set.
	demands []demand
	touched map[demand]bool
	// kept counts the records of jobs that were added to operations.
	kept map[*operation]int
	// charged are the trees whose record is this command's own.
	charged map[*tree]bool
	// consequences are what the ends of jobs have led to, told after these.
	consequences []Event
	// gangs are those whose jobs have to go because of the command.
	gangs []gangEvent
}

// setTime takes over the time of the command. A clock that goes back, after a
// change of leader for instance, stands still instead.
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

// emit adds to what the command changed.
func (c *change) emit(e Event) { c.events = append(c.events, e) }

// tellConsequences tells what the ends of jobs, which have been told, have led to.
func (c *change) tellConsequences() {
	c.events = append(c.events, c.consequences...)
	c.consequences = nil
}

// fence refuses commands of any but the leader of the term that began last.
func (c *change) fence(what string, term uint64) *refusal {
	if last := c.term.GetTerm(); term != last {
		return refuse(CodeStaleTerm, "%s: proposed in term %d, but term %d of replica %q is the last that began: ask its leader",
			what, term, last, c.term.GetReplica())
	}
	return nil
}
