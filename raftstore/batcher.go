package raftstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/versions"
	"weir/raftstore/command"
)

// call is one call of Propose. Its commands stay together and in order.
type call struct {
	commands int
	// entry holds the commands as an encoded log entry. Encoded entries can be concatenated into
	// one. decoded are the same commands.
	entry   []byte
	decoded []command.Decoded
	// version is the version of the cluster that a program must know to read the commands.
	version uint32
	outcome chan outcome
}

type outcome struct {
	results []*commandpb.Result
	err     error
}

// callQueue holds calls in order until they are put into a log entry.
type callQueue struct {
	mu                    sync.Mutex
	filled                *sync.Cond
	calls                 []*call
	commands, bytes       int
	maxCommands, maxBytes int
	closed                bool
}

func newCallQueue(maxCommands, maxBytes int) *callQueue {
	q := &callQueue{maxCommands: maxCommands, maxBytes: maxBytes}
	q.filled = sync.NewCond(&q.mu)
	return q
}

func (q *callQueue) push(c *call) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return fmt.Errorf("store: %w", ErrClosed)
	case q.commands+c.commands > q.maxCommands && q.commands > 0:
		return fmt.Errorf("%w: %d commands already queued for the log, the limit is %d: retry later, or send fewer at a time", ErrOverloaded, q.commands, q.maxCommands)
	case q.bytes+len(c.entry) > q.maxBytes:
		return fmt.Errorf("%w: %d bytes of commands already queued for the log, the limit is %d: retry later, or send fewer at a time", ErrOverloaded, q.bytes, q.maxBytes)
	}
	q.calls = append(q.calls, c)
	q.commands += c.commands
	q.bytes += len(c.entry)
	q.filled.Signal()
	return nil
}

// withdraw removes c and reports whether it was still queued.
func (q *callQueue) withdraw(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.calls, c)
	if i < 0 {
		return false
	}
	q.calls = slices.Delete(q.calls, i, i+1)
	q.commands -= c.commands
	q.bytes -= len(c.entry)
	return true
}

// take waits for calls, and then removes and returns as many as fit within the limits, but at least
// one. It returns none when the queue is closed.
func (q *callQueue) take(maxCommands, maxBytes int) []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.calls) == 0 && !q.closed {
		q.filled.Wait()
	}
	n, commands, bytes := 0, 0, 0
	for _, c := range q.calls {
		if n > 0 && (commands+c.commands > maxCommands || bytes+len(c.entry) > maxBytes) {
			break
		}
		n, commands, bytes = n+1, commands+c.commands, bytes+len(c.entry)
	}
	taken := q.calls[:n:n]
	q.calls = q.calls[n:]
	q.commands -= commands
	q.bytes -= bytes
	return taken
}

// waiting returns the number of commands in the queue.
func (q *callQueue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.commands
}

// close rejects queued and further calls with ErrClosed.
func (q *callQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, c := range q.calls {
		c.outcome <- outcome{err: fmt.Errorf("store: %w", ErrClosed)}
	}
	q.calls, q.commands, q.bytes = nil, 0, 0
	q.filled.Broadcast()
}

// flight is a log entry in flight and the calls in it.
type flight struct {
	future raft.ApplyFuture
	entry  []byte
	calls  []*call
}

// batcher groups waiting calls into log entries. While all slots are in use, arriving calls wait
// and then share the next entry.
type batcher struct {
	queue       *callQueue
	maxCommands int
	maxBytes    int
	// append submits an entry to the log; the future returns its outcome.
	append func(entry []byte) raft.ApplyFuture
	// explain converts an error of the future into the caller's error.
	explain func(error) error
	// proposed holds the commands in flight, so that the state machine need not decode them.
	proposed *proposed
	// landed is called when an entry is committed and no other entry in flight will carry the
	// commit index to followers.
	landed func()

	// slots bounds the entries in flight.
	slots   chan struct{}
	flights chan flight
	done    chan struct{}
	sizes   batchSizes
}

func newBatcher(cfg Config, appendEntry func([]byte) raft.ApplyFuture, explain func(error) error, proposed *proposed, landed func()) *batcher {
	b := &batcher{
		queue:       newCallQueue(cfg.QueueCommands, cfg.QueueBytes),
		maxCommands: cfg.BatchMaxCommands,
		maxBytes:    cfg.BatchMaxBytes,
		append:      appendEntry,
		explain:     explain,
		proposed:    proposed,
		landed:      landed,
		slots:       make(chan struct{}, cfg.EntriesInFlight),
		flights:     make(chan flight, cfg.EntriesInFlight),
		done:        make(chan struct{}),
	}
	go b.send()
	go b.receive()
	return b
}

