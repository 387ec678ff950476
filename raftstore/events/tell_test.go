package events

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/eventpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
)

// history is a state and the teller that follows it.
type history struct {
	t      *testing.T
	state  *state.State
	teller *Teller
	index  uint64
}

// shelf has what ended operations leave, all of them.
type shelf struct{}

// Put implements state.Shelf.
func (shelf) Put(record []byte) state.Shelved { return state.Held(record) }

func newHistory(t *testing.T) *history {
	h := &history{t: t, state: state.New()}
	state.UseShelf(h.state, shelf{}, 0)
	h.teller = NewTeller(h.state)
	return h
}

// apply makes a command the next log entry, a second after the one before.
func (h *history) apply(msg proto.Message) []*eventpb.Event {
	h.t.Helper()
	h.index++
	m := msg.ProtoReflect()
	at := timestamppb.New(epoch.Add(time.Duration(h.index) * time.Second)).ProtoReflect()
	if field := m.Descriptor().Fields().ByName("time"); field != nil && !m.Has(field) {
		m.Set(field, protoreflect.ValueOfMessage(at))
	}
	result, caused := h.state.Apply(h.index, msg)
	if refusal := result.GetRefusal(); refusal != nil {
		h.t.Fatalf("%T: %s", msg, refusal.GetMessage())
	}
	return h.teller.Tell(nil, h.index, msg, caused, h.state)
}

func structOf(t *testing.T, of map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(of)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var size = &statepb.Resources{UserSlots: 1, CpuHundredths: 150, Memory: 1 << 20}

// start starts an operation of ann in the default pool.
func start(id string, spec *statepb.OperationSpec) proto.Message {
	return &commandpb.StartOperation{OperationId: id, User: "ann", Spec: spec}
}

// step is a command, and what is told of it.
type step struct {
	msg  proto.Message
	want string
}

// life is the life of a cluster, a step each, and what is told of it.
func life(t *testing.T) []step {
	t.Helper()
	return slices.Concat(lifeOfPools(t), lifeOfOperation(), lifeOfGang(), lifeOfMap(), lifeOfTrees(t))
}

// lifeOfPools is the part in which a cluster begins, with a node and a pool.
func lifeOfPools(t *testing.T) []step {
	t.Helper()
	return []step{
		{&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "c"}, "leader_changed replica=r1 term=1"},
		{&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "n1", Incarnation: 1, Resources: &statepb.Resources{UserSlots: 10, CpuHundredths: 1000, Memory: 1 << 30}}},
			"node_online node=n1 tree=default"},
		{&commandpb.EditTree{User: "oda", Edits: []*commandpb.TreeEdit{
			{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: "ads", Options: structOf(t, map[string]any{"weight": 2.0})}}},
		}}, "pool_created pool=ads tree=default user=oda to=<Root> {weight:2}"},
		{&commandpb.EditTree{User: "oda", Edits: []*commandpb.TreeEdit{
			{Edit: &commandpb.TreeEdit_Rename{Rename: &commandpb.RenamePool{From: "ads", To: "shop"}}},
			{Edit: &commandpb.TreeEdit_ChangePool{ChangePool: &commandpb.PoolChange{Name: "shop", Options: &commandpb.Changes{Values: map[string]*structpb.Value{
				"weight": structpb.NewNullValue(), "strong_guarantee_resources/cpu": structpb.NewNumberValue(3)}}}}},
		}}, "pool_renamed pool=shop tree=default user=oda from=ads to=shop; pool_changed pool=shop tree=default user=oda {strong_guarantee_resources/cpu:3 weight:null}"},
	}
}

