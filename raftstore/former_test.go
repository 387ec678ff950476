package raftstore

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/command"
	"weir/raftstore/state"
	"weir/scheduling"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/former: only for what versions of old did, for which TestFormerReplicas is copied into their tree")

const (
	// formerOperations end, and each of their tasks leaves a profile of profileBytes.
	formerOperations, formerTasks, profileBytes = 90, 100, 8 << 10
	formerProfiles                              = formerOperations * formerTasks
	// formerPools are the pools below the root, each with a filter of 4 KiB.
	formerPools = 5000
)

// formerLimits are what leaders of older versions set at the beginning of a term, by the folder with
// what replicas wrote then.
var formerLimits = map[string]*statepb.Limits{
	"unbounded": {Operations: 100},
	"by_bytes":  {Operations: 100, ByBytes: true},
}

// TestFormerReplicas (T4) takes logs and snapshots that versions of old have written, with more
// memory profiles and pools than today's bounds in bytes permit: 159dd96d, which had no bounds in
// bytes, accounts, groups or stores, and b018a429^, which had bounds for operations alone. Nothing is
// lost until a leader sets the bounds; then the profiles that do not fit go, and the pools stay.
func TestFormerReplicas(t *testing.T) {
	if *rewrite {
		for name, limits := range formerLimits {
			writeFormer(t, name, limits)
		}
	}
	for name, limits := range formerLimits {
		t.Run(name, func(t *testing.T) {
			snapshot := readFormer(t, name, "snapshot.gz")
			m := newMachine(Default())
			m.apply(entriesIn(t, readFormer(t, name, "log.gz")))
			restored, _, err := readSnapshot(bytes.NewReader(snapshot))
			if err != nil {
				t.Fatal(err)
			}
			// The oldest snapshots have large records whole.
			if !bytes.Equal(encode(t, m.state), encode(t, restored)) {
				t.Error("the log leads to another state than the snapshot that was taken of it")
			}
			wantFormer(t, m.state, limits)
			goesOn(t, snapshot, limits)
		})
	}
}

// goesOn starts a replica on a snapshot, changes what is there, and then sets bounds.
func goesOn(t *testing.T, snapshot []byte, limits *statepb.Limits) {
	c := newCluster(t, 1, nil)
	founder := Founder{Dir: filepath.Join(c.dir, "r1"), Cluster: "test", ID: "r1", Address: c.address("r1")}
	if _, err := Restore(bytes.NewReader(snapshot), founder); err != nil {
		t.Fatal(err)
	}
	s := c.start("r1")
	s.View(func(st *state.State) { wantFormer(t, st, limits) })
	var term uint64
	s.View(func(st *state.State) { term = st.Term().GetTerm() + 1<<30 })
	begin := func(limits *statepb.Limits) {
		t.Helper()
		wantAccepted(t, c.propose(mustCommand(t, &commandpb.BeginTerm{Term: term, Replica: "r1", Limits: limits})))
		term++
	}
	// A leader that sets no bounds: what is over today's is extended.
	begin(limits)
	wantAccepted(t, c.propose(mustCommand(t, poolCreation("one-more")),
		mustCommand(t, &commandpb.StartOperation{OperationId: "new", User: "ann", Spec: formerSpec(1)})))
	s.View(func(st *state.State) {
		if profiles, pools := len(st.Profiles()), poolsIn(st); profiles != formerProfiles || pools != formerPools+1 {
			t.Errorf("%d profiles and %d pools after a term without bounds", profiles, pools)
		}
	})
	begin(state.WithBytes(limits))
	refused := c.propose(mustCommand(t, poolCreation("too-much")))[0].GetRefusal()
	if refused.GetCode() != state.CodeTooManyBytes || !strings.Contains(refused.GetMessage(), "pool_bytes_per_tree") {
		t.Errorf("a pool more within bounds: %v", refused)
	}
	wantAccepted(t, c.propose(mustCommand(t, &commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Remove{Remove: "one-more"}}}})))
	s.View(func(st *state.State) {
		kept := st.Profiles()
		if most := (64 << 20) / profileBytes; len(kept) > most || len(kept) < most*9/10 || poolsIn(st) != formerPools {
			t.Errorf("%d profiles and %d pools within bounds", len(kept), poolsIn(st))
		}
		if last := fmt.Sprintf("p-%d-%d", formerOperations-1, formerTasks-1); kept[0].GetKey() == "p-0-0" || !hasProfile(st, last) {
			t.Error("those that were updated first are not the ones that went")
		}
		if _, _, err := readSnapshot(bytes.NewReader(encode(t, st))); err != nil {
			t.Errorf("a snapshot of it: %v", err)
		}
	})
}

