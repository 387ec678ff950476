package operation

import (
	"cmp"
	"slices"
	"time"

	"weir/actors/reconcile"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// Instance is a job of a service.
type Instance struct {
	Job, Task string
	Cookie    int32
	// Ready means that the instance accepts requests.
	Ready bool
	// Held is the time until which the instance's order to leave is held back; zero if no order is
	// held back. Told means that the instance has an order in force.
	Held time.Time
	Told bool
	// Drained means that the order is due to a drain. A job that is preempted for another operation
	// gets no successor, because its own operation has no room for one.
	Drained bool
	// Replaced means that another instance has its cookie.
	Replaced bool
}

// HandOver decides about the instances of an operation whose order to leave is held back: which are
// replaced now, and which are told to leave (J.3.3). `command` is nil if no instance is replaced or
// told to leave. `again` is when to decide again even if nothing changes; zero means never.
//
// At most max_surge drained instances of the task are replaced at a time. An instance is told to
// leave when min_available other instances are ready, and so is its successor if it is to have one.
// At the end of its hold it is told to leave in any case.
func HandOver(now time.Time, op *statepb.Operation, term uint64, instances []Instance) (command *commandpb.HandOver, again time.Time) {
	command = &commandpb.HandOver{Term: term, OperationId: op.GetId()}
	for _, task := range op.GetSpec().GetTasks() {
		var own []Instance
		for _, i := range instances {
			if i.Task == task.GetName() {
				own = append(own, i)
			}
		}
		next := handOver(now, command, task, own)
		if again.IsZero() || !next.IsZero() && next.Before(again) {
			again = next
		}
	}
	if len(command.GetReplaceJobIds())+len(command.GetReleaseJobIds()) == 0 {
		return nil, again
	}
	return command, again
}

// handOver decides for the instances of one task.
func handOver(now time.Time, command *commandpb.HandOver, task *statepb.TaskSpec, own []Instance) (again time.Time) {
	ready, beside := int32(0), int32(0)
	succeeded := map[int32]bool{}
	var waiting []Instance
	for _, i := range own {
		if i.Ready && !i.Told {
			ready++
		}
		if i.Replaced {
			beside++
		} else {
			succeeded[i.Cookie] = i.Ready
		}
		if !i.Held.IsZero() {
			waiting = append(waiting, i)
		}
	}
	slices.SortFunc(waiting, func(a, b Instance) int {
		return cmp.Or(a.Held.Compare(b.Held), cmp.Compare(a.Cookie, b.Cookie), cmp.Compare(a.Job, b.Job))
	})
	for _, i := range waiting {
		others := ready
		if i.Ready {
			others--
		}
		surges := i.Drained && task.GetMaxSurge() > 0
		substituted := !surges || i.Replaced && succeeded[i.Cookie]
		switch {
		case !now.Before(i.Held), substituted && others >= task.GetMinAvailable():
			command.ReleaseJobIds = append(command.ReleaseJobIds, i.Job)
			ready = others
			continue
		case surges && !i.Replaced && beside < task.GetMaxSurge():
			command.ReplaceJobIds = append(command.ReplaceJobIds, i.Job)
			beside++
		}
		if again.IsZero() || i.Held.Before(again) {
			again = i.Held
		}
	}
	return again
}

// handOverIn adds to a step the command for instances whose order to leave is held back.
func handOverIn(s *reconcile.Step, now time.Time, op *statepb.Operation, term uint64, instances []Instance) {
	command, again := HandOver(now, op, term, instances)
	if command != nil {
		s.Propose = append(s.Propose, command)
	}
	if s.Again.IsZero() || !again.IsZero() && again.Before(s.Again) {
		s.Again = again
	}
}
