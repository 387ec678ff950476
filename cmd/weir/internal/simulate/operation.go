package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/controller"
	life "weir/actors/operation"
	"weir/actors/pool"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// operation is an operation that has not ended.
type operation struct {
	Submission
	key uint64
	// perJob is the resources of each job that starts now.
	perJob resource.Amounts
	// lessons is nil unless the memory reserve of its jobs is learned.
	lessons *lessons
	// accepted is the time of submission. runs is the time from which the operation may start jobs;
	// begun says whether a job has started.
	accepted, runs time.Duration
	begun          bool
	// running counts the jobs that hold resources; demand counts the pending jobs of each group.
	running int
	demand  []demand
	// waits maps the cookie of each job that has run before to the time since which it waits again.
	waits map[int32]time.Duration
	pool  *account
	// anew is the latest gang incarnation that began because a job of the previous one was
	// preempted.
	anew int64
}

// loses reports whether the work of a job that ends is lost to preemption: the job was
// preempted and did not leave by itself, or its gang restarts because another of its jobs was
// preempted.
func (op *operation) loses(e state.Ended) bool {
	why, told := e.Finished.GetAbortReason(), e.Allocation.GetStop().GetPreemption() != ""
	next := e.Allocation.GetGangIncarnation() + 1
	if why == lifecycle.AbortOperationIncarnationChanged.String() {
		return told || op.anew == next
	}
	if told {
		op.anew = next
	}
	return told && why != ""
}

// task is the name of the one task that simulated operations have.
const task = "main"

// await schedules the next operation of a source.
func (w *world) await(s *source) {
	if next, ok := s.take(); ok {
		w.queue.add(next.At, func() error {
			w.await(s)
			return w.start(next)
		})
	}
}

// schedule schedules the workloads, trace and failures of the file.
func (w *world) schedule() {
	for _, workload := range w.file.Workloads {
		w.await(newSource(workload, w.file.Seed, w.file.Duration))
	}
	for _, s := range w.file.Trace {
		w.queue.add(s.At, func() error { return w.start(s) })
	}
	for _, f := range w.file.Failures {
		w.queue.add(f.At.Duration, func() error { return w.fail(f) })
	}
}

// start submits an operation and advances it.
func (w *world) start(s Submission) error {
	key := hash(s.ID)
	chance := rand.New(rand.NewPCG(w.file.Seed, key))
	op := &operation{Submission: s, key: key, accepted: w.now, waits: map[int32]time.Duration{}, pool: w.meter.accounts[*s.Pool]}
	op.perJob = s.perJob(chance)
	limit := op.perJob.Memory
	if op.lessons = s.lesson(limit); op.lessons != nil {
		op.perJob.Memory = op.lessons.told.Total()
	}
	spec := &statepb.OperationSpec{
		Type: lifecycle.Vanilla, Pool: string(*s.Pool), MaxFailedJobCount: 1, IsGang: *s.Gang, Options: structOf(option.Write(s.settings())),
		Tasks: []*statepb.TaskSpec{{
			Name: task, JobCount: s.jobs(chance), RestartCompletedJobs: *s.Job.Restart, Argv: []string{"simulated", s.Kind},
			CpuLimitHundredths: int64(op.perJob.CPU), MemoryLimit: limit, GpuLimit: op.perJob.GPU, NetworkLimit: op.perJob.Network,
		}},
	}
	if s.Together != nil {
		spec.Tasks[0].Gang = &statepb.GangSpec{Size: int32(min(*s.Together.Size, int64(spec.GetTasks()[0].GetJobCount())))}
	}
	if s.Interruption != nil {
		spec.Tasks[0].InterruptionSignal = "SIGTERM"
		spec.Tasks[0].RestartExitCode = proto.Int32(restartCode)
	}
	w.operations[s.ID] = op
	w.meter.operations.Submitted++
	err := w.do(&commandpb.StartOperation{OperationId: s.ID, User: "simulation", Spec: spec})
	var refused *refusedError
	if errors.As(err, &refused) {
		delete(w.operations, s.ID)
		counts := &w.meter.operations
		counts.Refused++
		counts.RefusedBecause = cmp.Or(counts.RefusedBecause, refused.Error())
		return nil
	}
	if err != nil {
		return err
	}
	if s.Lasts != nil {
		w.queue.add(w.now+toDuration(s.Lasts.Draw(chance)), func() error { return w.close(s.ID) })
	}
	return w.advance(s.ID)
}

// restartCode is the exit code of an interrupted job that asks to run again.
const restartCode = 75

func toDuration(seconds float64) time.Duration {
	return time.Duration(min(seconds*float64(time.Second), float64(maxTime)))
}

// advance moves an operation through its states until it has to wait.
func (w *world) advance(id string) error {
	for was := lifecycle.None; ; {
		op, _ := w.state.Operation(scheduling.OperationID(id))
		now, err := lifecycle.ParseState(op.GetState())
		if err != nil {
			return err
		}
		switch {
		case now == lifecycle.Running:
			if was != lifecycle.None {
				w.begun(w.operations[id])
			}
			return nil
		case now == lifecycle.Pending:
			name := placeOf(op)
			w.pending[name] = append(w.pending[name], id)
			return w.admit(name)
		case now.Finishing() && w.operations[id].running > 0:
			return w.endAll(id, now)
		}
		if err := w.do(w.owed(op)...); err != nil {
			return err
		}
		if now.Finishing() {
			return w.ended(id)
		}
		was = now
	}
}

