package state

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/statistics"
)

// checkSizes checks that no operation takes more in a snapshot, with its jobs in progress, than what it
// is counted with where progress counts.
func checkSizes(t tester, s *State) {
	t.Helper()
	counted := &statepb.Limits{ByBytes: true, ByProgress: true}
	for _, o := range s.order {
		if size := sizeOf(o); size > o.bytes(counted) {
			t.Fatalf("operation %s takes %d bytes with its %d jobs, but is counted with %d: %+v, %+v, given %d, jobs %d",
				o.id(), size, len(o.allocations), o.bytes(counted), o.progress, o.history, o.given, o.live)
		}
	}
}

// sizeOf returns what an operation takes in a snapshot with its jobs in progress.
func sizeOf(o *operation) int64 {
	size := proto.Size(&statepb.Record{Record: &statepb.Record_Operation{Operation: o.full()}})
	for _, a := range o.allocations {
		size += proto.Size(&statepb.Record{Record: &statepb.Record_Allocation{Allocation: a}})
	}
	return int64(size)
}

// fullOf sets each number of a message, and of what is in it, to the one that takes most bytes of those
// that it can be, and each text to one of a length. Fields that are named stay empty.
func fullOf[M proto.Message](msg M, length int, empty ...protoreflect.Name) M {
	fill(msg.ProtoReflect(), length, empty)
	return msg
}

func fill(m protoreflect.Message, length int, empty []protoreflect.Name) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		skipped := field.IsMap() || field.IsList()
		for _, name := range empty {
			skipped = skipped || field.Name() == name
		}
		if skipped {
			continue
		}
		switch field.Kind() {
		case protoreflect.Int32Kind:
			m.Set(field, protoreflect.ValueOfInt32(math.MaxInt32))
		case protoreflect.Int64Kind:
			m.Set(field, protoreflect.ValueOfInt64(math.MaxInt64))
		case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
			m.Set(field, protoreflect.ValueOfUint64(math.MaxUint64))
		case protoreflect.DoubleKind:
			m.Set(field, protoreflect.ValueOfFloat64(math.Pi))
		case protoreflect.BoolKind:
			m.Set(field, protoreflect.ValueOfBool(true))
		case protoreflect.StringKind:
			m.Set(field, protoreflect.ValueOfString(strings.Repeat("x", length)))
		case protoreflect.BytesKind:
			m.Set(field, protoreflect.ValueOfBytes(make([]byte, length)))
		case protoreflect.MessageKind:
			fill(m.Mutable(field).Message(), length, empty)
		default:
			panic(fmt.Sprint("no largest value of ", field.FullName()))
		}
	}
}

// TestJobsTakeNoMoreThanCounted (T4) has records of jobs with the largest numbers, and with texts of any
// length: what they are counted with is not less than what they take.
func TestJobsTakeNoMoreThanCounted(t *testing.T) {
	for _, length := range []int{0, usualID, 1 << 10} {
		// The names of states, reasons and kinds have at most 32 bytes.
		names := []protoreflect.Name{"state", "abort_reason", "interruption", "preemption"}
		for _, empty := range [][]protoreflect.Name{names, append(names, "stop"), append(names, "stop", "reserve", "next_reserve", "input", "output", "skipped", "sample"), append(names, "preempted_for")} {
			j := fullOf(&statepb.FinishedJob{}, length, append(empty, "reason")...)
			j.State, j.AbortReason = "completed", strings.Repeat("r", 32)
			j.Statistics.Values = map[string]int64{strings.Repeat("v", length): math.MinInt64}
			if j.GetInput() != nil {
				j.Input.Processed = []*statepb.Slice{fullOf(&statepb.Slice{}, 0)}
			}
			j.Error = &statepb.Error{Message: strings.Repeat("e", length)}
			named(j.GetStop())
			size := int64(proto.Size(&statepb.Operation{FinishedJobs: []*statepb.FinishedJob{j}}))
			var h history
			if h.add(j, 1); h.jobs+h.rest < size {
				t.Errorf("a finished job takes %d bytes, counted %+v, texts of %d, without %v", size, h, length, empty)
			}
			if h.add(j, -1); h != (history{}) {
				t.Errorf("a job that is taken away leaves %+v", h)
			}
			a := fullOf(&statepb.Allocation{}, length, append(empty, "reason")...)
			a.Ports = []int32{maxPort, maxPort}
			named(a.GetStop())
			if size := int64(proto.Size(&statepb.Record{Record: &statepb.Record_Allocation{Allocation: a}})); size > allocationBytes(a) {
				t.Errorf("an allocation takes %d bytes, counted %d, texts of %d, without %v", size, allocationBytes(a), length, empty)
			}
		}
	}
}