// lifeOfOperation is the part of an operation, whose jobs are preempted, interrupted and fail.
func lifeOfOperation() []step {
	return []step{
		{&commandpb.StartOperation{OperationId: "op", User: "ann", Spec: &statepb.OperationSpec{
			Type: "vanilla", Pool: "shop", Title: "crunch", MaxFailedJobCount: 3, Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: 3, Argv: []string{"true"}, InterruptionSignal: "SIGTERM", MaxAttempts: 1}},
		}}, "operation_accepted op=op pool=shop tree=default user=ann to=starting {title:crunch}"},
		{&commandpb.AdvanceOperation{OperationId: "op", Term: 1, From: "starting", To: "waiting_for_agent"}, "operation_state op=op pool=shop tree=default from=starting to=waiting_for_agent"},
		{&commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{{OperationId: "op", Replica: "r1", Epoch: 1}}},
			"operation_controller op=op pool=shop tree=default replica=r1 epoch=1; " +
				"operation_state op=op pool=shop tree=default from=waiting_for_agent to=initializing reason=controller_assigned {epoch:1 replica:r1}"},
		{&commandpb.PrepareOperation{OperationId: "op", Epoch: 1}, "operation_state op=op pool=shop tree=default from=initializing to=preparing; " +
			"operation_state op=op pool=shop tree=default from=preparing to=pending"},
		{&commandpb.AdvanceOperation{OperationId: "op", Term: 1, From: "pending", To: "materializing"}, "operation_state op=op pool=shop tree=default from=pending to=materializing"},
		{&commandpb.DefineTasks{OperationId: "op", Epoch: 1, Tasks: []*commandpb.TaskDefinition{{Name: "t", JobCount: 3, JobResources: size}}},
			"operation_state op=op pool=shop tree=default from=materializing to=running"},
		{&commandpb.UpdateOperation{OperationId: "op", User: "ann", Changes: []*commandpb.OperationChange{{Options: &commandpb.Changes{Values: map[string]*structpb.Value{"weight": structpb.NewNumberValue(5)}}}}},
			"operation_updated op=op pool=shop tree=default user=ann {weight:5}"},
		{&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{
			{JobId: "a", OperationId: "op", Task: "t", Node: "n1", NodeIncarnation: 1, Resources: size},
			{JobId: "b", OperationId: "op", Task: "t", Node: "n1", NodeIncarnation: 1, Resources: size},
		}}, "job_started op=op pool=shop tree=default node=n1 job=a; job_started op=op pool=shop tree=default node=n1 job=b"},
		{&commandpb.PreemptAllocations{Term: 1, Tree: "default", Preemptions: []*commandpb.Preemption{{JobId: "a", Order: orderedAtEpoch(&statepb.StopOrder{
			Reason: "preemption", Message: "why", GraceMillis: 15000, Interruption: "preemption", Preemption: "aggressive_preemption",
			PreemptedFor: &statepb.Beneficiary{OperationId: "op", Task: "t", Resources: size}})}}},
			"job_preempted op=op pool=shop tree=default node=n1 job=a reason=preemption preemption=aggressive_preemption for=op interruption=preemption grace=15s"},
		{&commandpb.StopJobs{OperationId: "op", JobIds: []string{"b"}, User: "ann", Order: orderedAtEpoch(&statepb.StopOrder{Reason: "user_request", Message: "enough", GraceMillis: 1000, Interruption: "user_request"})},
			"job_interrupted op=op pool=shop tree=default node=n1 job=b user=ann reason=user_request interruption=user_request grace=1s"},
		{&commandpb.FinishJobs{OperationId: "op", Epoch: 1, Jobs: []*statepb.FinishedJob{
			{JobId: "a", State: "aborted", AbortReason: "preemption"}, {JobId: "b", State: "failed", ExitCode: 7},
		}}, "job_aborted op=op pool=shop tree=default node=n1 job=a reason=preemption preemption=aggressive_preemption for=op interruption=preemption; " +
			"job_failed op=op pool=shop tree=default node=n1 job=b interruption=user_request exit=7 {failures:1 given_up:true}"},
		{&commandpb.SuspendOperation{OperationId: "op", User: "ann"}, "operation_suspended op=op pool=shop tree=default user=ann"},
		{&commandpb.ResumeOperation{OperationId: "op", User: "ann"}, "operation_resumed op=op pool=shop tree=default user=ann"},
		{&commandpb.DrainNode{Node: "n1", User: "oda", Reason: "disk"}, "node_drained node=n1 tree=default user=oda"},
		{&commandpb.UndrainNode{Node: "n1"}, "node_undrained node=n1 tree=default"},
		{&commandpb.AbortOperation{OperationId: "op", User: "ann"}, "operation_state op=op pool=shop tree=default user=ann from=running to=aborting reason=aborted_by_user"},
		{&commandpb.AdvanceOperation{OperationId: "op", Term: 1, From: "aborting", To: "aborted"}, "operation_state op=op pool=shop tree=default from=aborting to=aborted"},
	}
}