func hasProfile(s *state.State, key string) bool {
	_, ok := s.Profile(key)
	return ok
}

// poolsIn counts the pools of the default tree, less the one that there always is.
func poolsIn(s *state.State) int {
	tree, _ := s.Tree(scheduling.DefaultTree)
	return len(tree.GetPools()) - 1
}

// wantFormer checks that a state has everything that formerCommands has put there.
func wantFormer(t *testing.T, s *state.State, limits *statepb.Limits) {
	t.Helper()
	if err := s.Verify(); err != nil {
		t.Fatal(err)
	}
	got := s.Limits()
	if got.GetByBytes() != limits.GetByBytes() || got.GetMemoryProfileBytes() != 0 || got.GetPoolBytesPerTree() != 0 || got.GetPoolBytes() != 0 || got.GetByGrant() != 0 {
		t.Errorf("limits that nobody set: %v", got)
	}
	if profiles, pools, counts := len(s.Profiles()), poolsIn(s), s.Counts(); profiles != formerProfiles || pools != formerPools || counts.Operations != formerOperations+1 || counts.Allocations != 1 {
		t.Errorf("%d profiles, %d pools, %+v", profiles, pools, counts)
	}
	if p, _ := s.Profile("p-0-0"); len(p.GetUserDigest()) != profileBytes {
		t.Errorf("the first profile has %d bytes", len(p.GetUserDigest()))
	}
	running, _ := s.Operation("running")
	events := running.GetEvents()
	if want := reasonBytes(limits); running.GetState() != "aborting" || len(events[len(events)-1].GetAttributes()["reason"]) != want {
		t.Errorf("the running operation is %s, its last event %.200v, want a reason of %d bytes", running.GetState(), events[len(events)-1], want)
	}
	tree, _ := s.Tree(scheduling.DefaultTree)
	if size := proto.Size(tree); size < 17<<20 {
		t.Errorf("the tree has %d bytes, no more than a tree may have today", size)
	}
}

// reasonBytes is how long the reason of an abort was in a version: unbounded, or at most 4 KiB.
func reasonBytes(limits *statepb.Limits) int {
	if limits.GetByBytes() {
		return 4 << 10
	}
	return 1 << 20
}

// formerSpec describes an operation of tasks of one job each.
func formerSpec(tasks int) *statepb.OperationSpec {
	spec := &statepb.OperationSpec{Type: "vanilla", MaxFailedJobCount: 10}
	for i := range tasks {
		spec.Tasks = append(spec.Tasks, &statepb.TaskSpec{Name: fmt.Sprint("t", i), JobCount: 1})
	}
	return spec
}

