package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/engine"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// demand is the last known demand of a task: the number of waiting jobs, and the needs of each.
type demand struct {
	pending int64
	perJob  resource.Amounts
}

// eases reports whether d is easier to satisfy than the earlier demand `was`: more jobs are
// pending, or each needs less of a resource. Nodes that could start no job under `was` may then be
// able to start one.
func (d demand) eases(was demand) bool {
	return d.pending > was.pending || d.pending > 0 && !was.perJob.Fits(d.perJob)
}

// seedDemand sets the initial demand of a tree. Jobs of finishing operations are no longer wanted.
func (t *Tree) seedDemand(seed Seed) error {
	of := map[scheduling.OperationID]*statepb.Operation{}
	for _, op := range seed.Operations {
		of[scheduling.OperationID(op.GetId())] = op
	}
	for _, d := range seed.Demand {
		now, err := lifecycle.ParseState(of[d.ID].GetState())
		if now.Finishing() {
			d.Pending = 0
		}
		if err == nil {
			err = t.SetDemand(of[d.ID], d)
		}
		if err != nil {
			return fmt.Errorf("rebuild demand of operation %s: %w", d.ID, err)
		}
	}
	return nil
}

// SetDemand sets how many jobs of a group of a task are pending. The needs of each job are read
// from the operation's record, which may be newer than d.
func (t *Tree) SetDemand(op *statepb.Operation, d state.DemandChanged) error {
	for _, task := range op.GetTasks() {
		if task.GetName() != string(d.Task) {
			continue
		}
		perJob := task.GetJobResources().Amounts()
		if d.Group != 0 {
			perJob.Memory = d.Group
		}
		if err := t.setGang(op, task); err != nil {
			return err
		}
		return t.setDemand(op.GetId(), allocation.TaskID{Name: d.Task, Group: d.Group}, demand{d.Pending, perJob})
	}
	return nil
}

// setGang updates the gang of a task in the engine, if the task has one.
func (t *Tree) setGang(op *statepb.Operation, task *statepb.Task) error {
	if _, known := t.known[op.GetId()]; !known {
		return nil
	}
	for _, spec := range op.GetSpec().GetTasks() {
		if spec.GetName() != task.GetName() || spec.GetGang() == nil {
			continue
		}
		gang := engine.Gang{Size: int64(cmp.Or(spec.GetGang().GetSize(), spec.GetJobCount()))}
		for _, ranks := range task.GetGang().GetCompleted() {
			gang.Completed += int64(ranks.GetEnd() - ranks.GetBegin())
		}
		return t.engine.SetTaskGang(scheduling.OperationID(op.GetId()), scheduling.TaskName(task.GetName()), gang)
	}
	return nil
}

// rankEnded updates the gang of a job that has ended, because it may have completed its rank.
func (t *Tree) rankEnded(a *statepb.Allocation, records Records) error {
	op, _ := records.Operation(a.GetOperationId())
	for _, task := range op.GetTasks() {
		if task.GetName() == a.GetTask() {
			return t.setGang(op, task)
		}
	}
	return nil
}

func (t *Tree) setDemand(operation string, id allocation.TaskID, d demand) error {
	told, known := t.known[operation]
	if !known {
		return nil
	}
	if d.eases(told[id]) {
		t.OfferAll()
	}
	told[id] = d
	if id.Group != 0 && d.pending == 0 {
		delete(told, id)
	}
	return t.engine.SetDemand(scheduling.OperationID(operation), id.Name, id.Group, d.pending, d.perJob)
}

// wantNoMore sets the demand of a finishing operation to 0, because no DemandChanged event does.
func (t *Tree) wantNoMore(operation string) error {
	told := t.known[operation]
	for _, id := range slices.SortedFunc(maps.Keys(told), allocation.TaskID.Compare) {
		d := told[id]
		d.pending = 0
		if err := t.setDemand(operation, id, d); err != nil {
			return err
		}
	}
	return nil
}

// groupOf returns the reserve of a job whose predecessor was aborted for exceeding its memory; 0
// for jobs with the reserve that the task has learned.
func groupOf(a *statepb.Allocation) int64 {
	if a.GetReserve().GetPredecessor() == "" {
		return 0
	}
	return a.GetResources().GetMemory()
}
