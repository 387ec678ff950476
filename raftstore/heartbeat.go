package raftstore

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// currentTerm is the latest term on this replica's disk. Raft's main loop sets it. A change of the
// term waits until any heartbeat in progress is handled.
type currentTerm struct {
	mu    sync.Mutex
	value atomic.Uint64
}

// set changes the term by calling the function write. If the term is already stored, set returns
// without taking the lock, because a heartbeat of the current term sets the same value.
func (t *currentTerm) set(value uint64, write func() error) error {
	if value != 0 && value == t.value.Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err := write()
	if err == nil {
		t.value.Store(value)
	}
	return err
}

// heartbeats handles heartbeats of the current term outside raft's main loop, which may be waiting
// for the disk, and passes all others to the main loop. Raft itself would handle every heartbeat
// outside its main loop. A heartbeat of an old term whose check passed could be handled late, and
// restore the old term and its leader, or find the disk closed. A heartbeat of the current term
// writes nothing.
type heartbeats struct {
	term *currentTerm
	// handle is raft's own heartbeat handler.
	handle func(raft.RPC)
	// calls is read by the main loop. stop is closed by the method close.
	calls chan raft.RPC
	stop  chan struct{}
	once  sync.Once
}

func newHeartbeats(term *currentTerm) *heartbeats {
	return &heartbeats{term: term, calls: make(chan raft.RPC), stop: make(chan struct{})}
}

// take handles a heartbeat.
func (h *heartbeats) take(rpc raft.RPC) {
	if beat, is := rpc.Command.(*raft.AppendEntriesRequest); !is || !h.handled(rpc, beat.Term) {
		h.pass(rpc)
	}
}

// handled passes a heartbeat to raft if it belongs to the current term, and reports whether it
// does.
func (h *heartbeats) handled(rpc raft.RPC, term uint64) bool {
	h.term.mu.Lock()
	defer h.term.mu.Unlock()
	if term != h.term.value.Load() {
		return false
	}
	h.handle(rpc)
	return true
}

// pass sends a call to the main loop.
func (h *heartbeats) pass(rpc raft.RPC) {
	select {
	case h.calls <- rpc:
	case <-h.stop:
		rpc.Respond(nil, raft.ErrTransportShutdown)
	}
}

// passAll sends all calls of a transport to the main loop.
func (h *heartbeats) passAll(calls <-chan raft.RPC) {
	for {
		select {
		case rpc := <-calls:
			h.pass(rpc)
		case <-h.stop:
			return
		}
	}
}

// close unblocks all calls that wait for the main loop.
func (h *heartbeats) close() { h.once.Do(func() { close(h.stop) }) }
