package raftstore

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"

	"github.com/hashicorp/raft"
)

// TestDoubtfulDiskLetsFollowersGo sends heartbeats while a write to the log is in
// time, and none while it may hang.
func TestDoubtfulDiskLetsFollowersGo(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	errDialed := errors.New("dialed")
	cfg := Default()
	cfg.ReplicaID, cfg.Address = "r1", listener.Addr().String()
	cfg.Transport = Transport{Listener: listener, Dial: func(context.Context, string) (net.Conn, error) { return nil, errDialed }}
	cfg.InitialPeers = []Peer{{ID: "r2", Address: "127.0.0.1:1"}}
	d := new(disk)
	transport := newTransport(cfg, d, newRaftLogger(slog.New(slog.DiscardHandler)))
	defer func() {
		if err := transport.Close(); err != nil {
			t.Error(err)
		}
	}()
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
}