// named gives an order the longest names.
func named(order *statepb.StopOrder) {
	if order != nil {
		order.Reason, order.Interruption, order.Preemption = strings.Repeat("r", 32), statepb.InterruptedByUser, lifecycle.GracefulPreemption.String()
	}
}

// TestTasksTakeNoMoreThanCounted (T4) has a task whose cookies take as much as they can: each is an
// interval of its own, and has attempts, failures and a reserve, or a part; its numbers are the largest.
func TestTasksTakeNoMoreThanCounted(t *testing.T) {
	const cookies, first = 10000, math.MaxInt32 - 2*10000
	reserve := fullOf(&statepb.CookieReserve{}, usualID)
	largest := func() *statepb.Task {
		task := fullOf(&statepb.Task{}, 0, "memory")
		task.Memory = fullOf(&statepb.TaskMemory{}, usualID)
		task.Name = "t"
		return task
	}
	busy, gang, reader := largest(), largest(), largest()
	busy.Attempts, busy.Failures, busy.Reserves = map[int32]int32{}, map[int32]int32{}, map[int32]*statepb.CookieReserve{}
	reader.Attempts, reader.Reserves = map[int32]int32{}, map[int32]*statepb.CookieReserve{}
	var read work
	for i := range int32(cookies) {
		cookie := first + 2*i
		own := &statepb.Interval{Begin: cookie, End: cookie + 1}
		busy.Attempts[cookie], busy.Failures[cookie], busy.Reserves[cookie] = math.MaxInt32, math.MaxInt32, reserve
		busy.GivenUp, gang.Completed = append(busy.GetGivenUp(), own), append(gang.GetCompleted(), own)
		gang.Gang.Completed = append(gang.Gang.Completed, own)
		reader.Attempts[cookie], reader.Reserves[cookie] = math.MaxInt32, reserve
		part := &statepb.CompletedPart{Cookie: cookie, Slices: []*statepb.Slice{fullOf(&statepb.Slice{}, 0)}, Output: fullOf(&statepb.JobOutput{}, int(i%100))}
		read.addPart(part)
		reader.Parts, reader.Completed = append(reader.GetParts(), part), append(reader.GetCompleted(), own)
	}
	gang.Attempts, gang.Reserves = busy.Attempts, busy.Reserves
	for name, task := range map[string]*statepb.Task{"sweep": busy, "gang": gang, "reader": reader, "none": largest()} {
		var w work
		spec := &statepb.OperationSpec{Tasks: []*statepb.TaskSpec{{Name: "t"}}}
		task.Counters.Total = cookies
		if name == "reader" {
			w, spec.Type = read, lifecycle.Map
		}
		if name == "none" {
			task.Counters.Total = 0
		}
		v := &version{state: lifecycle.Running, record: &statepb.Operation{Spec: spec, Tasks: []*statepb.Task{task}}, tasks: []work{w}}
		v.measure()
		if size := int64(proto.Size(&statepb.Operation{Tasks: []*statepb.Task{task}})); size > v.progress.tasks || size < v.progress.tasks/2 && name != "none" {
			t.Errorf("%s: takes %d bytes, counted %d", name, size, v.progress.tasks)
		}
	}
}

// measuring runs an operation of tasks, of which each has a job that has all statistics with values of
// its own.
func measuring(j *journal, id, user string, tasks, jobs int) {
	j.t.Helper()
	spec := specOf(int32(jobs))
	for i := 1; i < tasks; i++ {
		spec.Tasks = append(spec.Tasks, &statepb.TaskSpec{Name: fmt.Sprint("t", i), JobCount: int32(jobs)})
	}
	j.must(&commandpb.StartOperation{OperationId: id, User: user, Spec: spec})
	for _, step := range roadOf(id, spec) {
		if m, ok := step.(*commandpb.AdvanceOperation); ok {
			m.Term = j.state.Term().GetTerm()
		}
		if m, ok := step.(*commandpb.AssignController); ok {
			m.Term = j.state.Term().GetTerm()
		}
		j.must(step)
	}
}

// measured grants a job of a task and ends it, with all statistics.
func (j *journal) measured(id, task, job string, seed int64) {
	j.t.Helper()
	grant := grantOf(job, id)
	grant.Task = task
	j.must(&commandpb.StartAllocations{Term: j.state.Term().GetTerm(), Grants: []*commandpb.Grant{grant}})
	var values statistics.Values
	for i, d := range statistics.All() {
		values.Put(d.Name, seed*int64(1000+i))
	}
	packed, _ := values.Pack()
	j.must(&commandpb.FinishJobs{OperationId: id, Epoch: 1, Jobs: []*statepb.FinishedJob{{
		JobId: job, State: "completed", Sample: &statepb.MemorySample{User: .5, Proxy: 1}, Statistics: &statepb.JobStatistics{Packed: packed},
	}}})
}