// send puts queued calls into log entries until the queue is closed.
func (b *batcher) send() {
	defer close(b.flights)
	for {
		b.slots <- struct{}{}
		calls := b.queue.take(b.maxCommands, b.maxBytes)
		if len(calls) == 0 {
			return
		}
		b.sizes.count(calls)
		entry, decoded, version := calls[0].entry, calls[0].decoded, calls[0].version
		for _, c := range calls[1:] {
			entry, decoded, version = append(entry, c.entry...), append(decoded, c.decoded...), max(version, c.version)
		}
		if version > versions.Oldest {
			entry = withVersion(entry, version)
		}
		b.proposed.add(entry, decoded)
		b.flights <- flight{future: b.append(entry), entry: entry, calls: calls}
	}
}

// withVersion adds to an encoded entry the version of the cluster that its readers must know.
func withVersion(entry []byte, version uint32) []byte {
	entry, err := proto.MarshalOptions{}.MarshalAppend(entry, &commandpb.Entry{Version: version})
	if err != nil {
		panic(fmt.Sprintf("encode version %d of an entry: %v", version, err))
	}
	return entry
}

// receive gives each call its outcome, until the last flight has landed.
func (b *batcher) receive() {
	defer close(b.done)
	for f := range b.flights {
		err := f.future.Error()
		b.proposed.forget(f.entry)
		if err != nil {
			err = b.explain(err)
		}
		var results []*commandpb.Result
		if err == nil {
			results, _ = f.future.Response().([]*commandpb.Result)
			if results == nil {
				// The machine has stopped at an entry that it cannot read.
				err = fmt.Errorf("%w: store: %w", ErrOutcomeUnknown, ErrClosed)
			}
		}
		for _, c := range f.calls {
			if err != nil {
				c.outcome <- outcome{err: err}
				continue
			}
			c.outcome <- outcome{results: results[:c.commands:c.commands]}
			results = results[c.commands:]
		}
		if err == nil && len(b.flights) == 0 {
			b.landed()
		}
		<-b.slots
	}
}

// wait returns the outcome of a queued call. It stops waiting when ctx ends or the channel stopped
// is closed, but an outcome that is available then takes precedence.
func (b *batcher) wait(ctx context.Context, c *call, stopped <-chan struct{}) ([]*commandpb.Result, error) {
	var unknown error
	select {
	case o := <-c.outcome:
		return o.results, o.err
	case <-ctx.Done():
		if b.queue.withdraw(c) {
			return nil, fmt.Errorf("still in the queue: %w", context.Cause(ctx))
		}
		unknown = fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx))
	case <-stopped:
		unknown = fmt.Errorf("%w: store: %w", ErrOutcomeUnknown, ErrClosed)
	}
	select {
	case o := <-c.outcome:
		return o.results, o.err
	default:
		return nil, unknown
	}
}

// newCall encodes commands, stamped with the time `now`, which must fit into maxBytes. A command
// that cannot be decoded is rejected here, because in the log it would stop every replica.
func newCall(now time.Time, commands []*commandpb.Command, maxBytes int) (*call, error) {
	decoded, err := command.DecodeAll(commands)
	if err != nil {
		return nil, err
	}
	entry := &commandpb.Entry{Commands: make([]*commandpb.Command, len(commands))}
	var version uint32
	for i, cmd := range decoded {
		command.Stamp(cmd.Message, now)
		if entry.Commands[i], err = command.New(cmd.Message); err != nil {
			return nil, fmt.Errorf("command %d of %d: %w", i+1, len(commands), err)
		}
		entry.Commands[i].Subject = cmd.By
		version = max(version, versions.Of(cmd.Message))
	}
	if size := proto.Size(entry); size > maxBytes {
		return nil, fmt.Errorf("%d commands of %d bytes: %w: the limit is %d bytes: send fewer or smaller commands, for example shorter command lines and environments", len(commands), size, ErrTooLarge, maxBytes)
	}
	data, err := proto.Marshal(entry)
	if err != nil {
		return nil, fmt.Errorf("encode %d commands: %w", len(commands), err)
	}
	return &call{commands: len(commands), entry: data, decoded: decoded, version: version, outcome: make(chan outcome, 1)}, nil
}