// lifeOfGang is the part of a gang, which begins again, and whose memory is learned.
func lifeOfGang() []step {
	return []step{
		{start("gang", &statepb.OperationSpec{Type: "vanilla", MaxFailedJobCount: 3, Tasks: []*statepb.TaskSpec{{Name: "g", JobCount: 1, Gang: &statepb.GangSpec{Size: 1}}}}),
			"operation_accepted op=gang pool=default tree=default user=ann to=starting"},
		{&commandpb.AdvanceOperation{OperationId: "gang", Term: 1, From: "starting", To: "waiting_for_agent"}, "operation_state op=gang pool=default tree=default from=starting to=waiting_for_agent"},
		{&commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{{OperationId: "gang", Replica: "r1", Epoch: 1}}},
			"operation_controller op=gang pool=default tree=default replica=r1 epoch=1; " +
				"operation_state op=gang pool=default tree=default from=waiting_for_agent to=initializing reason=controller_assigned {epoch:1 replica:r1}"},
		{&commandpb.PrepareOperation{OperationId: "gang", Epoch: 1}, "operation_state op=gang pool=default tree=default from=initializing to=preparing; " +
			"operation_state op=gang pool=default tree=default from=preparing to=pending"},
		{&commandpb.AdvanceOperation{OperationId: "gang", Term: 1, From: "pending", To: "materializing"}, "operation_state op=gang pool=default tree=default from=pending to=materializing"},
		{&commandpb.DefineTasks{OperationId: "gang", Epoch: 1, Tasks: []*commandpb.TaskDefinition{{Name: "g", JobCount: 1, JobResources: size, Memory: &statepb.TaskMemory{Profile: "p"}}}},
			"operation_state op=gang pool=default tree=default from=materializing to=running"},
		{&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{{JobId: "g1", OperationId: "gang", Task: "g", Node: "n1", NodeIncarnation: 1, Resources: size, AllOrNone: true}}},
			"job_started op=gang pool=default tree=default node=n1 job=g1 {gang_incarnation:1 gang_rank:0}"},
		{&commandpb.UpdateReserves{OperationId: "gang", Epoch: 1, Tasks: []*commandpb.TaskReserve{{Task: "g", Reserve: &statepb.JobReserve{User: 5 << 20}}}},
			"reserve_moved op=gang pool=default tree=default {memory:5242880 memory_before:1048576 samples:0}"},
		{&commandpb.FinishJobs{OperationId: "gang", Epoch: 1, Jobs: []*statepb.FinishedJob{{JobId: "g1", State: "failed", ExitCode: 1}}},
			"job_failed op=gang pool=default tree=default node=n1 job=g1 exit=1; gang_incarnation op=gang pool=default tree=default job=g1 {incarnation:2}"},
		{&commandpb.AbortOperation{OperationId: "gang", User: "ann"}, "operation_state op=gang pool=default tree=default user=ann from=running to=aborting reason=aborted_by_user"},
		{&commandpb.SaveMemoryProfiles{OperationId: "gang", Epoch: 1, Profiles: []*commandpb.SavedProfile{{Task: "g", Profile: &statepb.MemoryProfile{Key: "p", SampleCount: 7, OperationCount: 1}}}},
			"memory_profile_saved op=gang pool=default tree=default {operations:1 profile:p samples:7}"},
		{&commandpb.RemoveMemoryProfiles{User: "oda"}, "memory_profile_removed user=oda {profile:p}"},
		{&commandpb.AdvanceOperation{OperationId: "gang", Term: 1, From: "aborting", To: "aborted"}, "operation_state op=gang pool=default tree=default from=aborting to=aborted"},
	}
}

