package state

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/statistics"
)

// ended is a state with operations of one job each, which start and end as they do in a cluster: of the job all is
// measured, and it teaches.
type ended struct {
	t      *testing.T
	state  *State
	index  uint64
	packed []byte
	term   uint64
	user   string
	// environment is that of their jobs.
	environment map[string]string
}

func newEnded(t *testing.T, limits *statepb.Limits) *ended {
	var values statistics.Values
	for i, d := range statistics.All() {
		values.Put(d.Name, int64(1000*i))
	}
	e := &ended{t: t, state: New(), term: 1, user: "ann"}
	e.packed, _ = values.Pack()
	e.do(&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "c1", Limits: WithBytes(limits)}, nodeOf("n1", 10))
	return e
}

// do applies commands as they come from the log: nothing else has their parts.
func (e *ended) do(messages ...proto.Message) {
	e.t.Helper()
	for _, msg := range messages {
		e.index++
		complete(msg, epochStart.Add(time.Duration(e.index)*time.Second))
		data, err := proto.Marshal(msg)
		decoded := msg.ProtoReflect().New().Interface()
		if err := cmp.Or(err, proto.Unmarshal(data, decoded)); err != nil {
			e.t.Fatal(err)
		}
		if result, _ := e.state.Apply(e.index, decoded); result.GetRefusal() != nil {
			e.t.Fatalf("%T: %v", msg, result.GetRefusal())
		}
	}
}

func endedID(i int) string { return fmt.Sprintf("01a2240c-0000-7000-8000-%012d", i) }

// now returns a command of the current term.
func (e *ended) now(msg proto.Message) proto.Message {
	m := msg.ProtoReflect()
	if field := m.Descriptor().Fields().ByName("term"); field != nil {
		m.Set(field, protoreflect.ValueOfUint64(e.term))
	}
	return msg
}

// run ends the operations with the numbers from one to before another.
func (e *ended) run(from, to int) {
	e.t.Helper()
	for i := from; i < to; i++ {
		id, job := endedID(i), fmt.Sprintf("01a2240c-0000-7000-9000-%012d", i)
		spec := specOf(1)
		spec.Title, spec.Tasks[0].Argv, spec.Tasks[0].MemoryLimit, spec.Tasks[0].Environment = fmt.Sprint("nightly report ", i), []string{"python3", "report.py", "--day", fmt.Sprint(i)}, 1<<30, e.environment
		e.do(&commandpb.StartOperation{OperationId: id, User: e.user, Spec: spec})
		for _, step := range roadOf(id, spec) {
			e.do(e.now(step))
		}
		e.do(&commandpb.StartAllocations{Term: e.term, Grants: []*commandpb.Grant{grantOf(job, id)}},
			&commandpb.FinishJobs{OperationId: id, Epoch: 1, Jobs: []*statepb.FinishedJob{{
				JobId: job, State: "completed", Sample: &statepb.MemorySample{User: 0.2, Proxy: 1}, Statistics: &statepb.JobStatistics{Packed: e.packed},
			}}},
			&commandpb.AdvanceOperation{OperationId: id, Term: e.term, From: "completing", To: "completed"})
	}
}

// liveBytes returns what is reachable.
func liveBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// inFile is a shelf in a file.
type inFile struct {
	t *testing.T
	// held is how many records stay in memory, and reads counts reads.
	held, reads int
	file        *os.File
	size        int64
}

