package raftstore

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
)

// TestShelf wants what is put on a shelf to be read from files that have no name, and from memory if there is no room.
func TestShelf(t *testing.T) {
	var said bytes.Buffer
	s := &shelf{dir: t.TempDir(), log: slog.New(slog.NewTextHandler(&said, nil))}
	var put [][]byte
	var there []state.Shelved
	add := func(record []byte) {
		put, there = append(put, record), append(there, s.Put(slices.Clone(record)))
	}
	for i := range 5 {
		add(bytes.Repeat([]byte{byte(i)}, 1+i*shelfBytes/4))
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
		t.Errorf("the folder has %v, %v", left, err)
	}
	s.dir, s.size = filepath.Join(s.dir, "gone"), shelfBytes
	add([]byte("no folder"))
	add([]byte("no folder either"))
	for i, record := range put {
		if got := there[i].Read(nil); !bytes.Equal(got, record) {
			t.Errorf("record %d: got %d bytes, want %d", i, len(got), len(record))
		}
	}
	if n := strings.Count(said.String(), "stay in memory"); n != 1 {
		t.Errorf("%d warnings, want 1: %s", n, said.String())
	}
}

// TestShelfFreesFiles wants a file to be closed once nothing that is kept is in it: its space is free then.
func TestShelfFreesFiles(t *testing.T) {
	s := &shelf{dir: t.TempDir(), log: slog.Default()}
	files := func() (n int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		for _, fd := range fds {
			if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, s.dir) {
				n++
			}
		}
		return n
	}
	record := make([]byte, shelfBytes)
	kept := s.Put(record)
	for range 3 {
		s.Put(record)
	}
	if n := files(); n < 2 {
		t.Fatalf("%d files are open, want at least those of the first and the last record", n)
	}
	for deadline := time.Now().Add(time.Minute); files() != 2; runtime.Gosched() {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatalf("%d files are open, want those of the record that is kept and of the last one", files())
		}
	}
	if got := kept.Read(nil); !bytes.Equal(got, record) {
		t.Error("the record that is kept is another")
	}
}

// TestDamagedShelf wants a record that is not what was written to end the process, whoever reads it.
func TestDamagedShelf(t *testing.T) {
	var ended error
	s := &shelf{dir: t.TempDir(), log: slog.Default(), fatal: func(err error) { ended = err }}
	record := s.Put([]byte("record"))
	if _, err := s.file.WriteAt([]byte("R"), 0); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "stored checksum") || ended == nil {
			t.Errorf("got %s; the process ends: %v", said, ended)
		}
	}()
	t.Errorf("got %s", record.Read(nil))
}

// TestMachineUsesShelf wants a replica to have its older ended operations on its shelf, also after it has restored a
// snapshot, which has them as before.
func TestMachineUsesShelf(t *testing.T) {
	cfg := Default()
	cfg.Dir = t.TempDir()
	m := newMachine(cfg)
	index := uint64(0)
	do := func(messages ...proto.Message) {
		for _, msg := range messages {
			index++
			if result, _ := m.state.Apply(index, msg); result.GetRefusal() != nil {
				t.Fatalf("%T: %s", msg, result.GetRefusal().GetMessage())
			}
		}
	}
	do(&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "test"})
	for i := range state.RecentOperations + 5 {
		id := fmt.Sprint("op", i)
		do(&commandpb.StartOperation{OperationId: id, User: "ann", Spec: &statepb.OperationSpec{Type: "vanilla", Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: 1}}}},
			&commandpb.AbortOperation{OperationId: id, User: "ann"}, &commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "aborting", To: "aborted"})
	}
	if m.shelf.size == 0 {
		t.Error("nothing is on the shelf")
	}
	data := encode(t, m.state)
	other := newMachine(cfg)
	if err := other.restore(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if other.shelf.size == 0 {
		t.Error("nothing is on the shelf after a snapshot was restored")
	}
	if !bytes.Equal(encode(t, other.state), data) {
		t.Error("the snapshot of the restored state differs")
	}
}