// lifeOfMap is the part of a map operation, which skips a record.
func lifeOfMap() []step {
	return []step{
		{start("map", &statepb.OperationSpec{Type: "map", Map: &statepb.MapSpec{MaxSkippedRecords: 1}, MaxFailedJobCount: 3, Tasks: []*statepb.TaskSpec{{Name: "m"}}}),
			"operation_accepted op=map pool=default tree=default user=ann to=starting"},
		{&commandpb.AdvanceOperation{OperationId: "map", Term: 1, From: "starting", To: "waiting_for_agent"}, "operation_state op=map pool=default tree=default from=starting to=waiting_for_agent"},
		{&commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{{OperationId: "map", Replica: "r1", Epoch: 1}}},
			"operation_controller op=map pool=default tree=default replica=r1 epoch=1; " +
				"operation_state op=map pool=default tree=default from=waiting_for_agent to=initializing reason=controller_assigned {epoch:1 replica:r1}"},
		{&commandpb.PrepareOperation{OperationId: "map", Epoch: 1, Input: &statepb.Input{Bytes: 9, Files: []*statepb.InputFile{{Path: "in", Size: 9}}}},
			"operation_state op=map pool=default tree=default from=initializing to=preparing; operation_state op=map pool=default tree=default from=preparing to=pending"},
		{&commandpb.AdvanceOperation{OperationId: "map", Term: 1, From: "pending", To: "materializing"}, "operation_state op=map pool=default tree=default from=pending to=materializing"},
		{&commandpb.DefineTasks{OperationId: "map", Epoch: 1, Tasks: []*commandpb.TaskDefinition{{Name: "m", JobCount: 1, JobResources: size, Slices: []*statepb.Slices{{Slices: []*statepb.Slice{{End: 9}}}}}}},
			"operation_state op=map pool=default tree=default from=materializing to=running"},
		{&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{{JobId: "m1", OperationId: "map", Task: "m", Node: "n1", NodeIncarnation: 1, Resources: size}}},
			"job_started op=map pool=default tree=default node=n1 job=m1"},
		{&commandpb.FinishJobs{OperationId: "map", Epoch: 1, Jobs: []*statepb.FinishedJob{{JobId: "m1", State: "failed", ExitCode: 1, Skipped: &statepb.SkippedRecord{End: 9, Head: []byte{0xff, 'x'}}}}},
			`job_failed op=map pool=default tree=default node=n1 job=m1 exit=1; record_skipped op=map pool=default tree=default {begin:0 end:9 head:"\xffx" path:in}; ` +
				"operation_state op=map pool=default tree=default from=running to=completing reason=all_jobs_completed"},
		{&commandpb.PublishOutput{OperationId: "map", Epoch: 1, Output: &statepb.Output{Path: "out", Rows: 3, Bytes: 4}},
			"output_published op=map pool=default tree=default {bytes:4 path:out rows:3}"},
		{&commandpb.AdvanceOperation{OperationId: "map", Term: 1, From: "completing", To: "completed"}, "operation_state op=map pool=default tree=default from=completing to=completed"},
	}
}

// lifeOfTrees is the part in which pools, trees and nodes go, and another leader comes.
func lifeOfTrees(t *testing.T) []step {
	t.Helper()
	return []step{
		{&commandpb.SetNodeOffline{Term: 1, Node: "n1", Incarnation: 1, Reason: "silent"}, "node_offline node=n1 tree=default"},
		{&commandpb.EditNodeGrant{Grant: &statepb.NodeGrant{Pattern: "x"}, User: "oda", Force: true}, "node_refused node=n1 tree=default user=oda"},
		{&commandpb.EditNodeGrant{Grant: &statepb.NodeGrant{Pattern: "x"}, Disallow: true}, ""},
		{&commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Remove{Remove: "shop"}}}}, "pool_removed pool=shop tree=default to=<Root>"},
		{&commandpb.EditTree{User: "oda", Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Options{Options: structOf(t, map[string]any{"nodes_filter": "cpu"})}}}},
			"node_moved node=n1 from=default; tree_changed tree=default user=oda {nodes_filter:cpu}"},
		{&commandpb.CreateTree{Tree: "gpu", Options: structOf(t, map[string]any{"nodes_filter": "!cpu"})},
			"node_moved node=n1 tree=gpu to=gpu; tree_created tree=gpu {nodes_filter:!cpu}; pool_created pool=default tree=gpu to=<Root>"},
		{&commandpb.SetDefaultTree{Tree: "gpu"}, "tree_default tree=gpu from=default to=gpu"},
		{&commandpb.RemoveTree{Tree: "default", User: "oda"}, "tree_removed tree=default user=oda"},
		{&commandpb.RemoveNode{Node: "n1", User: "oda"}, "node_removed node=n1 tree=gpu user=oda"},
		{&commandpb.BeginTerm{Term: 2, Replica: "r2", ClusterId: "c"}, "leader_changed replica=r2 term=2"},
	}
}

// orderedAtEpoch returns an order to stop that was given at the epoch.
func orderedAtEpoch(o *statepb.StopOrder) *statepb.StopOrder {
	o.Time = timestamppb.New(epoch)
	return o
}

