// Package command numbers the commands of the replicated log and turns them
// into bytes and back.
//
// A log entry is a batch: commands that are applied one after the other, each
// accepted or refused by itself. What a command means is in the comments of its
// message (package commandpb) and in package state, which applies it.
//
// The package is pure: no clock, no locks, no I/O.
package command

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/scheduling/statistics"
)

// Kind is the first field of every command. Values are on disk: append new ones
// at the end, never reorder or reuse one.
type Kind uint32

// The kinds of commands.
const (
	BeginTerm         Kind = 1
	StartOperation    Kind = 2
	AdvanceOperation  Kind = 3
	SetPendingReason  Kind = 4
	AssignController  Kind = 5
	PrepareOperation  Kind = 6
	DefineTasks       Kind = 7
	StartAllocations  Kind = 8
	FinishJobs        Kind = 9
	AbortAllocations  Kind = 10
	SuspendOperation  Kind = 11
	ResumeOperation   Kind = 12
	AbortOperation    Kind = 13
	CompleteOperation Kind = 14
	// 15 to 17 changed one pool each. They are retired: EditTree does what they did.
	RegisterNode         Kind = 18
	SetNodeOffline       Kind = 19
	StopJobs             Kind = 20
	DrainNode            Kind = 21
	UndrainNode          Kind = 22
	EditTree             Kind = 23
	CreateTree           Kind = 24
	RemoveTree           Kind = 25
	SetDefaultTree       Kind = 26
	UpdateOperation      Kind = 27
	AdmitOperation       Kind = 28
	CheckpointVolumes    Kind = 29
	PreemptAllocations   Kind = 30
	UpdateReserves       Kind = 31
	SaveMemoryProfiles   Kind = 32
	RemoveMemoryProfiles Kind = 33
	PublishOutput        Kind = 34
	RemoveNode           Kind = 35
	HandOver             Kind = 36
)

// kinds lists every command: its number, its name in logs, and its message. One
// without a message is retired.
var kinds = []struct {
	kind Kind
	name string
	make func() proto.Message
}{
	{BeginTerm, "begin_term", func() proto.Message { return new(commandpb.BeginTerm) }},
	{StartOperation, "start_operation", func() proto.Message { return new(commandpb.StartOperation) }},
	{AdvanceOperation, "advance_operation", func() proto.Message { return new(commandpb.AdvanceOperation) }},
	{SetPendingReason, "set_pending_reason", func() proto.Message { return new(commandpb.SetPendingReason) }},
	{AssignController, "assign_controller", func() proto.Message { return new(commandpb.AssignController) }},
	{PrepareOperation, "prepare_operation", func() proto.Message { return new(commandpb.PrepareOperation) }},
	{DefineTasks, "define_tasks", func() proto.Message { return new(commandpb.DefineTasks) }},
	{StartAllocations, "start_allocations", func() proto.Message { return new(commandpb.StartAllocations) }},
	{FinishJobs, "finish_jobs", func() proto.Message { return new(commandpb.FinishJobs) }},
	{AbortAllocations, "abort_allocations", func() proto.Message { return new(commandpb.AbortAllocations) }},
	{SuspendOperation, "suspend_operation", func() proto.Message { return new(commandpb.SuspendOperation) }},
	{ResumeOperation, "resume_operation", func() proto.Message { return new(commandpb.ResumeOperation) }},
	{AbortOperation, "abort_operation", func() proto.Message { return new(commandpb.AbortOperation) }},
	{CompleteOperation, "complete_operation", func() proto.Message { return new(commandpb.CompleteOperation) }},
	{15, "create_pool", nil},
	{16, "set_pool", nil},
	{17, "remove_pool", nil},
	{RegisterNode, "register_node", func() proto.Message { return new(commandpb.RegisterNode) }},
	{SetNodeOffline, "set_node_offline", func() proto.Message { return new(commandpb.SetNodeOffline) }},
	{StopJobs, "stop_jobs", func() proto.Message { return new(commandpb.StopJobs) }},
	{DrainNode, "drain_node", func() proto.Message { return new(commandpb.DrainNode) }},
	{UndrainNode, "undrain_node", func() proto.Message { return new(commandpb.UndrainNode) }},
	{EditTree, "edit_tree", func() proto.Message { return new(commandpb.EditTree) }},
	{CreateTree, "create_tree", func() proto.Message { return new(commandpb.CreateTree) }},
	{RemoveTree, "remove_tree", func() proto.Message { return new(commandpb.RemoveTree) }},
	{SetDefaultTree, "set_default_tree", func() proto.Message { return new(commandpb.SetDefaultTree) }},
	{UpdateOperation, "update_operation", func() proto.Message { return new(commandpb.UpdateOperation) }},
	{AdmitOperation, "admit_operation", func() proto.Message { return new(commandpb.AdmitOperation) }},
	{CheckpointVolumes, "checkpoint_volumes", func() proto.Message { return new(commandpb.CheckpointVolumes) }},
	{PreemptAllocations, "preempt_allocations", func() proto.Message { return new(commandpb.PreemptAllocations) }},
	{UpdateReserves, "update_reserves", func() proto.Message { return new(commandpb.UpdateReserves) }},
	{SaveMemoryProfiles, "save_memory_profiles", func() proto.Message { return new(commandpb.SaveMemoryProfiles) }},
	{RemoveMemoryProfiles, "remove_memory_profiles", func() proto.Message { return new(commandpb.RemoveMemoryProfiles) }},
	{PublishOutput, "publish_output", func() proto.Message { return new(commandpb.PublishOutput) }},
	{RemoveNode, "remove_node", func() proto.Message { return new(commandpb.RemoveNode) }},
	{HandOver, "hand_over", func() proto.Message { return new(commandpb.HandOver) }},
}

