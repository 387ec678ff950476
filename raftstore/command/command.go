// Package command numbers the commands of the replicated log, and encodes and decodes them.
//
// A log entry is a batch of commands that are applied in order, each accepted or refused
// by itself. The comments of a command's message (package commandpb) say what it means;
// package state applies it.
//
// The package is pure: no clock, no locks, no I/O.
package command

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weir/messages/commandpb"
	"weir/messages/versions"
	"weir/scheduling/statistics"
)

// Kind is the first field of every command. Values are on disk: append new ones
// at the end, never reorder or reuse one.
type Kind uint32

// The kinds that callers recognise without decoding the payload.
const (
	StartOperation     Kind = 2
	StopJobs           Kind = 20
	DrainNode          Kind = 21
	PreemptAllocations Kind = 30
	HandOver           Kind = 36
)

// kinds lists every command by number, with its name in logs and its message. A nil message marks a
// retired command. EditTree replaces the retired ones, each of which changed a single pool.
var kinds = [...]struct {
	name    string
	message proto.Message
}{
	1:  {"begin_term", (*commandpb.BeginTerm)(nil)},
	2:  {"start_operation", (*commandpb.StartOperation)(nil)},
	3:  {"advance_operation", (*commandpb.AdvanceOperation)(nil)},
	4:  {"set_pending_reason", (*commandpb.SetPendingReason)(nil)},
	5:  {"assign_controller", (*commandpb.AssignController)(nil)},
	6:  {"prepare_operation", (*commandpb.PrepareOperation)(nil)},
	7:  {"define_tasks", (*commandpb.DefineTasks)(nil)},
	8:  {"start_allocations", (*commandpb.StartAllocations)(nil)},
	9:  {"finish_jobs", (*commandpb.FinishJobs)(nil)},
	10: {"abort_allocations", (*commandpb.AbortAllocations)(nil)},
	11: {"suspend_operation", (*commandpb.SuspendOperation)(nil)},
	12: {"resume_operation", (*commandpb.ResumeOperation)(nil)},
	13: {"abort_operation", (*commandpb.AbortOperation)(nil)},
	14: {"complete_operation", (*commandpb.CompleteOperation)(nil)},
	15: {"create_pool", nil},
	16: {"set_pool", nil},
	17: {"remove_pool", nil},
	18: {"register_node", (*commandpb.RegisterNode)(nil)},
	19: {"set_node_offline", (*commandpb.SetNodeOffline)(nil)},
	20: {"stop_jobs", (*commandpb.StopJobs)(nil)},
	21: {"drain_node", (*commandpb.DrainNode)(nil)},
	22: {"undrain_node", (*commandpb.UndrainNode)(nil)},
	23: {"edit_tree", (*commandpb.EditTree)(nil)},
	24: {"create_tree", (*commandpb.CreateTree)(nil)},
	25: {"remove_tree", (*commandpb.RemoveTree)(nil)},
	26: {"set_default_tree", (*commandpb.SetDefaultTree)(nil)},
	27: {"update_operation", (*commandpb.UpdateOperation)(nil)},
	28: {"admit_operation", (*commandpb.AdmitOperation)(nil)},
	29: {"checkpoint_volumes", (*commandpb.CheckpointVolumes)(nil)},
	30: {"preempt_allocations", (*commandpb.PreemptAllocations)(nil)},
	31: {"update_reserves", (*commandpb.UpdateReserves)(nil)},
	32: {"save_memory_profiles", (*commandpb.SaveMemoryProfiles)(nil)},
	33: {"remove_memory_profiles", (*commandpb.RemoveMemoryProfiles)(nil)},
	34: {"publish_output", (*commandpb.PublishOutput)(nil)},
	35: {"remove_node", (*commandpb.RemoveNode)(nil)},
	36: {"hand_over", (*commandpb.HandOver)(nil)},
	37: {"edit_group", (*commandpb.EditGroup)(nil)},
	38: {"revoke", (*commandpb.Revoke)(nil)},
	39: {"edit_accounts", (*commandpb.EditAccounts)(nil)},
	40: {"edit_node_grant", (*commandpb.EditNodeGrant)(nil)},
	41: {"edit_store", (*commandpb.EditStore)(nil)},
	42: {"raise_version", (*commandpb.RaiseVersion)(nil)},
	43: {"check_state", (*commandpb.CheckState)(nil)},
	44: {"set_pace", (*commandpb.SetPace)(nil)},
}

