package auditlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/scheduling/audit"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

func open4test(t *testing.T, dir string, change ...func(*Config)) *Log {
	t.Helper()
	cfg := Default()
	cfg.Dir, cfg.Replica, cfg.Logger = dir, "r1", slog.New(slog.DiscardHandler)
	cfg.Limits.Distinct = 1 << 20
	cfg.MaxBytes, cfg.Flush, cfg.Retry, cfg.Linger = 64<<10, time.Millisecond, time.Millisecond, patience
	for _, c := range change {
		c(&cfg)
	}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func abort(user, object string) audit.Line {
	return audit.Line{Time: time.Now().UTC(), Role: "user", User: user, Method: "OperationService/Abort", Object: object, Right: "manage", Outcome: audit.Denied, Code: "permission_denied"}
}

// lines returns the lines that a log has after a seq.
func lines(t *testing.T, l *Log, after uint64) (all []audit.Line) {
	t.Helper()
	err := l.Read(t.Context(), after, false, func(some []string, _ uint64) error {
		all = append(all, parse(t, some)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func parse(t *testing.T, raw []string) (all []audit.Line) {
	for _, text := range raw {
		var line audit.Line
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		all = append(all, line)
	}
	return all
}

// until waits until what is said is "".
func until(t *testing.T, what string, wrong func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for wrong() != "" {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s", what, wrong())
		}
		time.Sleep(time.Millisecond)
	}
}

func (l *Log) waitWritten(t *testing.T, n int64) {
	t.Helper()
	until(t, "lines are written", func() string {
		if got := l.Stats().Written; got < n {
			return fmt.Sprintf("%d of %d", got, n)
		}
		return ""
	})
}

func objects(all []audit.Line, user string) (found []string) {
	for _, line := range all {
		if line.User == user && line.Outcome != audit.Lost {
			found = append(found, line.Object)
		}
	}
	return found
}

// size returns how many bytes a folder has.
func size(t *testing.T, dir string) (sum int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if info, err := file.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// TestRotation (T8): the files stay within their size. Who floods the log loses his own lines; a line
// says so. Those of others stay, in order, also after a restart.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	l := open4test(t, dir)
	var want []string
	flooded := int64(0)
	for i := range 40 {
		object := fmt.Sprintf("operation %d", i)
		want = append(want, object)
		l.Record(abort("ann", object))
		for j := range 100 {
			l.Record(abort("mallory", fmt.Sprintf("operation %d-%d", i, j)))
			flooded++
		}
		l.waitWritten(t, int64(i))
		until(t, "nothing waits", func() string { return strings.Repeat("x", l.Stats().Waiting) })
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := size(t, dir); got > l.cfg.MaxBytes {
		t.Errorf("%d bytes, the limit is %d", got, l.cfg.MaxBytes)
	}
	if files, _ := os.ReadDir(dir); len(files) > 2*segments {
		t.Errorf("%d files", len(files))
	}
	l = open4test(t, dir)
	l.Record(abort("ann", "last"))
	l.waitWritten(t, 1)
	all := lines(t, l, 0)
	if got := objects(all, "ann"); !slices.Equal(got, append(want, "last")) {
		t.Errorf("lines about ann: %q", got)
	}
	kept := int64(len(objects(all, "mallory")))
	for i, line := range all {
		if line.Outcome == audit.Lost {
			if line.User != "mallory" || !strings.Contains(line.Why, "--audit-log-size") {
				t.Errorf("%+v", line)
			}
			kept += line.Count
		}
		if line.Replica != "r1" || i > 0 && line.Seq <= all[i-1].Seq {
			t.Errorf("line %d after %d: %+v", line.Seq, all[max(i-1, 0)].Seq, line)
		}
	}
	// Lines that told of losses may be lost too.
	if kept > flooded || len(objects(all, "mallory")) < 10 {
		t.Errorf("%d decisions about mallory are kept or told as lost, of %d", kept, flooded)
	}
}

// TestFollow: a reader sees each line once and in order, while files begin, end and are rewritten.
func TestFollow(t *testing.T) {
	l := open4test(t, t.TempDir())
	var mu sync.Mutex
	var seen []audit.Line
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	l.Record(abort("ann", "before"))
	go func() {
		ended <- l.Read(ctx, 0, true, func(some []string, _ uint64) error {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, parse(t, some)...)
			return nil
		})
	}()
	var want []string
	for i := range 20 {
		object := fmt.Sprint(i)
		want = append(want, object)
		l.Record(abort("ann", object))
		for j := range 100 {
			l.Record(abort("mallory", fmt.Sprint(i, "-", j)))
		}
		until(t, "the reader follows", func() string {
			mu.Lock()
			defer mu.Unlock()
			if got := objects(seen, "ann"); len(got) < len(want)+1 {
				return fmt.Sprint(got)
			}
			return ""
		})
	}
	mu.Lock()
	if got := objects(seen, "ann"); !slices.Equal(got, append([]string{"before"}, want...)) {
		t.Errorf("seen %q", got)
	}
	if !slices.IsSortedFunc(seen, func(a, b audit.Line) int { return int(int64(a.Seq) - int64(b.Seq)) }) {
		t.Error("not in order")
	}
	last := seen[len(seen)-1].Seq
	mu.Unlock()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a reader who is done gets %v", err)
	}
	until(t, "nothing waits", func() string { return strings.Repeat("x", l.Stats().Waiting) })
	for _, line := range lines(t, l, last) {
		if line.Seq <= last {
			t.Errorf("line %d comes after %d", line.Seq, last)
		}
	}
	if all := lines(t, l, 1<<62); len(all) > 0 {
		t.Errorf("%d lines of a time to come", len(all))
	}
}

// TestLatest (W1): the latest lines are read from as many files as they are in, and those before them by the seq of the first.
func TestLatest(t *testing.T) {
	l := open4test(t, t.TempDir())
	const all = 250
	for i := range all {
		l.Record(abort("ann", fmt.Sprintf("operation %d", i)))
	}
	l.waitWritten(t, all)
	if n := len(l.files.segments); n < 3 {
		t.Fatalf("%d files, want some", n)
	}
	read := func(after, before uint64, n int) (found []audit.Line) {
		err := l.Latest(t.Context(), after, before, n, func(some []string, _ uint64) error {
			found = append(found, parse(t, some)...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := uint64(0)
	for end := all; end > 0; end -= 60 {
		page := read(0, before, 60)
		var want []string
		for i := max(0, end-60); i < end; i++ {
			want = append(want, fmt.Sprintf("operation %d", i))
		}
		if got := objects(page, "ann"); !slices.Equal(got, want) {
			t.Fatalf("before line %d: %q, want %q", end, got, want)
		}
		before = page[0].Seq
	}
	if more := read(0, before, 60); len(more) > 0 {
		t.Errorf("before the first line: %v", more)
	}
	last := read(0, 0, 1)[0]
	if since := read(last.Seq-1, 0, 60); len(since) != 1 || len(read(last.Seq, 0, 60)) > 0 {
		t.Errorf("after the last but one: %v", since)
	}
}

// TestCrash: what a crash leaves is removed, and nothing else.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	l := open4test(t, dir)
	l.Record(abort("ann", "a"))
	l.Record(abort("ann", "b"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	first := files[0].Name()
	data, err := os.ReadFile(filepath.Join(dir, first))
	if err != nil {
		t.Fatal(err)
	}
	seq := lines(t, open4test(t, dir), 0)[1].Seq
	_, moved, _ := strings.Cut(string(data), "\n")
	for name, content := range map[string]string{
		first: string(data) + "damaged\n" + `{"seq":99999999999`, first + unfinished: "x", fmt.Sprintf("%020d.jsonl", seq): moved, "notes.txt": "of somebody else",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l = open4test(t, dir)
	l.Record(abort("ann", "c"))
	l.waitWritten(t, 1)
	if got := objects(lines(t, l, 0), "ann"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("lines %q", got)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
}

// TestDiskFails (T8): a disk that fails, from the start or later, holds up nobody. What waits is written
// when it works; what does not fit in is counted and told.
func TestDiskFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	l := open4test(t, dir, func(c *Config) {
		c.Limits.Pending = 100
		c.Logger = slog.New(slog.NewTextHandler(&told, nil))
	})
	l.Record(abort("ann", "a"))
	for i := range 1000 {
		l.Record(abort("mallory", fmt.Sprint(i)))
	}
	l.Record(abort("bob", "b"))
	if stats := l.Stats(); stats.Lost == 0 || stats.Waiting != 100 {
		t.Errorf("%+v", stats)
	}
	until(t, "a write has failed", func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.failing {
			return "none has"
		}
		return ""
	})
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	l.waitWritten(t, 100)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open4test(t, dir)
	all := lines(t, l, 0)
	count := int64(0)
	for _, line := range all {
		count += max(line.Count, 1)
	}
	if count != 1002 || len(objects(all, "ann")) != 1 || len(objects(all, "bob")) != 1 {
		t.Errorf("%d decisions, ann %q, bob %q", count, objects(all, "ann"), objects(all, "bob"))
	}
	for _, part := range []string{"audit log cannot be written; retrying", "audit lines dropped", "audit log is written again"} {
		if !strings.Contains(told.String(), part) {
			t.Errorf("the log does not say %q:\n%s", part, told.String())
		}
	}
}

func TestConfig(t *testing.T) {
	cfg := Default()
	cfg.Dir = t.TempDir()
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "replica is missing") {
		t.Error(err)
	}
	cfg.Replica, cfg.MaxBytes = "r1", 1
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "max bytes") {
		t.Error(err)
	}
	l := open4test(t, t.TempDir())
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := l.Read(t.Context(), 0, true, nil); err == nil {
		t.Error("a closed log is read")
	}
}

// BenchmarkRecord measures what a call pays for its line, with callers on all processors.
func BenchmarkRecord(b *testing.B) {
	cfg := Default()
	cfg.Dir, cfg.Replica, cfg.Logger = b.TempDir(), "r1", slog.New(slog.DiscardHandler)
	l, err := Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	var caller atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		user := fmt.Sprint("u", caller.Add(1))
		for i := 0; pb.Next(); i++ {
			l.Record(abort(user, fmt.Sprint("operation ", i)))
		}
	})
	b.StopTimer()
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(l.Stats().Lost), "lost")
}
