package state

import (
	"encoding/binary"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/command"
)

// FuzzApply applies whatever decodes to a state that has a bit of everything.
// Nothing that decodes may break it.
func FuzzApply(f *testing.F) {
	for _, msg := range slices.Concat(busy(f).entries, leaving(f).entries, working(f).entries) {
		f.Add(encode(f, msg))
	}
	for _, msg := range leavingSeeds() {
		f.Add(encode(f, msg))
	}
	f.Add(encode(f, &commandpb.FinishJobs{OperationId: "ann", Epoch: 1, Jobs: []*statepb.FinishedJob{
		{JobId: "ann-0", State: "completed"}, {JobId: "ann-1", State: "failed", Error: &statepb.Error{Code: 1}}}}))
	f.Add(encode(f, &commandpb.AbortAllocations{Term: 1, Reason: "node_offline", JobIds: []string{"ann-0", "ending-0"}}))
	f.Add(encode(f, &commandpb.StopJobs{OperationId: "ann", JobIds: []string{"ann-0"}, Order: &statepb.StopOrder{Reason: "preemption"}}))
	for _, msg := range append(treeSeeds(), workSeeds()...) {
		f.Add(encode(f, msg))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		commands, err := command.DecodeEntry(data)
		if err != nil {
			return
		}
		for _, made := range []func(testing.TB) *journal{busy, leaving, working} {
			j := made(t)
			index := j.state.LastIndex() + 1
			for _, cmd := range commands {
				ApplyBy(j.state, index, cmd.By, proto.CloneOf(cmd.Message))
				if err := j.state.Verify(); err != nil {
					t.Fatalf("after %T %v: %v", cmd.Message, cmd, err)
				}
			}
			mustRestore(t, j.state.Freeze())
		}
	})
}

// workSeeds are what jobs learn, read and lose.
func workSeeds() []proto.Message {
	end := func(operation string, j *statepb.FinishedJob) *commandpb.FinishJobs {
		return &commandpb.FinishJobs{OperationId: operation, Epoch: 1, Jobs: []*statepb.FinishedJob{j}}
	}
	return []proto.Message{
		end("map", &statepb.FinishedJob{JobId: "map-0", State: "completed", Input: &statepb.JobInput{Processed: []*statepb.Slice{slice(0, 0, 9)}, Rest: []*statepb.Slice{slice(0, 9, 30)}}}),
		end("map", &statepb.FinishedJob{JobId: "map-0", State: "failed", Split: []*statepb.Slices{slicesOf(slice(0, 0, 9)), slicesOf(slice(0, 9, 30))}}),
		end("map", &statepb.FinishedJob{JobId: "map-0", State: "failed", Skipped: &statepb.SkippedRecord{End: 30}, Fatal: true}),
		end("gang", &statepb.FinishedJob{JobId: "gang-0", State: "failed"}), end("gang", &statepb.FinishedJob{JobId: "gang-1", State: "completed"}),
		&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{
			{JobId: "o", OperationId: "over", Task: "t", Node: "n1", NodeIncarnation: 1, Resources: jobSize(), DedicatedMemory: 2000, AllOrNone: true},
			{JobId: "p", OperationId: "over", Task: "t", Node: "n1", NodeIncarnation: 1, Resources: jobSize(), DedicatedMemory: 2000, AllOrNone: true}}},
		&commandpb.UpdateReserves{OperationId: "over", Epoch: 1, Tasks: []*commandpb.TaskReserve{{Task: "t", Samples: 1, Reserve: &statepb.JobReserve{User: 1}}}},
		&commandpb.PublishOutput{OperationId: "written", Epoch: 1, Output: &statepb.Output{}}, &commandpb.RemoveMemoryProfiles{}, reading("cut"),
	}
}

