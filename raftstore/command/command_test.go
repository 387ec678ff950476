package command

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/statistics"
)

// TestNumbersAreForEver pins each number to its message: both are on disk.
func TestNumbersAreForEver(t *testing.T) {
	want := map[Kind]string{
		1: "weir.command.v1.BeginTerm", 2: "weir.command.v1.StartOperation", 3: "weir.command.v1.AdvanceOperation",
		4: "weir.command.v1.SetPendingReason", 5: "weir.command.v1.AssignController", 6: "weir.command.v1.PrepareOperation",
		7: "weir.command.v1.DefineTasks", 8: "weir.command.v1.StartAllocations", 9: "weir.command.v1.FinishJobs",
		10: "weir.command.v1.AbortAllocations", 11: "weir.command.v1.SuspendOperation", 12: "weir.command.v1.ResumeOperation",
		13: "weir.command.v1.AbortOperation", 14: "weir.command.v1.CompleteOperation", 15: "", 16: "", 17: "", 18: "weir.command.v1.RegisterNode",
		19: "weir.command.v1.SetNodeOffline", 20: "weir.command.v1.StopJobs", 21: "weir.command.v1.DrainNode",
		22: "weir.command.v1.UndrainNode", 23: "weir.command.v1.EditTree", 24: "weir.command.v1.CreateTree",
		25: "weir.command.v1.RemoveTree", 26: "weir.command.v1.SetDefaultTree", 27: "weir.command.v1.UpdateOperation",
		28: "weir.command.v1.AdmitOperation", 29: "weir.command.v1.CheckpointVolumes",
		30: "weir.command.v1.PreemptAllocations", 31: "weir.command.v1.UpdateReserves",
		32: "weir.command.v1.SaveMemoryProfiles", 33: "weir.command.v1.RemoveMemoryProfiles", 34: "weir.command.v1.PublishOutput", 35: "weir.command.v1.RemoveNode",
		36: "weir.command.v1.HandOver", 37: "weir.command.v1.EditGroup", 38: "weir.command.v1.Revoke",
		39: "weir.command.v1.EditAccounts", 40: "weir.command.v1.EditNodeGrant", 41: "weir.command.v1.EditStore",
		42: "weir.command.v1.RaiseVersion", 43: "weir.command.v1.CheckState", 44: "weir.command.v1.SetPace",
	}
	if len(kinds)-1 != len(want) {
		t.Fatalf("%d kinds, want %d: a new kind gets its line here", len(kinds)-1, len(want))
	}
	for i, k := range kinds[1:] {
		kind := Kind(i + 1)
		if k.name == "" {
			t.Errorf("kind %d has no name: numbers run without gaps", kind)
		}
		if k.message == nil {
			if want[kind] != "" {
				t.Errorf("kind %d is retired, want %s", kind, want[kind])
			}
			continue
		}
		if got := string(k.message.ProtoReflect().Descriptor().FullName()); got != want[kind] {
			t.Errorf("kind %d is %s, want %s", kind, got, want[kind])
		}
	}
}

func TestEntryRoundTrip(t *testing.T) {
	sent := []proto.Message{
		&commandpb.StartOperation{OperationId: "op", User: "u", MutationId: "m"},
		&commandpb.EditTree{Tree: "default", Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Remove{Remove: "ads"}}}},
	}
	var commands []*commandpb.Command
	for _, msg := range sent {
		cmd, err := New(msg)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Subject = &commandpb.Subject{User: "ann"}
		commands = append(commands, cmd)
	}
	data, err := proto.Marshal(&commandpb.Entry{Commands: commands})
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeEntry(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sent {
		if !proto.Equal(got[i].Message, sent[i]) || got[i].By.GetUser() != "ann" {
			t.Errorf("command %d: got %v, want %v of ann", i, got[i], sent[i])
		}
	}
}

func TestWhatDoesNotDecode(t *testing.T) {
	newer, err := proto.Marshal(&commandpb.Entry{Commands: []*commandpb.Command{{Kind: 4000}}})
	if err != nil {
		t.Fatal(err)
	}
	damaged, err := proto.Marshal(&commandpb.Entry{Commands: []*commandpb.Command{{Kind: 9, Payload: []byte{0xff}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeEntry(newer); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("an entry of a newer version: got %v, want ErrUnknownKind", err)
	}
	for kind := Kind(15); kind <= 17; kind++ {
		_, err := Decode(&commandpb.Command{Kind: uint32(kind)})
		if !errors.Is(err, ErrRetiredKind) || !strings.Contains(err.Error(), kind.String()) {
			t.Errorf("a retired kind, %d: got %v, want ErrRetiredKind", kind, err)
		}
	}
	for name, data := range map[string][]byte{"a damaged payload": damaged, "damaged bytes": {0xff, 0xff}} {
		if _, err := DecodeEntry(data); err == nil {
			t.Errorf("%s: decoded without error", name)
		}
	}
	if _, err := New(&commandpb.Result{}); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("a message that is no command: got %v, want ErrUnknownKind", err)
	}
}

func TestStatisticsThatDoNotDecode(t *testing.T) {
	for story, test := range map[string]struct {
		packed  []byte
		want    string
		unknown bool
	}{
		"what this version knows": {[]byte{1, 0}, "", false},
		"what is damaged":         {[]byte{1}, `decode finish_jobs: job "b": read packed statistics`, false},
		"what a newer one knows":  {[]byte{100, 0}, `decode finish_jobs: job "b": read packed statistics`, true},
	} {
		t.Run(story, func(t *testing.T) {
			cmd, err := New(&commandpb.FinishJobs{Jobs: []*statepb.FinishedJob{{JobId: "a"}, {JobId: "b", Statistics: &statepb.JobStatistics{Packed: test.packed}}}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = Decode(cmd)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) || errors.Is(err, statistics.ErrUnknownNumber) != test.unknown {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func FuzzDecodeEntry(f *testing.F) {
	cmd, err := New(&commandpb.FinishJobs{OperationId: "op", Epoch: 3, Jobs: []*statepb.FinishedJob{{Statistics: &statepb.JobStatistics{Packed: []byte{1, 10, 2, 1}}}}})
	if err != nil {
		f.Fatal(err)
	}
	data, err := proto.Marshal(&commandpb.Entry{Commands: []*commandpb.Command{cmd}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		commands, err := DecodeEntry(data)
		if err != nil {
			return
		}
		for _, cmd := range commands {
			if _, err := New(cmd.Message); err != nil {
				t.Fatalf("decoded a %T that has no number: %v", cmd.Message, err)
			}
		}
	})
}