// placeOf returns the pool of an operation: of a pool with ephemeral subpools, one of these.
func placeOf(op *statepb.Operation) scheduling.PoolName {
	return scheduling.PoolName(op.In(string(scheduling.DefaultTree)).GetPool())
}

// begun notes that an operation runs from now on.
func (w *world) begun(op *operation) {
	op.runs = w.now
	w.estimates.begins(op)
	for a := op.pool; a != nil; a = a.parent {
		a.outcome.sized(op.perJob, w.meter.present)
		if a.parent != nil {
			a.outcome.Patience = w.file.patienceOf(a.name, a.outcome.job)
		}
	}
}

// owed returns the commands that advance an operation: the commands of the leader or, if there
// are none, those of its controller.
func (w *world) owed(op *statepb.Operation) []proto.Message {
	here := func(string) (string, bool) { return replica, true }
	if step := life.Next(w.time(), life.View{Operation: op, Term: w.term}, here, 0); len(step.Propose) > 0 {
		return step.Propose
	}
	known := w.operations[op.GetId()]
	next := controller.Next(op, op.GetAssignment().GetEpoch(), func(*statepb.TaskSpec) *statepb.TaskMemory {
		if known.lessons == nil {
			return nil
		}
		return &statepb.TaskMemory{Reserve: statepb.NewJobReserve(known.lessons.told)}
	})
	if defines, ok := next.(interface {
		GetTasks() []*commandpb.TaskDefinition
	}); ok {
		// Simulated jobs may take what no task can ask for: slots, and memory without a limit.
		defines.GetTasks()[0].JobResources = statepb.NewResources(known.perJob)
	}
	return []proto.Message{next}
}

// admit lets operations of a pool run, as the pool's actor does.
func (w *world) admit(name scheduling.PoolName) error {
	waiting := w.pending[name]
	if len(waiting) == 0 {
		return nil
	}
	pools, counts, _ := w.state.Pools(scheduling.DefaultTree)
	view := pool.View{Tree: scheduling.DefaultTree, Pools: pools, Counts: counts, Term: w.term}
	for _, id := range waiting {
		op, _ := w.state.Operation(scheduling.OperationID(id))
		view.Pending = append(view.Pending, op)
	}
	propose, err := pool.Admit(name, view)
	if err != nil {
		return err
	}
	if err := w.do(propose...); err != nil {
		return err
	}
	var admitted []string
	for _, msg := range propose {
		if m, ok := msg.(*commandpb.AdvanceOperation); ok {
			admitted = append(admitted, m.GetOperationId())
		}
	}
	w.pending[name] = slices.DeleteFunc(slices.Clone(waiting), func(id string) bool { return slices.Contains(admitted, id) })
	for _, id := range admitted {
		if err := w.advance(id); err != nil {
			return err
		}
	}
	return nil
}

// ended removes an operation and admits pending ones in its place.
func (w *world) ended(id string) error {
	op := w.operations[id]
	delete(w.operations, id)
	w.estimates.ended(w.now, id)
	w.meter.operations.Ended++
	op.pool.times = append(op.pool.times, float32((w.now - op.accepted).Seconds()))
	for _, name := range slices.Sorted(maps.Keys(w.pending)) {
		if err := w.admit(name); err != nil {
			return err
		}
	}
	return nil
}

// close completes an operation even if work is left.
func (w *world) close(id string) error {
	if w.operations[id] == nil {
		return nil
	}
	op, _ := w.state.Operation(scheduling.OperationID(id))
	var msg proto.Message = &commandpb.CompleteOperation{OperationId: id, User: "simulation"}
	if op.GetState() != lifecycle.Running.String() {
		// It never ran.
		name := placeOf(op)
		w.pending[name] = slices.DeleteFunc(slices.Clone(w.pending[name]), func(other string) bool { return other == id })
		msg = &commandpb.AbortOperation{OperationId: id, User: "simulation"}
	}
	if err := w.do(msg); err != nil {
		return err
	}
	return w.advance(id)
}

// endAll ends all jobs of a finishing operation, and then the operation.
func (w *world) endAll(id string, now lifecycle.State) error {
	order := (&statepb.Operation{State: now.String()}).StopOrderFor(nil)
	op, _ := w.state.Operation(scheduling.OperationID(id))
	msg := &commandpb.FinishJobs{OperationId: id, Epoch: op.GetAssignment().GetEpoch()}
	for _, a := range w.state.AllocationsOfOperation(scheduling.OperationID(id)) {
		msg.Jobs = append(msg.Jobs, &statepb.FinishedJob{JobId: a.GetJobId(), Node: a.GetNode(), State: lifecycle.JobAborted.String(), AbortReason: order.GetReason()})
	}
	if err := w.do(msg); err != nil {
		return err
	}
	if left := w.operations[id].running; left > 0 {
		return fmt.Errorf("operation %s: %d jobs are still running after all were aborted", id, left)
	}
	return w.advance(id)
}