// formerCommands are what a cluster was asked to do, with the fields of that time only.
func formerCommands(limits *statepb.Limits) []proto.Message {
	size := &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1000}
	log := []proto.Message{
		&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "test", Limits: limits},
		&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "n1", Incarnation: 1, Resources: &statepb.Resources{UserSlots: 9, CpuHundredths: 900, Memory: 9000}}},
	}
	filter := "a" + strings.Repeat(" ", 4000) + "| b"
	for i := 0; i < formerPools; {
		edit := &commandpb.EditTree{Tree: string(scheduling.DefaultTree)}
		for range formerPools / 10 {
			edit.Edits = append(edit.Edits, &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: fmt.Sprint("pool-", i), Options: &structpb.Struct{
				Fields: map[string]*structpb.Value{"scheduling_tag_filter": structpb.NewStringValue(filter)},
			}}}})
			i++
		}
		log = append(log, edit)
	}
	walk := func(id string, tasks int, profile func(task int) string) {
		define := &commandpb.DefineTasks{OperationId: id, Epoch: 1}
		for i := range tasks {
			define.Tasks = append(define.Tasks, &commandpb.TaskDefinition{Name: fmt.Sprint("t", i), JobCount: 1, JobResources: size, Memory: &statepb.TaskMemory{Profile: profile(i)}})
		}
		log = append(log, &commandpb.StartOperation{OperationId: id, User: "ann", Spec: formerSpec(tasks)},
			&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "starting", To: "waiting_for_agent"},
			&commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{{OperationId: id, Replica: "r1", Epoch: 1}}},
			&commandpb.PrepareOperation{OperationId: id, Epoch: 1},
			&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "pending", To: "materializing"}, define)
	}
	for op := range formerOperations {
		id := fmt.Sprint("op", op)
		key := func(task int) string { return fmt.Sprintf("p-%d-%d", op, task) }
		walk(id, formerTasks, key)
		save := &commandpb.SaveMemoryProfiles{OperationId: id, Epoch: 1}
		for i := range formerTasks {
			save.Profiles = append(save.Profiles, &commandpb.SavedProfile{Task: fmt.Sprint("t", i), Profile: &statepb.MemoryProfile{Key: key(i), SampleCount: 1, UserDigest: make([]byte, profileBytes)}})
		}
		log = append(log, &commandpb.AbortOperation{OperationId: id, User: "ann"}, save,
			&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "aborting", To: "aborted"})
	}
	walk("running", 1, func(int) string { return "" })
	return append(log,
		&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{{JobId: "j1", OperationId: "running", Task: "t0", Node: "n1", NodeIncarnation: 1, Resources: size}}},
		&commandpb.AbortOperation{OperationId: "running", User: "ann", Reason: strings.Repeat("x", reasonBytes(limits))})
}

// writeFormer has a machine carry out formerCommands, and writes its log and a snapshot of it.
func writeFormer(t *testing.T, name string, limits *statepb.Limits) {
	var log []byte
	var entries []*raft.Log
	for i, msg := range formerCommands(limits) {
		m := msg.ProtoReflect()
		at := timestamppb.New(time.Unix(1_700_000_000+int64(i), 0))
		if field := m.Descriptor().Fields().ByName("time"); field != nil {
			m.Set(field, protoreflect.ValueOfMessage(at.ProtoReflect()))
		}
		cmd, err := command.New(msg)
		if err != nil {
			t.Fatal(err)
		}
		data, err := proto.Marshal(&commandpb.Entry{Commands: []*commandpb.Command{cmd}})
		if err != nil {
			t.Fatal(err)
		}
		log = append(binary.AppendUvarint(log, uint64(len(data))), data...)
		entries = append(entries, &raft.Log{Index: uint64(i + 1), Term: 1, Type: raft.LogCommand, Data: data})
	}
	m := newMachine(Default())
	for i, answer := range m.apply(entries) {
		if refused := answer.([]*commandpb.Result)[0].GetRefusal(); refused != nil {
			t.Fatalf("entry %d: %v", i, refused)
		}
	}
	dir := filepath.Join("testdata", "former", name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{"log.gz": log, "snapshot.gz": encode(t, m.state)} {
		// Compressed once, equal bytes still take a thousandth.
		if err := os.WriteFile(filepath.Join(dir, file), compressed(t, compressed(t, data)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func compressed(t *testing.T, data []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// readFormer reads what writeFormer has written.
func readFormer(t *testing.T, name, file string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "former", name, file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	for range 2 {
		if in, err = gzip.NewReader(in); err != nil {
			t.Fatal(err)
		}
	}
	data, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// entriesIn returns the entries of a log.
func entriesIn(t *testing.T, log []byte) (entries []*raft.Log) {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(log))
	for {
		size, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return entries
		}
		data := make([]byte, size)
		if _, full := io.ReadFull(in, data); err != nil || full != nil {
			t.Fatal(err, full)
		}
		entries = append(entries, &raft.Log{Index: uint64(len(entries) + 1), Term: 1, Type: raft.LogCommand, Data: data})
	}
}