// byMessage finds a kind by the full name of its message.
var byMessage = func() map[protoreflect.FullName]Kind {
	names := make(map[protoreflect.FullName]Kind, len(kinds))
	for number, k := range kinds {
		if k.message != nil {
			names[k.message.ProtoReflect().Descriptor().FullName()] = Kind(number)
		}
	}
	return names
}()

// ErrUnknownKind is returned for a command whose number this version does not know: a
// newer version wrote it.
var ErrUnknownKind = errors.New("unknown kind of command")

// ErrRetiredKind is returned for a command that is no longer supported. The log was written by an
// older version whose state this version does not read.
var ErrRetiredKind = errors.New("retired kind of command")

// String returns the kind's name in logs.
func (k Kind) String() string {
	if k > 0 && int(k) < len(kinds) {
		return kinds[k].name
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
	kind := Kind(cmd.GetKind())
	if kind == 0 || int(kind) >= len(kinds) {
		return nil, fmt.Errorf("decode command %d: %w", cmd.GetKind(), ErrUnknownKind)
	}
	if kinds[kind].message == nil {
		return nil, fmt.Errorf("decode %s: %w %d: start with an empty folder, or start the version that wrote the log", kind, ErrRetiredKind, cmd.GetKind())
	}
	msg := kinds[kind].message.ProtoReflect().New().Interface()
	err := proto.Unmarshal(cmd.GetPayload(), msg)
	if m, ok := msg.(*commandpb.FinishJobs); ok && err == nil {
		err = checkStatistics(m)
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", kind, err)
	}
	return msg, nil
}

// checkStatistics returns an error if this version cannot read a job's statistics. If it ignored
// them, its state would diverge from that of replicas that can read them, as with an unknown
// command.
func checkStatistics(m *commandpb.FinishJobs) error {
	for _, job := range m.GetJobs() {
		if err := statistics.Check(job.GetStatistics().GetPacked()); err != nil {
			return fmt.Errorf("job %q: %w", job.GetJobId(), err)
		}
	}
	return nil
}

// Decoded is a decoded command.
type Decoded struct {
	// By is the subject who asked for the command; nil if the system proposed it.
	By      *commandpb.Subject
	Message proto.Message
}

// DecodeAll decodes commands.
func DecodeAll(commands []*commandpb.Command) ([]Decoded, error) {
	decoded := make([]Decoded, len(commands))
	for i, cmd := range commands {
		msg, err := Decode(cmd)
		if err != nil {
			return nil, fmt.Errorf("command %d of %d: %w", i+1, len(commands), err)
		}
		decoded[i] = Decoded{By: cmd.GetSubject(), Message: msg}
	}
	return decoded, nil
}

// DecodeEntry returns the commands of a log entry, decoded. It returns versions.ErrNewer for an entry that
// needs a newer program.
func DecodeEntry(data []byte) ([]Decoded, error) {
	var entry commandpb.Entry
	if err := proto.Unmarshal(data, &entry); err != nil {
		return nil, fmt.Errorf("decode log entry: %w", err)
	}
	if err := versions.Program.Check(entry.GetVersion()); errors.Is(err, versions.ErrNewer) {
		return nil, fmt.Errorf("decode log entry: %w", err)
	}
	decoded, err := DecodeAll(entry.GetCommands())
	if err != nil {
		return nil, fmt.Errorf("decode log entry: %w", err)
	}
	return decoded, nil
}