// ErrUnknownKind is returned for a command whose number this version does not
// know: it was written by a newer one.
var ErrUnknownKind = errors.New("unknown kind of command")

// ErrRetiredKind is returned for a command that no version proposes any more: the
// log was written by an older one, whose state this one does not read.
var ErrRetiredKind = errors.New("retired kind of command")

// String returns the kind's name in logs.
func (k Kind) String() string {
	if i := int(k) - 1; i >= 0 && i < len(kinds) {
		return kinds[i].name
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// New numbers and encodes msg, which must be one of the command messages of
// package commandpb.
func New(msg proto.Message) (*commandpb.Command, error) {
	kind, err := KindOf(msg)
	if err != nil {
		return nil, err
	}
	payload, err := proto.Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	return &commandpb.Command{Kind: uint32(kind), Payload: payload}, nil
}

// KindOf returns the number of msg.
func KindOf(msg proto.Message) (Kind, error) {
	name := msg.ProtoReflect().Descriptor().FullName()
	if kind, ok := byMessage[name]; ok {
		return kind, nil
	}
	return 0, fmt.Errorf("number %s: %w", name, ErrUnknownKind)
}

// Decode returns the message of cmd.
func Decode(cmd *commandpb.Command) (proto.Message, error) {
	i := int(cmd.GetKind()) - 1
	if i < 0 || i >= len(kinds) {
		return nil, fmt.Errorf("decode command %d: %w", cmd.GetKind(), ErrUnknownKind)
	}
	if kinds[i].make == nil {
		return nil, fmt.Errorf("decode %s: %w %d: start with an empty folder, or with the version that wrote it", kinds[i].name, ErrRetiredKind, cmd.GetKind())
	}
	msg := kinds[i].make()
	if err := proto.Unmarshal(cmd.GetPayload(), msg); err != nil {
		return nil, fmt.Errorf("decode %s: %w", kinds[i].name, err)
	}
	if m, ok := msg.(*commandpb.FinishJobs); ok {
		if err := checkStatistics(m); err != nil {
			return nil, fmt.Errorf("decode %s: %w", kinds[i].name, err)
		}
	}
	return msg, nil
}

// checkStatistics returns an error when a replica cannot read what was measured of a job:
// as with a command that it does not know, its state would differ from those that can.
func checkStatistics(m *commandpb.FinishJobs) error {
	for _, job := range m.GetJobs() {
		if err := statistics.Check(job.GetStatistics().GetPacked()); err != nil {
			return fmt.Errorf("job %q: %w", job.GetJobId(), err)
		}
	}
	return nil
}

// EncodeEntry returns the bytes of a log entry with commands in this order.
func EncodeEntry(commands []*commandpb.Command) ([]byte, error) {
	data, err := proto.Marshal(&commandpb.Entry{Commands: commands})
	if err != nil {
		return nil, fmt.Errorf("encode log entry: %w", err)
	}
	return data, nil
}

// DecodeEntry returns the commands of a log entry, decoded.
func DecodeEntry(data []byte) ([]proto.Message, error) {
	var entry commandpb.Entry
	if err := proto.Unmarshal(data, &entry); err != nil {
		return nil, fmt.Errorf("decode log entry: %w", err)
	}
	messages := make([]proto.Message, len(entry.GetCommands()))
	for i, cmd := range entry.GetCommands() {
		msg, err := Decode(cmd)
		if err != nil {
			return nil, fmt.Errorf("decode log entry: command %d of %d: %w", i+1, len(messages), err)
		}
		messages[i] = msg
	}
	return messages, nil
}
