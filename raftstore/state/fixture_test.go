package state

import (
	"bytes"
	"encoding/binary"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// epochStart is when the log of a test begins.
var epochStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// journal is a state and the log that led to it.
type journal struct {
	t       tester
	state   *State
	entries []proto.Message
}

// newJournal returns a state in term 1 of replica r1 of cluster c1.
func newJournal(t tester) *journal {
	j := &journal{t: t, state: New()}
	UseShelf(j.state, inMemory{}, 1)
	j.must(&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "c1", Limits: WithBytes(nil)})
	return j
}

// inMemory is a shelf for tests.
type inMemory struct{}

func (inMemory) Put(record []byte) Shelved { return Held(record) }

// apply makes msg the next log entry, a second after the one before.
func (j *journal) apply(msg proto.Message) (*commandpb.Result, []Event) {
	j.t.Helper()
	j.entries = append(j.entries, msg)
	index := uint64(len(j.entries))
	complete(msg, epochStart.Add(time.Duration(index)*time.Second))
	result, events := j.state.Apply(index, msg)
	if err := j.state.Verify(); err != nil {
		j.t.Fatalf("after %T %v: %v", msg, msg, err)
	}
	checkSizes(j.t, j.state)
	return result, events
}

// must applies commands that are carried out.
func (j *journal) must(messages ...proto.Message) []Event {
	j.t.Helper()
	var events []Event
	for _, msg := range messages {
		result, caused := j.apply(msg)
		if r := result.GetRefusal(); r != nil {
			j.t.Fatalf("%T %v: refused: %s: %s", msg, msg, r.GetCode(), r.GetMessage())
		}
		events = append(events, caused...)
	}
	return events
}

// complete sets the time of a command that has none.
func complete(msg proto.Message, now time.Time) {
	m := msg.ProtoReflect()
	if field := m.Descriptor().Fields().ByName("time"); field != nil && !m.Has(field) {
		m.Set(field, protoreflect.ValueOfMessage(timestamppb.New(now).ProtoReflect()))
	}
}

// nodeOf returns the registration of an online node with slots and cores.
func nodeOf(id string, slots int64) *commandpb.RegisterNode {
	return &commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
		Id: id, Incarnation: 1, Resources: &statepb.Resources{UserSlots: slots, CpuHundredths: 100 * slots, Memory: 1000 * slots},
	}}
}

// optionsOf returns options as commands hold them.
func optionsOf(options map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(options)
	if err != nil {
		panic(err)
	}
	return s
}

// changesOf returns new values of options by path.
func changesOf(options map[string]any) *commandpb.Changes {
	return &commandpb.Changes{Values: optionsOf(options).GetFields()}
}

// edit returns a change of the default tree.
func edit(edits ...*commandpb.TreeEdit) *commandpb.EditTree { return &commandpb.EditTree{Edits: edits} }

func creation(name, parent string, options map[string]any) *commandpb.TreeEdit {
	return &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: name, Parent: parent, Options: optionsOf(options)}}}
}

// createPool returns the making of a pool in the default tree.
func createPool(name, parent string, options map[string]any) *commandpb.EditTree {
	return edit(creation(name, parent, options))
}

func poolChange(name string, options map[string]any) *commandpb.TreeEdit {
	return &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_ChangePool{ChangePool: &commandpb.PoolChange{Name: name, Options: changesOf(options)}}}
}

// changePool returns a change of options of a pool in the default tree.
func changePool(name string, options map[string]any) *commandpb.EditTree {
	return edit(poolChange(name, options))
}

// movePool returns the move of a pool in the default tree.
func movePool(name, parent string) *commandpb.EditTree {
	return edit(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_ChangePool{ChangePool: &commandpb.PoolChange{Name: name, Parent: &parent}}})
}

func removal(name string) *commandpb.TreeEdit {
	return &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Remove{Remove: name}}
}

func renaming(from, to string) *commandpb.TreeEdit {
	return &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Rename{Rename: &commandpb.RenamePool{From: from, To: to}}}
}

// treeEdit returns a change of the options of a tree.
func treeEdit(tree string, options map[string]any) *commandpb.EditTree {
	return &commandpb.EditTree{Tree: tree, Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Change{Change: changesOf(options)}}}}
}

// jobSize is what a job of the fixtures takes.
func jobSize() *statepb.Resources {
	return &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1000}
}

// specOf returns the specification of an operation with one task "t".
func specOf(jobs int32) *statepb.OperationSpec {
	return &statepb.OperationSpec{
		Type: "vanilla", MaxFailedJobCount: 10,
		Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: jobs}},
	}
}

// run leads an operation from its start to running, controlled by r1 in epoch 1.
func (j *journal) run(id string, spec *statepb.OperationSpec) {
	j.t.Helper()
	j.walk(id, spec, lifecycle.Running)
}