// TestStatisticsCount (T4) has a user run operations of 20 tasks, of which each leaves statistics: they
// count, so that starts are refused before the user's records take more than they may in a snapshot.
func TestStatisticsCount(t *testing.T) {
	const quota, tasks = 1 << 20, 20
	j := newJournal(t)
	j.must(nodeOf("n1", 100))
	j.limited(quota, 100<<20, 100<<20)
	started := 0
	for ; started < 1000; started++ {
		id := fmt.Sprint("op", started)
		spec := specOf(2)
		for i := 1; i < tasks; i++ {
			spec.Tasks = append(spec.Tasks, &statepb.TaskSpec{Name: fmt.Sprint("t", i), JobCount: 2})
		}
		if refused := CheckBytes(j.state, "ann", spec); refused != nil {
			result, _ := j.apply(&commandpb.StartOperation{OperationId: id, User: "ann", Spec: spec})
			if got := result.GetRefusal().GetMessage(); got != "start operation: "+refused.Error() || !strings.Contains(got, "operation_bytes_per_user") {
				t.Errorf("at the door %v, in the log %q", refused, got)
			}
			break
		}
		measuring(j, id, "ann", tasks, 2)
		for i, task := range spec.GetTasks() {
			j.measured(id, task.GetName(), fmt.Sprint(id, "-", i), int64(1+i))
		}
	}
	size := len(bytesOf(t, j.state.Freeze()))
	if started < 4 || started > quota/(tasks*6000) || size > quota || size < quota/3 {
		t.Errorf("%d operations were started, which take %d of %d bytes in a snapshot", started, size, quota)
	}
	mustRestore(t, j.state.Freeze())
}

// TestNoRoomForStatistics (T4) fills the quota of a user and goes on to end jobs with ever other values:
// the records do not grow with them. The histograms go, and sums stay; no more samples are kept, and few
// jobs. Those of another user, who has room, are kept as ever, and what has ended makes room.
func TestNoRoomForStatistics(t *testing.T) {
	const quota = 512 << 10
	j := newJournal(t)
	j.must(nodeOf("n1", 100))
	j.limited(quota, 100<<20, 100<<20)
	j.must(heavy("ended", "ann", 16<<10))
	j.aborted("ended")
	j.must(heavy("large", "ann", 440<<10))
	measuring(j, "op", "ann", 1, 250)
	measuring(j, "other", "bob", 1, 250)
	for i := range 250 {
		for _, id := range []string{"op", "other"} {
			j.measured(id, "t", fmt.Sprint(id, i), int64(1+i*i))
		}
		// A job's end is what comes on top.
		if taken := j.state.quotas.users["ann"].all; taken > quota+(4<<10) {
			t.Fatalf("after %d jobs the operations of ann take %d bytes", i, taken)
		}
	}
	if j.state.operations["ended"] != nil {
		t.Error("what has ended made no room")
	}
	op, other := j.operation("op"), j.operation("other")
	sums, full := j.state.Statistics("op")[0].Of(statistics.TimeExec, "completed"), j.state.Statistics("other")[0].Of(statistics.TimeExec, "completed")
	if sums.Count != 250 || sums.Sum != full.Sum || len(sums.Buckets) != 0 || len(full.Buckets) < 100 {
		t.Errorf("without room: %+v; with room: %d buckets of %d", sums, len(full.Buckets), full.Count)
	}
	if kept, all := len(op.GetFinishedJobs()), len(other.GetFinishedJobs()); kept == 0 || kept > 10 || all < 200 {
		t.Errorf("%d finished jobs are kept without room, %d with room", kept, all)
	}
	if kept, all := op.GetTasks()[0].GetMemory().GetSampleCount(), other.GetTasks()[0].GetMemory().GetSampleCount(); kept == 0 || kept == all || all != 250 {
		t.Errorf("%d samples are kept without room, %d with room", kept, all)
	}
	mustRestore(t, j.state.Freeze())
}

