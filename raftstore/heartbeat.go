package raftstore

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// currentTerm is the latest term that is on this replica's disk. It is the main loop's of
// raft, which waits with a change while a heartbeat is handled beside it.
type currentTerm struct {
	mu    sync.Mutex
	value atomic.Uint64
}

// set changes the term with write. The term that is there already is not written again:
// that is all that a heartbeat of this term has to say about it, and needs no lock.
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

// heartbeats takes those of the current term past raft's main loop, which may be waiting for
// the disk, and all others to it. Raft itself takes each past its main loop: one that was
// looked at in time and is carried out late could bring back a term that is over, and with
// it a leader that has been replaced, or find the disk closed. One of the current term has
// nothing to write.
type heartbeats struct {
	term *currentTerm
	// handle is raft's own way with them.
	handle func(raft.RPC)
	// calls are for the main loop; stop is closed when there is none any more.
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

// handled says whether a heartbeat was one of the current term, and raft has had it.
func (h *heartbeats) handled(rpc raft.RPC, term uint64) bool {
	h.term.mu.Lock()
	defer h.term.mu.Unlock()
	if term != h.term.value.Load() {
		return false
	}
	h.handle(rpc)
	return true
}

// pass gives a call to the main loop.
func (h *heartbeats) pass(rpc raft.RPC) {
	select {
	case h.calls <- rpc:
	case <-h.stop:
		rpc.Respond(nil, raft.ErrTransportShutdown)
	}
}

// passAll gives all calls of a transport to the main loop.
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

// close ends all waiting for the main loop.
func (h *heartbeats) close() { h.once.Do(func() { close(h.stop) }) }