// walk leads a new operation along its life as far as a state.
func (j *journal) walk(id string, spec *statepb.OperationSpec, to lifecycle.State) {
	j.t.Helper()
	j.must(&commandpb.StartOperation{OperationId: id, User: "ann", Spec: spec})
	for _, step := range roadOf(id, spec) {
		if j.stateOf(id) == to.String() {
			return
		}
		j.must(step)
	}
	if got := j.stateOf(id); got != to.String() {
		j.t.Fatalf("operation %s is %s, want %s", id, got, to)
	}
}

// roadOf returns the commands that lead from starting to running.
func roadOf(id string, spec *statepb.OperationSpec) []proto.Message {
	define := &commandpb.DefineTasks{OperationId: id, Epoch: 1}
	for _, t := range spec.GetTasks() {
		define.Tasks = append(define.Tasks, &commandpb.TaskDefinition{Name: t.GetName(), JobCount: t.GetJobCount(), JobResources: jobSize()})
	}
	return []proto.Message{
		&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "starting", To: "waiting_for_agent"},
		&commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{{OperationId: id, Replica: "r1", Epoch: 1}}},
		&commandpb.PrepareOperation{OperationId: id, Epoch: 1},
		&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "pending", To: "materializing"},
		define,
	}
}

func (j *journal) stateOf(id string) string {
	j.t.Helper()
	return j.operation(id).GetState()
}

func (j *journal) operation(id string) *statepb.Operation {
	j.t.Helper()
	o, ok := j.state.Operation(scheduling.OperationID(id))
	if !ok {
		j.t.Fatalf("operation %s is missing", id)
	}
	return o
}

// grantOf returns a grant of a job of task "t" on node n1.
func grantOf(job, operation string) *commandpb.Grant {
	return &commandpb.Grant{JobId: job, OperationId: operation, Task: "t", Node: "n1", NodeIncarnation: 1, Resources: jobSize()}
}

// start grants jobs of task "t" of an operation on node n1.
func (j *journal) start(operation string, jobs ...string) {
	j.t.Helper()
	cmd := &commandpb.StartAllocations{Term: 1}
	for _, job := range jobs {
		cmd.Grants = append(cmd.Grants, grantOf(job, operation))
	}
	result, _ := j.apply(cmd)
	for _, g := range result.GetStartAllocations().GetGrants() {
		if g.GetRefusal() != "" {
			j.t.Fatalf("start job: refused: %s: %s", g.GetRefusal(), g.GetMessage())
		}
	}
}

// finish ends jobs alike.
func (j *journal) finish(operation, state string, jobs ...string) []Event {
	j.t.Helper()
	cmd := &commandpb.FinishJobs{OperationId: operation, Epoch: 1}
	for _, job := range jobs {
		cmd.Jobs = append(cmd.Jobs, &statepb.FinishedJob{JobId: job, State: state, ExitCode: 1})
	}
	result, events := j.apply(cmd)
	if result.GetRefusal() != nil {
		j.t.Fatalf("finish jobs: %v", result.GetRefusal())
	}
	for _, r := range result.GetFinishJobs().GetJobs() {
		if r.GetRefusal() != "" {
			j.t.Fatalf("finish job: refused: %s: %s", r.GetRefusal(), r.GetMessage())
		}
	}
	return events
}

// bytesOf returns the records of a snapshot as bytes.
func bytesOf(t tester, f *Frozen) []byte {
	t.Helper()
	var out []byte
	err := f.Encoded(func(r *statepb.Record, data []byte) (err error) {
		if r != nil {
			data, err = deterministic.Marshal(r)
		}
		out = append(binary.AppendUvarint(out, uint64(len(data))), data...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// contentOf returns the records of a state as bytes, less the last index, which
// refused commands change too.
func contentOf(t tester, s *State) []byte {
	t.Helper()
	f := s.Freeze()
	f.parts[0].all(func() {}, func(header *statepb.Record, _ []byte) bool {
		header = proto.CloneOf(header)
		header.GetHeader().Index = 0
		f.parts[0] = single(header)
		return true
	})
	return bytesOf(t, f)
}

// recordsOf returns copies of the records of a snapshot.
func recordsOf(t tester, f *Frozen) []*statepb.Record {
	t.Helper()
	var records []*statepb.Record
	err := f.Records(func(r *statepb.Record) error {
		records = append(records, proto.CloneOf(r))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// restore makes a state of records.
func restore(records []*statepb.Record) (*State, error) {
	r := NewRestorer()
	for _, record := range records {
		if err := r.Add(record); err != nil {
			return nil, err
		}
	}
	return r.State()
}

// mustRestore makes a state of a snapshot and checks that it yields the same one.
func mustRestore(t tester, f *Frozen) *State {
	t.Helper()
	s, err := restore(recordsOf(t, f))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytesOf(t, s.Freeze()), bytesOf(t, f)) {
		t.Fatal("a restored state has other records than the one that it was made of")
	}
	return s
}
