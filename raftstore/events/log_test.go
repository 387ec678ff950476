package events

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"weir/cluster/leaktest"
	"weir/messages/eventpb"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// entryOf makes n events of an index, a second after those of the index before.
func entryOf(index uint64, n int) []*eventpb.Event {
	var out []*eventpb.Event
	for i := range n {
		out = append(out, &eventpb.Event{
			Index: index, Position: uint32(i), Kind: JobStarted, Job: fmt.Sprintf("job-%d-%d", index, i), Time: timestamppb.New(epoch.Add(time.Duration(index) * time.Second)),
		})
	}
	return out
}

func configOf(dir string) Config {
	cfg := Default()
	cfg.Dir, cfg.Retry = dir, time.Millisecond
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	return cfg
}

type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func mustOpen(t tester, cfg Config) *Log {
	t.Helper()
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func synced(t tester, l *Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Sync(ctx); err != nil {
		t.Fatal(err)
	}
}

// id names an event.
func id(e *eventpb.Event) string { return fmt.Sprintf("%d.%d", e.GetIndex(), e.GetPosition()) }

// readAll reads what there is from a place on; gaps are in it as text.
func readAll(t tester, l *Log, index uint64, position uint32) (out []string) {
	t.Helper()
	r := l.Read(index, position)
	defer r.Close()
	for {
		events, _, more, err := r.Next()
		var gap *GapError
		switch {
		case errors.As(err, &gap):
			out = append(out, fmt.Sprintf("gap %d to %d", gap.From, gap.To))
			r.Skip(gap)
		case err != nil:
			return append(out, err.Error())
		case more != nil:
			return out
		}
		for _, e := range events {
			out = append(out, id(e))
		}
	}
}

// TestResumeAnywhere reads from each event of random logs, across restarts and torn
// ends: what follows is the same, each event once.
func TestResumeAnywhere(t *testing.T) {
	dirs := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(dirs, "")
		if err != nil {
			t.Fatal(err)
		}
		cfg := configOf(dir)
		cfg.SegmentBytes = int64(rapid.SampledFrom([]int{1, 300, 100_000}).Draw(t, "segment"))
		var want []string
		sizes := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 30).Draw(t, "sizes")
		for i, n := range sizes {
			for _, e := range entryOf(uint64(i+1), n) {
				want = append(want, id(e))
			}
		}
		l := mustOpen(t, cfg)
		for i := 0; i < len(sizes); i++ {
			l.Append(uint64(i+1), entryOf(uint64(i+1), sizes[i]))
			if rapid.IntRange(0, 5).Draw(t, "restart") == 0 {
				l.closeHard(t, rapid.IntRange(0, 100).Draw(t, "lost bytes"))
				l = mustOpen(t, cfg)
				if err := l.Begin(uint64(len(sizes))); err != nil {
					t.Fatal(err)
				}
				// The store replays from its snapshot; here from the beginning.
				i = -1
			}
		}
		synced(t, l)
		defer l.Close()
		if got := readAll(t, l, 0, 0); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for i, place := range want {
			var index uint64
			var position uint32
			if _, err := fmt.Sscanf(place, "%d.%d", &index, &position); err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, l, index, position); fmt.Sprint(got) != fmt.Sprint(want[i:]) {
				t.Fatalf("from %s: got %v, want %v", place, got, want[i:])
			}
			if got := readAll(t, l, index, position+1); fmt.Sprint(got) != fmt.Sprint(want[i+1:]) {
				t.Fatalf("behind %s: got %v, want %v", place, got, want[i+1:])
			}
		}
	})
}