func newInFile(t *testing.T) *inFile {
	file, err := os.Create(filepath.Join(t.TempDir(), "shelf"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return &inFile{t: t, file: file}
}

// shelvedAt is a record of an inFile.
type shelvedAt struct {
	of     *inFile
	offset int64
	size   int
}

func (f *inFile) Put(record []byte) Shelved {
	if f.held > 0 {
		f.held--
		return Held(record)
	}
	if _, err := f.file.WriteAt(record, f.size); err != nil {
		f.t.Fatal(err)
	}
	at := shelvedAt{f, f.size, len(record)}
	f.size += int64(len(record))
	return at
}

func (s shelvedAt) Read(buffer []byte) []byte {
	s.of.reads++
	record := slices.Grow(buffer[:0], s.size)[:s.size]
	if _, err := s.of.file.ReadAt(record, s.offset); err != nil {
		s.of.t.Fatal(err)
	}
	return record
}

// TestEndedOperationsAreSmall wants each operation that ended before the latest to hold no more memory than docs/running.md
// says.
func TestEndedOperationsAreSmall(t *testing.T) {
	e := newEnded(t, nil)
	UseShelf(e.state, newInFile(t), RecentOperations)
	e.run(0, RecentOperations)
	first := liveBytes()
	const more = 3000
	e.run(RecentOperations, RecentOperations+more)
	each := (liveBytes() - first) / more
	t.Logf("%d bytes each", each)
	if most := int64(2 << 10); each > most {
		t.Errorf("an ended operation holds %d bytes, want %d at most", each, most)
	}
	if err := e.state.Verify(); err != nil {
		t.Error(err)
	}
}

// TestLargeEndedOperations wants those that ended last to hold no more than a bound together, however large they are.
func TestLargeEndedOperations(t *testing.T) {
	e := newEnded(t, nil)
	UseShelf(e.state, newInFile(t), RecentOperations)
	e.environment = map[string]string{"X": strings.Repeat("x", 900<<10)}
	e.run(0, 60)
	restorer := NewRestorer()
	restorer.UseShelf(newInFile(t), RecentOperations)
	for _, record := range recordsOf(t, e.state.Freeze()) {
		if err := restorer.Add(record); err != nil {
			t.Fatal(err)
		}
	}
	restored, err := restorer.State()
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*State{"run": e.state, "restored": restored} {
		if held := s.shelves.held; held > recentBytes || held < recentBytes/2 {
			t.Errorf("%s: they hold %d bytes, want %d at most", name, held, recentBytes)
		}
	}
}

// TestShelfIsLeftAlone wants the shelf to be neither read for what is kept in memory, nor written by a command that changes
// nothing.
func TestShelfIsLeftAlone(t *testing.T) {
	e := newEnded(t, nil)
	shelf := newInFile(t)
	UseShelf(e.state, shelf, 1)
	e.run(0, 5)
	id := scheduling.OperationID(endedID(2))
	shelf.reads = 0
	head, _ := Head(e.state, id)
	if running := e.state.AllocationsOfOperation(id); head.GetSpec().GetTitle() == "" || head.GetAssignment().GetReplica() == "" || len(running) > 0 || shelf.reads > 0 {
		t.Errorf("%v with allocations %v, after %d reads of the shelf", head, running, shelf.reads)
	}
	size := shelf.size
	for range 3 {
		e.index++
		if result, _ := e.state.Apply(e.index, &commandpb.SuspendOperation{OperationId: string(id), User: "ann"}); result.GetRefusal() == nil {
			t.Error("an operation that has ended is suspended")
		}
		if e.state.operations[id].shelved == nil || shelf.size != size {
			t.Errorf("after a refused command the shelf has %d bytes, want %d", shelf.size, size)
		}
	}
}

// TestShelfMakesNoDifference wants a state that has its ended operations on a shelf to be the one that has not: by its
// records, by what it answers, and after commands that change operations on the shelf.
func TestShelfMakesNoDifference(t *testing.T) {
	limits := &statepb.Limits{ArchivedOperations: 40, EventsPerOperation: 20}
	with, without := newEnded(t, limits), newEnded(t, limits)
	shelf := newInFile(t)
	UseShelf(with.state, shelf, 3)
	for _, e := range []*ended{with, without} {
		e.run(0, 60)
		// Those on the shelf lose events.
		e.do(&commandpb.BeginTerm{Term: 2, Replica: "r1", ClusterId: "c1", Limits: WithBytes(&statepb.Limits{ArchivedOperations: 30, EventsPerOperation: 5})})
		e.term = 2
		shelf.held = 2
		e.run(60, 65)
	}
	if !bytes.Equal(contentOf(t, with.state), contentOf(t, without.state)) {
		t.Fatal("the records differ")
	}
	if !bytes.Equal(contentOf(t, with.state), contentOf(t, without.state)) {
		t.Fatal("the records differ when they are read again")
	}
	if n := len(with.state.shelves.recent); n != 3 {
		t.Errorf("%d operations are not on the shelf, want 3", n)
	}
	id := scheduling.OperationID(endedID(40))
	got, _ := with.state.Operation(id)
	want, _ := without.state.Operation(id)
	if with.state.operations[id].shelved == nil || !proto.Equal(got, want) || len(got.GetFinishedJobs()) != 1 {
		t.Errorf("got %v, want %v", got, want)
	}
	for job, want := range map[string]bool{want.GetFinishedJobs()[0].GetJobId(): true, "": false, "nosuch": false} {
		if got := HasFinished(with.state, id, func(j string) bool { return j == job }); got != want {
			t.Errorf("it has job %q: %t, want %t", job, got, want)
		}
	}
	if got, want := with.state.Statistics(id), without.state.Statistics(id); len(got) == 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	restorer := NewRestorer()
	restorer.UseShelf(newInFile(t), 3)
	for _, record := range recordsOf(t, with.state.Freeze()) {
		if err := restorer.Add(record); err != nil {
			t.Fatal(err)
		}
	}
	restored, err := restorer.State()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(contentOf(t, restored), contentOf(t, without.state)) || len(restored.shelves.recent) != 3 || restored.operations[id].shelved == nil {
		t.Errorf("restored: %d operations are not on the shelf, or the records differ", len(restored.shelves.recent))
	}
	if err := restored.Verify(); err != nil {
		t.Error(err)
	}
}

// TestShelfHasLittleGarbage has a user whose operations are dropped soon, beside those of another that stay: nothing that is
// kept was put on the shelf so long ago that the shelf has more than four times what is kept since then.
func TestShelfHasLittleGarbage(t *testing.T) {
	e := newEnded(t, &statepb.Limits{OperationBytesPerUser: 256 << 10})
	shelf := newInFile(t)
	UseShelf(e.state, shelf, 1)
	e.user = "bob"
	e.run(0, 20)
	e.user = "ann"
	for i := 20; i < 400; i++ {
		e.run(i, i+1)
		oldest, kept := shelf.size, int64(0)
		for _, o := range e.state.order {
			if at, ok := o.shelved.(shelvedAt); ok {
				oldest, kept = min(oldest, at.offset), kept+int64(at.size)
			}
		}
		if since := shelf.size - oldest; since > 4*kept+64<<10 {
			t.Fatalf("after %d operations the shelf has %d bytes since the oldest record, of which %d are kept", i, since, kept)
		}
	}
}
