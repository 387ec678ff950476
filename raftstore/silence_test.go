package raftstore

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestEntriesWaitForSilentPeers has peers that have left requests unanswered, and asks when they are sent entries.
func TestEntriesWaitForSilentPeers(t *testing.T) {
	const never = time.Hour
	for name, test := range map[string]struct {
		// answers are the requests so far, by whether they were answered.
		answers []bool
		// back is when the peer answers again, and closed when the replica closes.
		back, closed time.Duration
		held         time.Duration
	}{
		"not asked yet":                 {nil, never, never, 0},
		"answered":                      {[]bool{true, true}, never, never, 0},
		"a few unanswered":              {[]bool{true, false, false}, never, never, 0},
		"answered in between":           {[]bool{false, false, true, false, false}, never, never, 0},
		"silent, and back":              {[]bool{true, false, false, false}, 12 * time.Second, never, 12 * time.Second},
		"silent for long":               {[]bool{false, false, false, false, false}, never, never, longestHold},
		"silent, and the replica stops": {[]bool{false, false, false}, never, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := silences{peers: map[raft.ServerID]*silence{}}
				s.heard("r3", 1, true)
				for _, answered := range test.answers {
					s.heard("r2", 1, answered)
				}
				ctx, stop := context.WithTimeout(t.Context(), test.closed)
				defer stop()
				back := time.AfterFunc(test.back, func() { s.heard("r2", 1, true) })
				defer back.Stop()
				began := time.Now()
				s.await(ctx, "r3", 1)
				s.await(ctx, "r2", 1)
				if held := time.Since(began); held != test.held {
					t.Errorf("held for %v, want %v", held, test.held)
				}
			})
		})
	}
}

// TestSilenceEndsWithItsTerm: a peer that was silent in an earlier term may be back.
func TestSilenceEndsWithItsTerm(t *testing.T) {
	s := silences{peers: map[raft.ServerID]*silence{}}
	fail := func(term uint64, times int) {
		for range times {
			s.heard("r2", term, false)
		}
	}
	fail(1, silentAfter)
	before := s.silent("r2", 1)
	if before == nil || s.silent("r2", 2) != nil {
		t.Fatalf("silent in its term: %v; in the next: %v", before, s.silent("r2", 2))
	}
	fail(2, silentAfter-1)
	select {
	case <-before.over:
	default:
		t.Error("what was held in the term before is held still")
	}
	fail(1, silentAfter)
	if s.silent("r2", 2) != nil {
		t.Error("silent because of requests of an earlier term")
	}
	if fail(2, 1); s.silent("r2", 2) == nil {
		t.Error("not silent")
	}
}

// TestSilentPeerIsNotDialed has a peer that refuses connections. After a few attempts, a request with entries waits until
// the replica closes, and a heartbeat does not.
func TestSilentPeerIsNotDialed(t *testing.T) {
	errDialed := errors.New("dialed")
	transport := transportOf(t, new(disk), nil)
	transport.stream.Transport.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, errDialed
	}
	send := func(last uint64) error {
		return transport.AppendEntries("r2", "127.0.0.1:1", &raft.AppendEntriesRequest{PrevLogEntry: last}, &raft.AppendEntriesResponse{})
	}
	for range silentAfter {
		if err := send(1); !errors.Is(err, errDialed) {
			t.Error(err)
		}
	}
	// One that was removed, and comes again, begins anew.
	transport.forget("r2")
	for range silentAfter {
		if err := send(1); !errors.Is(err, errDialed) {
			t.Errorf("after it was forgotten: %v", err)
		}
	}
	held := make(chan error)
	go func() { held <- send(1) }()
	for range 1000 {
		if err := send(0); !errors.Is(err, errDialed) {
			t.Errorf("a heartbeat: %v", err)
		}
	}
	if err := transport.closeConns(); err != nil {
		t.Error(err)
	}
	if err := <-held; !errors.Is(err, context.Canceled) {
		t.Errorf("entries for a silent peer: %v, want none sent", err)
	}
}
