package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"weir/cluster/leaktest"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/messages/statepb"
	"weir/raftstore/recordlog"
	"weir/scheduling"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func grant(job string, term, index uint64) *actorpb.StartJob {
	return &actorpb.StartJob{JobId: job, OperationId: "op", Task: "sort", Cookie: 3, Attempt: 2, NodeIncarnation: 9,
		Token: &actorpb.Token{Term: term, Index: index}, Controller: &actorpb.Replica{Id: "r1", Address: "r1:1"},
		Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1 << 20}}
}

// life is the records of a job, from its grant to its end.
func life(job string) []*journalpb.Record {
	return []*journalpb.Record{
		Granted(grant(job, 2, 7), scheduling.Token{Term: 2, Index: 8}),
		Starting(&actorpb.JobSpec{JobId: job, Argv: []string{"true"}}, "boot-1"),
		Started(job, 42, timestamppb.Now(), "/sys/fs/cgroup/n1/"+job),
		Stopping(job, &statepb.StopOrder{Reason: "preemption", GraceMillis: 15000}, timestamppb.Now()),
		Exited(&statepb.FinishedJob{JobId: job, State: "failed", ExitCode: 7}, []byte("boom")),
		Released(job),
	}
}

func open(t testing.TB, path string) (*Journal, Recovery) {
	t.Helper()
	j, recovered, err := Open(Config{Path: path, Node: "n1", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j, recovered
}

// put appends records and waits until they are on disk.
func put(t testing.TB, j *Journal, records ...*journalpb.Record) error {
	t.Helper()
	done := make(chan error, 1)
	j.Append(func(err error) { done <- err }, records...)
	return <-done
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatWasAppendedIsRecovered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, first := open(t, path)
	if first.State.Life == 0 || first.State.Session == 0 || len(first.State.Jobs) != 0 {
		t.Errorf("new journal: %+v", first.State)
	}
	all := life("a")
	must(t, put(t, j, all[:2]...))
	must(t, put(t, j, life("b")...))
	must(t, put(t, j, life("c")[:5]...))
	must(t, put(t, j, life("never")[0], Unstarted("never")))
	must(t, put(t, j, Seen(scheduling.Token{Term: 3, Index: 1}), Rejected("stale", scheduling.Token{Term: 1}, scheduling.Token{Term: 3}, "r2", "x")))
	must(t, j.Close())
	must(t, j.Close())

	for range 2 {
		again, found := open(t, path)
		s := found.State
		if s.Life != first.State.Life || s.Session <= first.State.Session || s.Node != "n1" || found.Cut != 0 {
			t.Errorf("life %d, session %d, cut %d; want life %d, and a later session", s.Life, s.Session, found.Cut, first.State.Life)
		}
		if s.Token != (scheduling.Token{Term: 3, Index: 1}) || !slices.Equal(s.Had, []string{"b"}) || len(s.Rejections) != 1 {
			t.Errorf("token %v, had %v, rejections %v", s.Token, s.Had, s.Rejections)
		}
		a, c := s.Jobs["a"], s.Jobs["c"]
		if len(s.Jobs) != 2 || a == nil || c == nil {
			t.Fatalf("jobs %v, want a and c", s.Jobs)
		}
		if !proto.Equal(a.Grant, grant("a", 2, 7)) || a.Starting.GetBoot() != "boot-1" || a.Started != nil || a.Exited != nil {
			t.Errorf("a: %+v, want it about to start", a)
		}
		if c.Started.GetPid() != 42 || c.Stopping.GetOrder().GetReason() != "preemption" || c.Stopping.GetDeadline() == nil || c.Exited.GetJob().GetExitCode() != 7 || string(c.Exited.GetStderrTail()) != "boom" {
			t.Errorf("c: %+v, want it ended", c)
		}
		must(t, again.Close())
	}
}

func TestAfterCloseNothingIsTaken(t *testing.T) {
	j, _ := open(t, filepath.Join(t.TempDir(), "journal"))
	must(t, j.Close())
	if err := put(t, j, life("a")...); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestLivesGrow(t *testing.T) {
	now := time.Now()
	if a, b := newLife(now), newLife(now.Add(time.Microsecond)); a >= b || a < 1<<63 {
		t.Errorf("lives %d and %d", a, b)
	}
}

func TestMostlyDeadIsWrittenAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, first := open(t, path)
	must(t, put(t, j, life("kept")[:3]...))
	var biggest int64
	spec := &actorpb.JobSpec{Shell: strings.Repeat("x", 40<<10)}
	for i := range 200 {
		id := fmt.Sprint("dead-", i)
		spec := proto.CloneOf(spec)
		spec.JobId = id
		must(t, put(t, j, Granted(grant(id, 2, 8), scheduling.Token{Term: 2, Index: 8}), Starting(spec, ""), Released(id)))
		info, err := os.Stat(path)
		must(t, err)
		biggest = max(biggest, info.Size())
	}
	if biggest > 2*slack {
		t.Errorf("the file grew to %d bytes, want it written anew beyond %d", biggest, slack)
	}
	must(t, j.Close())
	_, found := open(t, path)
	if s := found.State; s.Life != first.State.Life || len(s.Jobs) != 1 || s.Jobs["kept"].Started == nil || len(s.Had) != 200 || s.Token.Index != 8 {
		t.Errorf("after writing anew: %d jobs, %d had, token %v", len(s.Jobs), len(s.Had), s.Token)
	}
}

func TestRememberedJobsAreBounded(t *testing.T) {
	s := &State{}
	must(t, s.apply(born9()))
	for i := range 3 * maxHad {
		must(t, s.apply(Released(fmt.Sprint(i))))
		must(t, s.apply(Rejected("stale", scheduling.Token{}, scheduling.Token{}, "", "")))
	}
	if c := s.clone(); len(c.Had) != maxHad || c.Had[maxHad-1] != fmt.Sprint(3*maxHad-1) || len(c.Rejections) != maxRejections {
		t.Errorf("%d had, %d rejections", len(c.Had), len(c.Rejections))
	}
}

func born9() *journalpb.Record {
	return &journalpb.Record{Event: &journalpb.Record_Born{Born: &journalpb.Born{Format: Format, Node: "n1", Life: 9}}}
}

func TestOpenRefuses(t *testing.T) {
	frames := func(records ...*journalpb.Record) []byte {
		data := []byte(signature)
		for _, record := range records {
			var err error
			data, err = appendFrame(data, int64(len(data)), int64(len(data)), record)
			must(t, err)
		}
		return data
	}
	later := born9()
	later.GetBorn().Format = Format + 1
	unknown := &journalpb.Record{}
	must(t, proto.Unmarshal([]byte{0xfa, 0x01, 0x00}, unknown))
	whole := frames(born9(), Seen(scheduling.Token{Term: 1}), Seen(scheduling.Token{Term: 2}))
	flipped := bytes.Clone(whole)
	flipped[len(frames(born9()))+recordlog.HeaderSize] ^= 1
	tests := map[string]struct {
		data []byte
		want string
	}{
		"an empty file":               {nil, "is damaged at offset 0"},
		"another file":                {[]byte("#!/bin/sh\necho hello world\n"), "is damaged at offset 0"},
		"no birth":                    {[]byte(signature), "before the node's first record"},
		"a birth that is cut":         {frames(born9())[:len(signature)+20], "before the node's first record"},
		"two births":                  {frames(born9(), born9()), "is damaged"},
		"a record before the birth":   {frames(Seen(scheduling.Token{Term: 1})), "is damaged"},
		"damage before other records": {flipped, fmt.Sprintf("is damaged at offset %d", len(frames(born9())))},
		"a later format":              {frames(later), "written by a newer version"},
		"a record of a later version": {frames(born9(), unknown), "written by a newer version"},
		"another node":                {frames(&journalpb.Record{Event: &journalpb.Record_Born{Born: &journalpb.Born{Node: "n2", Life: 1}}}), `it belongs to node "n2"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			must(t, os.WriteFile(path, test.data, 0o600))
			_, _, err := Open(Config{Path: path, Node: "n1"})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want an error that says %q and names the file", err, test.want)
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(after, test.data) {
				t.Error("a journal that was refused has been changed")
			}
		})
	}
	if _, _, err := Open(Config{Path: filepath.Join(t.TempDir(), "no", "journal"), Node: "n1"}); err == nil {
		t.Error("opened in a folder that is not there")
	}
}

// file of batches as a journal writes them, and the records in it.
func written(t interface{ Fatal(...any) }, batches [][]*journalpb.Record) (data []byte, ends []int, all []*journalpb.Record) {
	data = []byte(signature)
	for _, batch := range batches {
		begin := int64(len(data))
		for _, record := range batch {
			var err error
			if data, err = appendFrame(data, int64(len(data)), begin, record); err != nil {
				t.Fatal(err)
			}
			ends, all = append(ends, len(data)), append(all, record)
		}
	}
	return data, ends, all
}

func sample() [][]*journalpb.Record {
	a, b := life("a"), life("b")
	return [][]*journalpb.Record{{born9(), Seen(scheduling.Token{Term: 1, Index: 2})}, a[:1], {a[1], b[0], b[1]}, {a[2]}, {a[3], b[2], b[3]}, {a[4]}}
}

// recovered returns the records of damaged data, which are a prefix of what was
// written, or the test fails.
func recovered(t interface {
	Errorf(string, ...any)
}, data []byte, all []*journalpb.Record) (n int, err error) {
	end, err := replay(data, func(record *journalpb.Record) error {
		if n >= len(all) || !proto.Equal(record, all[n]) {
			t.Errorf("record %d was never written there: %v", n, record)
		}
		n++
		return nil
	})
	if end < 0 || int(end) > len(data) {
		t.Errorf("the last record ends at %d of %d", end, len(data))
	}
	return n, err
}

func TestCutAtEveryByte(t *testing.T) {
	data, ends, all := written(t, sample())
	for cut := range len(data) + 1 {
		n, err := recovered(t, data[:cut], all)
		want := 0
		for want < len(ends) && ends[want] <= cut {
			want++
		}
		if cut < len(signature) {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("cut at %d: %v, want ErrDamaged", cut, err)
			}
			continue
		}
		if err != nil || n != want {
			t.Errorf("cut at %d: %d records, %v; want %d", cut, n, err, want)
		}
	}
}

// TestOpenAfterACutAtEveryByte goes on with whatever a crash has left of a file, and
// loses no record that is whole.
func TestOpenAfterACutAtEveryByte(t *testing.T) {
	data, ends, all := written(t, sample())
	path := filepath.Join(t.TempDir(), "journal")
	for cut := range len(data) + 1 {
		must(t, os.WriteFile(path, data[:cut], 0o600))
		whole := 0
		for whole < len(ends) && ends[whole] <= cut {
			whole++
		}
		j, found, err := Open(Config{Path: path, Node: "n1"})
		if whole == 0 {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("cut at %d: %v, want ErrDamaged", cut, err)
			}
			continue
		}
		must(t, err)
		want := &State{}
		for _, record := range all[:whole] {
			must(t, want.apply(record))
		}
		if s := found.State; found.Cut != int64(cut-ends[whole-1]) || s.Token != want.Token || !slices.Equal(s.Had, want.Had) || len(s.Jobs) != len(want.Jobs) {
			t.Fatalf("cut at %d: %+v, %d cut off; want %+v", cut, s, found.Cut, want)
		}
		must(t, put(t, j, Released("last")))
		must(t, j.Close())
		_, found = open(t, path)
		if had := found.State.Had; found.Cut != 0 || len(had) == 0 || had[len(had)-1] != "last" {
			t.Fatalf("cut at %d: had %v, %d cut off, after one more record", cut, had, found.Cut)
		}
	}
}

func TestFlippedBits(t *testing.T) {
	batches := sample()
	data, ends, all := written(t, batches)
	last := len(all) - len(batches[len(batches)-1])
	for bit := range 8 * len(data) {
		flipped := bytes.Clone(data)
		flipped[bit/8] ^= 1 << (bit % 8)
		n, err := recovered(t, flipped, all)
		hit := 0
		for hit < len(ends) && ends[hit] <= bit/8 {
			hit++
		}
		switch {
		case bit/8 < len(signature):
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("bit %d: %v, want ErrDamaged", bit, err)
			}
		case n != hit:
			t.Errorf("bit %d: %d records, want the %d before the flipped one", bit, n, hit)
		case (err == nil) != (hit >= last):
			t.Errorf("bit %d, in record %d of %d: %v; want an error unless it is in the last batch", bit, hit, len(all), err)
		}
	}
}

// TestPagesOfTheLastBatchAreLost leaves holes in a batch that was not synced, as a
// loss of power does.
func TestPagesOfTheLastBatchAreLost(t *testing.T) {
	data, ends, all := written(t, sample()[:5])
	begin := ends[len(ends)-4]
	for from := begin; from < len(data); from += 16 {
		holed := bytes.Clone(data)
		clear(holed[from:min(from+16, len(holed))])
		if n, err := recovered(t, holed, all); err != nil || n < len(all)-3 {
			t.Errorf("hole at %d: %d records, %v; want all that was synced, and no error", from, n, err)
		}
	}
}

func TestAnyDamage(t *testing.T) {
	data, _, all := written(t, sample())
	rapid.Check(t, func(t *rapid.T) {
		damaged := bytes.Clone(data)
		for range rapid.IntRange(1, 4).Draw(t, "times") {
			at := rapid.IntRange(0, len(damaged)).Draw(t, "at")
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				damaged = damaged[:at]
			case 1:
				if at < len(damaged) {
					damaged[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
				}
			case 2:
				damaged = slices.Insert(damaged, at, rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "more")...)
			case 3:
				// Records that were once elsewhere in the file.
				damaged = append(damaged, damaged[at:]...)
			}
		}
		_, err := recovered(t, damaged, all)
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("got %v, want ErrDamaged", err)
		}
	})
}

func FuzzReplay(f *testing.F) {
	data, ends, _ := written(f, sample())
	f.Add(data)
	f.Add(data[:ends[3]+5])
	f.Add([]byte(signature))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &State{}
		end, err := replay(data, s.apply)
		if end < 0 || int(end) > len(data) {
			t.Fatalf("the last record ends at %d of %d", end, len(data))
		}
		if err != nil {
			return
		}
		// What is kept reads the same again.
		again := &State{}
		kept, err := replay(data[:end], again.apply)
		if err != nil || kept != end || again.Token != s.Token || len(again.Jobs) != len(s.Jobs) {
			t.Fatalf("the kept part reads as %+v, %v; before it was %+v", again, err, s)
		}
	})
}

// TestNoSecretIsWritten (T3) starts a job that has secrets: the journal has the rest of its spec.
func TestNoSecretIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	j, _ := open(t, path)
	spec := &actorpb.JobSpec{JobId: "a", Argv: []string{"true"}, Secrets: map[string]string{"TOKEN": "hunter2"}}
	if err := put(t, j, Granted(grant("a", 2, 7), scheduling.Token{Term: 2, Index: 8}), Starting(spec, "boot-1")); err != nil {
		t.Fatal(err)
	}
	if spec.GetSecrets()["TOKEN"] != "hunter2" {
		t.Error("the job has lost its secrets")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil || bytes.Contains(content, []byte("hunter2")) {
		t.Errorf("the journal has the secret: %v", err)
	}
	_, found := open(t, path)
	if kept := found.State.Jobs["a"].Starting.GetSpec(); kept.GetArgv()[0] != "true" || len(kept.GetSecrets()) > 0 {
		t.Errorf("kept is %v", kept)
	}
}