// told is events in a few words.
func told(events []*eventpb.Event) string {
	var all []string
	for _, e := range events {
		parts := []string{e.GetKind()}
		for _, field := range []struct{ name, value string }{
			{"op", e.GetOperation()}, {"pool", e.GetPool()}, {"node", e.GetNode()}, {"tree", e.GetTree()}, {"job", e.GetJob()}, {"user", e.GetUser()}, {"from", e.GetFrom()}, {"to", e.GetTo()},
			{"reason", e.GetReason()}, {"preemption", e.GetPreemption()}, {"for", e.GetPreemptedFor().GetOperation()}, {"interruption", e.GetInterruption()}, {"replica", e.GetReplica()},
		} {
			if field.value != "" {
				parts = append(parts, field.name+"="+field.value)
			}
		}
		for name, value := range map[string]uint64{"term": e.GetTerm(), "epoch": e.GetEpoch(), "exit": uint64(e.GetExitCode())} {
			if value != 0 {
				parts = append(parts, fmt.Sprintf("%s=%d", name, value))
			}
		}
		if e.GetDeadline() != nil && !e.GetDeadline().AsTime().Equal(e.GetTime().AsTime()) {
			parts = append(parts, "grace="+e.GetDeadline().AsTime().Sub(e.GetTime().AsTime()).String())
		}
		if len(e.GetAttributes()) > 0 && !strings.HasPrefix(e.GetKind(), "node_") {
			delete(e.Attributes, "user")
			parts = append(parts, strings.Replace(fmt.Sprint(e.GetAttributes()), "map[", "{", 1)[:len(fmt.Sprint(e.GetAttributes()))-4]+"}")
		}
		all = append(all, strings.Join(parts, " "))
	}
	return strings.Join(all, "; ")
}

// words compares texts whose words may be in another order within an event.
func words(text string) string {
	var out []string
	for event := range strings.SplitSeq(text, "; ") {
		parts := strings.Fields(event)
		set := map[string]bool{}
		for _, p := range parts {
			set[p] = true
		}
		out = append(out, fmt.Sprint(set))
	}
	return strings.Join(out, "; ")
}

func TestTell(t *testing.T) {
	h := newHistory(t)
	seen := map[string]bool{}
	for i, step := range life(t) {
		events := h.apply(step.msg)
		for at, e := range events {
			seen[e.GetKind()] = true
			if e.GetIndex() != uint64(i+1) || e.GetPosition() != uint32(at) || !e.GetTime().AsTime().Equal(h.state.LastTime()) {
				t.Errorf("%s is at %d.%d, %v", e.GetKind(), e.GetIndex(), e.GetPosition(), e.GetTime().AsTime())
			}
		}
		if got := told(events); words(got) != words(step.want) {
			t.Errorf("%T:\n got %s\nwant %s", step.msg, got, step.want)
		}
	}
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range Kinds() {
		if !strings.Contains(string(page), "`"+kind+"`") {
			t.Errorf("docs/events.md does not describe %s", kind)
		}
	}
	for kind := range seen {
		if !strings.Contains(fmt.Sprint(Kinds()), kind) {
			t.Errorf("kind %s is not in the list", kind)
		}
	}
}

// TestTellAlike has a replica begin at each step of the way, from the state that the
// others had then: it tells the same.
func TestTellAlike(t *testing.T) {
	for begin := range life(t) {
		h, late := newHistory(t), newHistory(t)
		for i, step := range life(t) {
			want := h.apply(step.msg)
			if i < begin {
				late.apply(step.msg)
				continue
			}
			if i == begin {
				late.state = restored(t, late.state)
				late.teller = NewTeller(late.state)
			}
			got := late.apply(life(t)[i].msg)
			if len(got) != len(want) {
				t.Fatalf("begun at %d, step %d: got %s, want %s", begin, i, told(got), told(want))
			}
			for n := range got {
				if !proto.Equal(got[n], want[n]) {
					t.Errorf("begun at %d, step %d: got %v, want %v", begin, i, got[n], want[n])
				}
			}
		}
	}
}

// restored returns the state as a snapshot of it gives it back.
func restored(t *testing.T, of *state.State) *state.State {
	t.Helper()
	r := state.NewRestorer()
	err := of.Freeze().Records(func(record *statepb.Record) error { return r.Add(proto.CloneOf(record)) })
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.State()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
