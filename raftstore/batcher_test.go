package raftstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"weir/messages/commandpb"
	"weir/raftstore/command"
)

// fakeFuture is answered by the test.
type fakeFuture struct {
	answered chan struct{}
	err      error
	results  []*commandpb.Result
}

func (f *fakeFuture) Error() error  { <-f.answered; return f.err }
func (f *fakeFuture) Response() any { return f.results }
func (f *fakeFuture) Index() uint64 { return 1 }

// fakeLog keeps what is appended and answers when told to.
type fakeLog struct {
	entries chan []byte
	futures chan *fakeFuture
}

func newFakeLog() *fakeLog {
	return &fakeLog{entries: make(chan []byte, 100), futures: make(chan *fakeFuture, 100)}
}

func (l *fakeLog) append(entry []byte) raft.ApplyFuture {
	f := &fakeFuture{answered: make(chan struct{})}
	l.futures <- f
	l.entries <- entry
	return f
}

// commit answers the oldest entry: each result's index counts from base.
func (l *fakeLog) commit(t interface{ Fatal(...any) }, base uint64) []string {
	commands, err := command.DecodeEntry(<-l.entries)
	if err != nil {
		t.Fatal(err)
	}
	f := <-l.futures
	var names []string
	for i, cmd := range commands {
		names = append(names, cmd.Message.(*commandpb.RemoveTree).GetTree())
		f.results = append(f.results, &commandpb.Result{Index: base + uint64(i)})
	}
	close(f.answered)
	return names
}

func removals(t testing.TB, names ...string) []*commandpb.Command {
	var commands []*commandpb.Command
	for _, name := range names {
		commands = append(commands, mustCommand(t, &commandpb.RemoveTree{Tree: name}))
	}
	return commands
}

func testBatcher(t testing.TB, tune func(*Config)) (*batcher, *fakeLog) {
	cfg := Default()
	cfg.EntriesInFlight = 1
	if tune != nil {
		tune(&cfg)
	}
	log := newFakeLog()
	b := newBatcher(cfg, log.append, func(err error) error { return fmt.Errorf("explained: %w", err) }, new(proposed), func() {})
	t.Cleanup(func() {
		b.queue.close()
		<-b.done
	})
	return b, log
}

// enqueue proposes and does not wait.
func enqueue(t testing.TB, b *batcher, names ...string) <-chan outcome {
	c, err := newCall(time.Now(), removals(t, names...), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.queue.push(c); err != nil {
		t.Fatal(err)
	}
	return c.outcome
}

func TestCallsThatWaitShareAnEntry(t *testing.T) {
	b, log := testBatcher(t, nil)
	first := enqueue(t, b, "a")
	entry := <-log.entries // in flight: what follows gathers
	log.entries <- entry
	second := enqueue(t, b, "b", "c")
	third := enqueue(t, b, "d")
	if got := fmt.Sprint(log.commit(t, 10)); got != "[a]" {
		t.Errorf("first entry: got %s", got)
	}
	if got := fmt.Sprint(log.commit(t, 20)); got != "[b c d]" {
		t.Errorf("second entry: got %s, want the calls that waited, in order", got)
	}
	for name, want := range map[string]struct {
		outcome <-chan outcome
		want    []uint64
	}{
		"first": {first, []uint64{10}}, "second": {second, []uint64{20, 21}}, "third": {third, []uint64{22}},
	} {
		o := <-want.outcome
		if o.err != nil || len(o.results) != len(want.want) {
			t.Fatalf("%s call: got %v, %v", name, o.results, o.err)
		}
		for i, r := range o.results {
			if r.GetIndex() != want.want[i] {
				t.Errorf("%s call: result %d is of %d, want %d", name, i, r.GetIndex(), want.want[i])
			}
		}
	}
}

func TestBatchKeepsItsLimitsAndItsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxCommands := rapid.IntRange(1, 6).Draw(t, "max commands")
		maxBytes := rapid.IntRange(1, 60).Draw(t, "max bytes")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 8), 1, 20).Draw(t, "calls")
		q := newCallQueue(1000, 1<<20)
		for i, n := range sizes {
			if err := q.push(&call{commands: n, entry: make([]byte, n*5), outcome: make(chan outcome, 1)}); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		var taken []int
		for len(taken) < len(sizes) {
			commands, bytes, batch := 0, 0, q.take(maxCommands, maxBytes)
			for _, c := range batch {
				taken = append(taken, c.commands)
				commands, bytes = commands+c.commands, bytes+len(c.entry)
			}
			if len(batch) != 1 && (commands > maxCommands || bytes > maxBytes) {
				t.Fatalf("batch of %d calls has %d commands and %d bytes", len(batch), commands, bytes)
			}
		}
		if fmt.Sprint(taken) != fmt.Sprint(sizes) {
			t.Fatalf("taken %v, pushed %v", taken, sizes)
		}
		if q.waiting() != 0 || q.bytes != 0 {
			t.Fatalf("an empty queue counts %d commands, %d bytes", q.waiting(), q.bytes)
		}
	})
}

