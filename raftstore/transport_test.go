package raftstore

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// transportOf returns a transport of replica r1 with a disk, which dials nobody.
func transportOf(t *testing.T, d *disk, errDialed error) *transport {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Default()
	cfg.ReplicaID, cfg.Address = "r1", listener.Addr().String()
	cfg.Transport = Transport{Listener: listener, Dial: func(context.Context, string) (net.Conn, error) { return nil, errDialed }}
	cfg.InitialPeers = []Peer{{ID: "r2", Address: "127.0.0.1:1"}}
	transport := newTransport(cfg, d, newRaftLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() {
		if err := transport.Close(); err != nil {
			t.Error(err)
		}
	})
	return transport
}

// TestDoubtfulDiskLetsFollowersGo sends heartbeats while a write to the log is in
// time, and none while it may hang.
func TestDoubtfulDiskLetsFollowersGo(t *testing.T) {
	errDialed := errors.New("dialed")
	d := new(disk)
	transport := transportOf(t, d, errDialed)
	heartbeat := func() error {
		return transport.AppendEntries("r2", "127.0.0.1:1", &raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{})
	}
	for _, doubts := range []int32{0, 1, 0} {
		d.doubt.now.Store(doubts)
		want := errDialed
		if doubts > 0 {
			want = errDoubtful
		}
		if err := heartbeat(); !errors.Is(err, want) {
			t.Errorf("%d writes may hang: %v, want %v", doubts, err, want)
		}
	}
	// Nor is raft given a former answer then.
	transport.late.follows("r2", 0, time.Now(), raft.AppendEntriesResponse{})
	if err := heartbeat(); err != nil {
		t.Errorf("a peer that has just answered: %v", err)
	}
	d.doubt.now.Store(1)
	if err := heartbeat(); !errors.Is(err, errDoubtful) {
		t.Errorf("a write may hang, and a peer has just answered: %v, want %v", err, errDoubtful)
	}
}

// TestHeartbeatsOverTheWire has a peer send them: those of the term on disk are answered beside
// raft's main loop, and all others by it.
func TestHeartbeatsOverTheWire(t *testing.T) {
	d := new(disk)
	d.term.value.Store(7)
	transport := transportOf(t, d, nil)
	beside := &raft.AppendEntriesResponse{Term: 7, Success: true}
	transport.SetHeartbeatHandler(func(rpc raft.RPC) { rpc.Respond(beside, nil) })
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case rpc := <-transport.Consumer():
				rpc.Respond(&raft.AppendEntriesResponse{Term: 7}, nil)
			case <-ended:
				return
			}
		}
	}()
	peer, err := raft.NewTCPTransport("127.0.0.1:0", nil, 1, patience, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	for term, want := range map[uint64]bool{6: false, 7: true, 8: false} {
		request := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{Addr: []byte("r2")}, Term: term}
		var answer raft.AppendEntriesResponse
		if err := peer.AppendEntries("r1", transport.LocalAddr(), request, &answer); err != nil || answer.Success != want {
			t.Errorf("a heartbeat of term %d was answered beside the main loop: %t, %v; want %t", term, answer.Success, err, want)
		}
	}
}