// leavingSeeds are orders to leave, and what becomes of them.
func leavingSeeds() []proto.Message {
	return []proto.Message{
		orderFor("stays", beneficiary("poor")), orderFor("ann-0", nil),
		&commandpb.StopJobs{OperationId: "svc", JobIds: []string{"stays", "asked"}, Order: &statepb.StopOrder{Interruption: statepb.InterruptedByUser, GraceMillis: 100}},
		&commandpb.DrainNode{Node: "n1", User: "bob", InterruptMillis: 5000},
		&commandpb.AbortOperation{OperationId: "going", InterruptMillis: 1}, &commandpb.AbortOperation{OperationId: "ann", InterruptMillis: 1},
		&commandpb.FinishJobs{OperationId: "svc", Epoch: 1, Jobs: []*statepb.FinishedJob{
			{JobId: "asked", State: "completed", Rerun: true}, {JobId: "killed", State: "aborted", AbortReason: "preemption", Acknowledged: true}}},
		&commandpb.FinishJobs{OperationId: "svc", Epoch: 1, Jobs: []*statepb.FinishedJob{{JobId: "asked", State: "aborted", AbortReason: "preemption", Acknowledged: true}}},
		edit(renaming("a", "b"), renaming("default", "a")), edit(removal("default")),
	}
}

// treeSeeds are changes of trees and of what is in them.
func treeSeeds() []proto.Message {
	pool := "fresh"
	return []proto.Message{
		changePool("small", map[string]any{"weight": 2, "integral_guarantees/guarantee_type": nil, "colour": "red"}),
		movePool("small", "slow"),
		edit(renaming("slow", "fast"), creation("slow", "fast", map[string]any{"mode": "fifo"}), removal("default")),
		treeEdit("default", map[string]any{"nodes_filter": "!gpu", "default_parent_pool": "small", "max_ephemeral_pools_per_user": 2}),
		&commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Options{Options: optionsOf(map[string]any{"nodes_filter": "ssd &"})}}}},
		&commandpb.CreateTree{Tree: "gpu", Options: optionsOf(map[string]any{"nodes_filter": "gpu"})},
		&commandpb.RemoveTree{Tree: "default"},
		&commandpb.SetDefaultTree{Tree: "default"},
		&commandpb.UpdateOperation{OperationId: "ann", Changes: []*commandpb.OperationChange{
			{Tree: "default", Pool: &pool, Options: changesOf(map[string]any{"resource_limits/cpu": 2, "weight": nil})}}},
		&commandpb.AdmitOperation{OperationId: "ann", Term: 1, Trees: []string{"default"}},
		&commandpb.CheckpointVolumes{Term: 1, Volumes: []*statepb.PoolVolume{{Pool: "small", UserSlots: 2}, {Pool: "gone"}},
			Clocks: []*statepb.StarvationClock{{OperationId: "ann", BelowSince: timestamppb.New(epochStart)}, {PoolId: 1, Starvation: "starving"}},
			Age:    &statepb.PreemptionAge{Digest: 1, Takings: []*statepb.Taking{{OperationId: "ann", FromOperationId: "bob"}}}},
		startWith(func(s *statepb.OperationSpec) {
			s.Pool, s.PoolTrees, s.IsGang = pool, []string{"default"}, true
			s.OptionsPerTree = map[string]*structpb.Struct{"default": optionsOf(map[string]any{"pool": "slow", "weight": 2})}
		}),
	}
}

func encode(f *testing.F, msg proto.Message) []byte {
	f.Helper()
	cmd, err := command.New(msg)
	if err != nil {
		f.Fatal(err)
	}
	data, err := proto.Marshal(&commandpb.Entry{Commands: []*commandpb.Command{cmd}})
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// FuzzRestore restores whatever decodes to records. What is not refused must be
// a state that yields itself again.
func FuzzRestore(f *testing.F) {
	f.Add(bytesOf(f, busy(f).state.Freeze()))
	f.Add(bytesOf(f, leaving(f).state.Freeze()))
	f.Add(bytesOf(f, New().Freeze()))
	f.Fuzz(func(t *testing.T, data []byte) {
		var records []*statepb.Record
		for len(data) > 0 {
			size, n := binary.Uvarint(data)
			if n <= 0 || size > uint64(len(data)-n) {
				return
			}
			record := new(statepb.Record)
			if err := proto.Unmarshal(data[n:n+int(size)], record); err != nil {
				return
			}
			records, data = append(records, record), data[n+int(size):]
		}
		s, err := restore(records)
		if err != nil {
			return
		}
		mustRestore(t, s.Freeze())
	})
}