func TestProposeRefusesAtOnce(t *testing.T) {
	b, _ := testBatcher(t, func(c *Config) { c.QueueCommands, c.EntryMaxBytes = 2, 1000 })
	full := newCallQueue(2, 1<<20)
	for range 2 {
		if err := full.push(&call{commands: 1}); err != nil {
			t.Fatal(err)
		}
	}
	b.queue.close()
	tests := map[string]struct {
		commands []*commandpb.Command
		queue    *callQueue
		want     error
	}{
		"the queue is full":                   {removals(t, "a"), full, ErrOverloaded},
		"the store is closed":                 {removals(t, "a"), b.queue, ErrClosed},
		"the commands do not fit in an entry": {removals(t, string(make([]byte, 1001))), nil, ErrTooLarge},
		"a command would not decode again":    {[]*commandpb.Command{{Kind: 4000}}, nil, command.ErrUnknownKind},
		"a command is nil":                    {[]*commandpb.Command{nil}, nil, command.ErrUnknownKind},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := newCall(time.Now(), test.commands, 1000)
			if err == nil {
				err = test.queue.push(c)
			}
			if !errors.Is(err, test.want) || errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("got %v, want %v and nothing unknown", err, test.want)
			}
		})
	}
}

func TestWhoStopsWaitingLearnsWhatIsKnown(t *testing.T) {
	b, log := testBatcher(t, nil)
	open := make(chan struct{})
	propose := func(ctx context.Context, name string) <-chan error {
		c, err := newCall(time.Now(), removals(t, name), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.queue.push(c); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := b.wait(ctx, c, open)
			done <- err
		}()
		return done
	}
	ctx, cancel := context.WithCancel(context.Background())
	sent := propose(ctx, "sent")
	entry := <-log.entries
	log.entries <- entry
	queued := propose(ctx, "queued")
	cancel()
	if err := <-sent; !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("a call in the log: got %v, want an unknown outcome", err)
	}
	if err := <-queued; errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("a call in the queue: got %v, want cancelled and nothing unknown", err)
	}
	if got := fmt.Sprint(log.commit(t, 1)); got != "[sent]" {
		t.Errorf("the log got %s", got)
	}
	last := propose(context.Background(), "last")
	if got := fmt.Sprint(log.commit(t, 1)); got != "[last]" {
		t.Errorf("the log got %s: what was withdrawn must not come", got)
	}
	if err := <-last; err != nil {
		t.Error(err)
	}
}

// TestKnownOutcomeCounts: who looks late, when the time is over and the store has stopped
// too, learns what became of the call all the same.
func TestKnownOutcomeCounts(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	stopped := make(chan struct{})
	close(stopped)
	b := &batcher{queue: newCallQueue(10, 1000)}
	for range 100 {
		committed := &call{outcome: make(chan outcome, 1)}
		committed.outcome <- outcome{results: []*commandpb.Result{{Index: 7}}}
		if results, err := b.wait(ended, committed, stopped); err != nil || len(results) != 1 {
			t.Fatalf("what was committed: got %v, %v", results, err)
		}
	}
	refused := &call{commands: 1, outcome: make(chan outcome, 1)}
	if err := b.queue.push(refused); err != nil {
		t.Fatal(err)
	}
	b.queue.close()
	if _, err := b.wait(ended, refused, nil); !errors.Is(err, ErrClosed) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("what the queue has refused: got %v, want ErrClosed and nothing unknown", err)
	}
}

func TestErrorsOfTheLogReachEveryCall(t *testing.T) {
	b, log := testBatcher(t, nil)
	a, c := enqueue(t, b, "a"), enqueue(t, b, "b")
	lost := errors.New("lost")
	for answered := 0; answered < 2; {
		f := <-log.futures
		commands, err := command.DecodeEntry(<-log.entries)
		if err != nil {
			t.Fatal(err)
		}
		answered += len(commands)
		f.err = lost
		close(f.answered)
	}
	for _, o := range []outcome{<-a, <-c} {
		if !errors.Is(o.err, lost) {
			t.Errorf("got %v, want %v", o.err, lost)
		}
	}
}