// TestInputWithoutRoom (T4) prepares map operations whose input, or whose jobs, have no room: they fail,
// and say why. What has room runs.
func TestInputWithoutRoom(t *testing.T) {
	spec := specOf(0)
	spec.Type, spec.Map, spec.Tasks[0].JobCount = lifecycle.Map, &statepb.MapSpec{}, 0
	for name, test := range map[string]struct {
		files, jobs int
		want        string
	}{
		"fits":             {10, 100, ""},
		"many files":       {10000, 100, "no room for the operation's input: prepare operation: limit reached: operations of user ann take "},
		"many jobs":        {10, 1000, "no room for the operation's jobs: define tasks: limit reached: operations of user ann take "},
		"many of few jobs": {1, 900, "no room for the operation's jobs: define tasks: limit reached: operations of user ann take "},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			j.limited(128<<10, 100<<20, 100<<20)
			input, define := &statepb.Input{}, &commandpb.DefineTasks{OperationId: "op", Epoch: 1, Tasks: []*commandpb.TaskDefinition{{Name: "t", JobCount: int32(test.jobs), JobResources: jobSize()}}}
			for i := range test.files {
				input.Files = append(input.Files, &statepb.InputFile{Path: fmt.Sprint("/data/input/", i), Size: int64(test.jobs)})
				input.Bytes += int64(test.jobs)
			}
			for i := range test.jobs {
				reads := &statepb.Slices{}
				for file := range test.files {
					reads.Slices = append(reads.Slices, slice(int32(file), int64(i), int64(i+1)))
				}
				define.Tasks[0].Slices = append(define.Tasks[0].Slices, reads)
			}
			j.must(&commandpb.StartOperation{OperationId: "op", User: "ann", Spec: spec})
			term := j.state.Term().GetTerm()
			for _, step := range []proto.Message{
				&commandpb.AdvanceOperation{OperationId: "op", Term: term, From: "starting", To: "waiting_for_agent"},
				&commandpb.AssignController{Term: term, Assignments: []*commandpb.ControllerAssignment{{OperationId: "op", Replica: "r1", Epoch: 1}}},
				&commandpb.PrepareOperation{OperationId: "op", Epoch: 1, Input: input},
				&commandpb.AdvanceOperation{OperationId: "op", Term: term, From: "pending", To: "materializing"},
				define,
			} {
				if j.must(step); j.stateOf("op") == "failing" {
					break
				}
			}
			op := j.operation("op")
			if got := op.GetResult().GetMessage(); !strings.HasPrefix(got, test.want) || (got == "") != (op.GetState() == "running") || test.want == "" && got != "" {
				t.Errorf("%s: %q, want %q", op.GetState(), got, test.want)
			}
			mustRestore(t, j.state.Freeze())
		})
	}
}

// TestProgressOfOldLogs (T4) has a log in which progress does not count: an operation takes what it took, until
// a leader says that it does.
func TestProgressOfOldLogs(t *testing.T) {
	j := newJournal(t)
	old := &statepb.Limits{ByBytes: true, OperationBytesPerUser: 64 << 10}
	j.must(nodeOf("n1", 100), &commandpb.BeginTerm{Term: 2, Replica: "r1", ClusterId: "c1", Limits: old})
	measuring(j, "op", "ann", 1, 1000)
	for i := range 100 {
		j.measured("op", "t", fmt.Sprint("job", i), int64(1+i*i))
	}
	o := j.state.operations["op"]
	want := operationBytes + o.given + o.history.events + o.history.jobs
	of := j.state.Statistics("op")[0].Of(statistics.TimeExec, "completed")
	if o.weight != want || j.state.quotas.users["ann"].all != want || len(of.Buckets) < 10 || o.record.GetTasks()[0].GetMemory().GetSampleCount() != 100 {
		t.Errorf("takes %d bytes, want %d; statistics %+v", o.weight, want, of)
	}
	if refused := CheckBytes(j.state, "ann", specOf(1000)); refused != nil {
		t.Errorf("a start is refused: %v", refused)
	}
	mustRestore(t, j.state.Freeze())
	j.must(&commandpb.BeginTerm{Term: 3, Replica: "r1", ClusterId: "c1", Limits: WithBytes(old)})
	if refused := CheckBytes(j.state, "ann", specOf(1000)); refused == nil || j.state.operations["op"].weight < want+1000*cookieBytes {
		t.Errorf("a start where progress counts: %v; taken are %d bytes", refused, j.state.operations["op"].weight)
	}
	mustRestore(t, j.state.Freeze())
}

// TestOptionsWithoutRoom (T4) gives an operation options in its tree that have no room.
func TestOptionsWithoutRoom(t *testing.T) {
	j := newJournal(t)
	j.limited(16<<10, 100<<20, 100<<20)
	j.must(&commandpb.StartOperation{OperationId: "op", User: "ann", Spec: specOf(1)})
	filter := func(bytes int) *commandpb.UpdateOperation {
		return updateOf("op", string(scheduling.DefaultTree), nil, map[string]any{"scheduling_tag_filter": "a" + strings.Repeat(" ", bytes) + "| b"})
	}
	j.must(filter(1000))
	taken := j.state.operations["op"].weight
	if taken < operationBytes+1000 {
		t.Errorf("takes %d bytes", taken)
	}
	for j.state.quotas.users["ann"].all < 14<<10 {
		j.must(&commandpb.SuspendOperation{OperationId: "op", User: strings.Repeat("u", 1000)}, &commandpb.ResumeOperation{OperationId: "op"})
	}
	result, _ := j.apply(filter(4000))
	if r := result.GetRefusal(); r.GetCode() != CodeTooManyBytes || !strings.Contains(r.GetMessage(), "operation_bytes_per_user") {
		t.Errorf("refused with %v", r)
	}
	j.must(filter(500))
}
