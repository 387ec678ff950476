package actors

import (
	"slices"
	"time"

	"weir/actors/controller"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// taughtFor is how long after its end an operation may still save the memory profiles that it has
// learned.
const taughtFor = time.Hour

// taughtBefore returns the operations of this replica that ended recently and have not saved what
// they learned, because the replica stopped in between.
func taughtBefore(s *state.State, replica string, now time.Time) (ended []*statepb.Operation) {
	for op := range s.Operations() {
		at, err := lifecycle.ParseState(op.GetState())
		if err != nil || !at.Terminal() || now.Sub(op.GetFinishTime().AsTime()) > taughtFor || op.GetAssignment().GetReplica() != replica {
			continue
		}
		op, _ = s.Operation(scheduling.OperationID(op.GetId()))
		if slices.ContainsFunc(op.GetTasks(), func(t *statepb.Task) bool {
			m := t.GetMemory()
			return m.GetProfile() != "" && m.GetSampleCount() > 0 && !m.GetSaved()
		}) {
			ended = append(ended, head(op))
		}
	}
	return ended
}

// Memory implements the MemoryState of controllers. Samples and reserves are returned without a
// copy: the state replaces them, and never changes one.
func (r *records) Memory(operation string, digests bool) (tasks []*statepb.Task) {
	r.store.View(func(s *state.State) {
		op, _ := s.Operation(scheduling.OperationID(operation))
		for _, task := range op.GetTasks() {
			m := task.GetMemory()
			known := &statepb.TaskMemory{
				Samples: slices.Clone(m.GetSamples()), SampleCount: m.GetSampleCount(), Reserve: m.GetReserve(),
				Profile: m.GetProfile(), FromProfile: m.GetFromProfile(), Saved: m.GetSaved(),
			}
			if digests {
				known.UserDigest, known.ProxyDigest = m.GetUserDigest(), m.GetProxyDigest()
			}
			tasks = append(tasks, &statepb.Task{Name: task.GetName(), Memory: known})
		}
	})
	return tasks
}

// Reserve implements the MemoryState of controllers.
func (r *records) Reserve(operation, task string, cookie int32) (reserve *statepb.CookieReserve) {
	r.task(operation, task, func(t *statepb.Task) { reserve = t.GetReserves()[cookie] })
	return reserve
}

// Profile implements the MemoryState of controllers.
func (r *records) Profile(key string) (profile *statepb.MemoryProfile) {
	r.store.View(func(s *state.State) { profile, _ = s.Profile(key) })
	return profile
}

// Learning implements the MemoryState of controllers.
func (r *records) Learning(key string) (most *controller.Learning) {
	r.store.View(func(s *state.State) {
		for op := range s.InProgress() {
			for i, task := range op.GetTasks() {
				m := task.GetMemory()
				if m.GetProfile() == key && !m.GetSaved() && m.GetSampleCount() > most.Samples() {
					most = &controller.Learning{Memory: &statepb.TaskMemory{
						UserDigest: m.GetUserDigest(), ProxyDigest: m.GetProxyDigest(), Samples: slices.Clone(m.GetSamples()), SampleCount: m.GetSampleCount(),
					}, Limit: op.GetSpec().GetTasks()[i].GetMemoryLimit()}
				}
			}
		}
	})
	return most
}