// closeHard ends a log as a crash does that takes the last bytes with it.
func (l *Log) closeHard(t tester, lost int) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(l.segments); n > 0 {
		last := l.segments[n-1]
		info, err := os.Stat(last.path)
		if err == nil {
			err = os.Truncate(last.path, max(info.Size()-int64(lost), 0))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsMissingIsTold(t *testing.T) {
	tests := map[string]struct {
		steps func(t *testing.T, l *Log)
		want  string
	}{
		"nothing is missing before the first snapshot of a new replica, it is gone": {
			func(_ *testing.T, l *Log) { l.Jump(7); l.Append(8, entryOf(8, 1)) },
			"[events from index 1 are no longer kept: the oldest kept index is 8]",
		},
		"a later state": {
			func(_ *testing.T, l *Log) { l.Append(1, entryOf(1, 1)); l.Jump(7); l.Append(8, entryOf(8, 1)) },
			"[1.0 gap 2 to 7 8.0]",
		},
		"a later state, twice": {
			func(_ *testing.T, l *Log) {
				l.Append(1, entryOf(1, 1))
				l.Jump(3)
				l.Jump(7)
				l.Append(8, entryOf(8, 1))
			},
			"[1.0 gap 2 to 3 gap 4 to 7 8.0]",
		},
		"a state that is known already": {
			func(_ *testing.T, l *Log) { l.Append(1, entryOf(1, 1)); l.Jump(1); l.Append(2, entryOf(2, 1)) },
			"[1.0 2.0]",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := mustOpen(t, configOf(t.TempDir()))
			defer l.Close()
			test.steps(t, l)
			synced(t, l)
			if got := fmt.Sprint(readAll(t, l, 0, 0)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestMarkKeepsSnapshotWhole shows that a replica that restarts from a snapshot misses
// nothing when no event came between the last one and the snapshot.
func TestMarkKeepsSnapshotWhole(t *testing.T) {
	cfg := configOf(t.TempDir())
	l := mustOpen(t, cfg)
	l.Append(1, entryOf(1, 1))
	synced(t, l)
	for i := uint64(2); i <= 9; i++ {
		l.Append(i, nil)
	}
	synced(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, cfg)
	defer l.Close()
	l.Jump(9)
	l.Append(10, entryOf(10, 1))
	synced(t, l)
	if got := fmt.Sprint(readAll(t, l, 0, 0)); got != "[1.0 10.0]" {
		t.Errorf("got %s", got)
	}
}

func TestOldestGo(t *testing.T) {
	cfg := configOf(t.TempDir())
	cfg.MaxBytes, cfg.SegmentBytes = 64<<10, 4<<10
	l := mustOpen(t, cfg)
	defer l.Close()
	const last = 2000
	for i := uint64(1); i <= last; i++ {
		l.Append(i, entryOf(i, 2))
		if i%50 == 0 {
			synced(t, l)
		}
	}
	synced(t, l)
	total := int64(0)
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > cfg.MaxBytes {
		t.Errorf("%d bytes are kept, want at most %d", total, cfg.MaxBytes)
	}
	oldest := l.Oldest()
	var gone *GoneError
	if _, _, _, err := l.Read(1, 0).Next(); !errors.As(err, &gone) || gone.Oldest != oldest || oldest < 2 {
		t.Fatalf("got %v, oldest %d", err, oldest)
	}
	got := readAll(t, l, oldest, 0)
	if len(got) != 2*int(last-oldest+1) || got[0] != fmt.Sprintf("%d.0", oldest) {
		t.Errorf("got %d events from %s on, oldest is %d", len(got), got[0], oldest)
	}
}

func TestOldestGoByAge(t *testing.T) {
	cfg := configOf(t.TempDir())
	cfg.MaxAge = time.Minute
	l := mustOpen(t, cfg)
	defer l.Close()
	for i := uint64(1); i <= 600; i++ {
		l.Append(i, entryOf(i, 1))
		synced(t, l)
	}
	if oldest := l.Oldest(); oldest < 520 || oldest > 541 {
		t.Errorf("oldest is %d: of a minute at an event a second 60 are to be kept, and little more", oldest)
	}
}

func TestSince(t *testing.T) {
	cfg := configOf(t.TempDir())
	cfg.SegmentBytes = 500
	l := mustOpen(t, cfg)
	defer l.Close()
	for i := uint64(1); i <= 50; i++ {
		l.Append(i, entryOf(i, int(i%3)))
	}
	synced(t, l)
	for second, want := range map[int]uint64{-5: 1, 1: 1, 2: 2, 3: 4, 30: 31, 49: 49, 51: 51} {
		got, err := l.Since(epoch.Add(time.Duration(second) * time.Second))
		if err != nil || got != want {
			t.Errorf("since second %d: got %d, %v, want %d", second, got, err, want)
		}
	}
}

// TestFollow reads while it is written.
func TestFollow(t *testing.T) {
	cfg := configOf(t.TempDir())
	cfg.SegmentBytes = 1000
	l := mustOpen(t, cfg)
	defer l.Close()
	const last = 500
	go func() {
		for i := uint64(1); i <= last; i++ {
			l.Append(i, entryOf(i, 1))
		}
	}()
	r := l.Read(1, 0)
	defer r.Close()
	for want := uint64(1); want <= last; {
		events, _, more, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if more != nil {
			select {
			case <-more:
			case <-time.After(time.Minute):
				t.Fatalf("nothing comes after %d", want)
			}
			continue
		}
		for _, e := range events {
			if e.GetIndex() != want {
				t.Fatalf("got %s, want index %d", id(e), want)
			}
			want++
		}
	}
}

// entryRecord is the record of an index with two events.
func entryRecord(index uint64) *eventpb.Entry {
	return &eventpb.Entry{Index: index, Events: entryOf(index, 2)}
}
