package raftstore

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// beat is a heartbeat of a term.
func beat(term uint64) (raft.RPC, chan raft.RPCResponse) {
	answers := make(chan raft.RPCResponse, 1)
	return raft.RPC{Command: &raft.AppendEntriesRequest{Term: term}, RespChan: answers}, answers
}

// TestHeartbeatsOfTheTermPassTheMainLoop, which is not there in this test; others wait for it
// until the transport is closed.
func TestHeartbeatsOfTheTermPassTheMainLoop(t *testing.T) {
	for name, test := range map[string]struct {
		term    uint64
		handled bool
	}{
		"of the current term":    {term: 7, handled: true},
		"of a term that is over": {term: 6},
		"of a new term":          {term: 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := new(currentTerm)
				d.value.Store(7)
				h := newHeartbeats(d)
				h.handle = func(rpc raft.RPC) { rpc.Respond("handled", nil) }
				rpc, answers := beat(test.term)
				go h.take(rpc)
				synctest.Wait()
				if handled := len(answers) == 1; handled != test.handled {
					t.Errorf("it was handled beside the main loop: %t, want %t", handled, test.handled)
				}
				h.close()
				if answer := <-answers; !test.handled && !errors.Is(answer.Error, raft.ErrTransportShutdown) {
					t.Errorf("answered %v after the end", answer.Error)
				}
			})
		})
	}
}

// TestNoHeartbeatBringsBackATerm: an election that comes while one is handled waits with its
// term, whatever the heartbeat does about its own.
func TestNoHeartbeatBringsBackATerm(t *testing.T) {
	d := new(currentTerm)
	var terms []uint64
	set := func(value uint64) {
		if err := d.set(value, func() error { terms = append(terms, value); return nil }); err != nil {
			t.Error(err)
		}
	}
	set(7)
	h := newHeartbeats(d)
	elected := make(chan struct{})
	h.handle = func(rpc raft.RPC) {
		if d.mu.TryLock() {
			t.Error("the term can change beneath a heartbeat")
			d.mu.Unlock()
		}
		go func() {
			set(8)
			close(elected)
		}()
		set(7)
		rpc.Respond(nil, nil)
	}
	rpc, answers := beat(7)
	h.take(rpc)
	<-answers
	<-elected
	if len(terms) != 2 || terms[0] != 7 || terms[1] != 8 || d.value.Load() != 8 {
		t.Errorf("terms %v were written, now %d; want 7 and 8, once each", terms, d.value.Load())
	}
}

// TestTermThatWasNotWritten is not taken to be there.
func TestTermThatWasNotWritten(t *testing.T) {
	d := new(currentTerm)
	broken := errors.New("input/output error")
	for range 2 {
		if err := d.set(7, func() error { return broken }); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
	}
}
