package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"weir/cluster/gossip"
	"weir/cluster/wire"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/versions"
	"weir/raftstore"
	"weir/raftstore/state"
)

// TestClusterBeyondThisProgram (V2): a replica stops when most say that the cluster has a version that its program
// does not know, with the exit code after which systemd does not restart it. A single one, which may come from the
// cluster as it was before a backup was restored, stops nobody.
func TestClusterBeyondThisProgram(t *testing.T) {
	later := gossip.Member{ID: "r1", Version: "0.3.0", ClusterVersion: 3}
	if err := beyond(versions.Program, []gossip.Member{later, {ID: "r2", ClusterVersion: 2}, {ID: "r3", ClusterVersion: 2}}); err != nil {
		t.Errorf("one of three: %v", err)
	}
	members := []gossip.Member{{ID: "r3"}, {ID: "r2", Version: "0.3.0", ClusterVersion: 3}, later}
	if err := beyond(versions.Range{Oldest: 1, Newest: 3}, members); err != nil {
		t.Errorf("one that it knows: %v", err)
	}
	err := beyond(versions.Program, members)
	if err == nil || !strings.Contains(err.Error(), "it needs cluster version 3") || !strings.Contains(err.Error(), "according to replica r1, weir 0.3.0") {
		t.Errorf("got %v", err)
	}
	unreadable := fmt.Errorf("%w: log entry at index 5", raftstore.ErrUnreadable)
	for _, err := range []error{err, unreadable, fmt.Errorf("restore: %w", raftstore.ErrSnapshotFormat)} {
		var ends *exitError
		if !errors.As(coded(fmt.Errorf("replica r9: %w", err)), &ends) || ends.code != exitForeignData {
			t.Errorf("%v: ends with %v, want exit code %d", err, ends, exitForeignData)
		}
	}
}

// TestVersionCommand (V2): weir version says what the program works with, for people and for programs.
func TestVersionCommand(t *testing.T) {
	run := func(args ...string) string {
		var out bytes.Buffer
		cmd := newRootCommand()
		cmd.SetOut(&out)
		cmd.SetArgs(append([]string{"version"}, args...))
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := run(); !strings.Contains(got, version) || !strings.Contains(got, "1 to 2") {
		t.Errorf("got %s", got)
	}
	var got struct {
		Version, Commit string
		Versions        struct{ Oldest, Newest int } `json:"cluster_versions"`
		Formats         map[string]struct{ Oldest, Newest int }
	}
	if err := json.Unmarshal([]byte(run("-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != version || got.Commit == "" || got.Versions.Newest != versions.Current || got.Formats["snapshot"].Oldest != 2 || got.Formats["snapshot"].Newest != 3 {
		t.Errorf("got %+v", got)
	}
}

// olderCluster and olderNodes answer what replicas of weir 0.1.0 answer.
type (
	olderCluster struct {
		apipbconnect.UnimplementedClusterServiceHandler
	}
	olderNodes struct {
		apipbconnect.UnimplementedNodeServiceHandler
	}
)

// Members implements ClusterServiceHandler.
func (olderCluster) Members(context.Context, *connect.Request[apipb.MembersRequest]) (*connect.Response[apipb.MembersResponse], error) {
	return connect.NewResponse(&apipb.MembersResponse{Members: []*apipb.Member{
		{Id: "r1", Leader: true, Suffrage: "voter", Alive: true, Version: "0.1.0"}, {Id: "r2", Suffrage: "voter", Alive: true, Version: "0.1.0"},
	}}), nil
}

// List implements NodeServiceHandler.
func (olderNodes) List(context.Context, *connect.Request[apipb.ListNodesRequest]) (*connect.Response[apipb.ListNodesResponse], error) {
	return connect.NewResponse(&apipb.ListNodesResponse{Nodes: []*apipb.Node{
		{Id: "n1", State: "online", Version: "0.1.0"}, {Id: "n2", State: "online", Version: version}, {Id: "n3", State: "online", Version: "0.1.0"},
	}}), nil
}

// TestUpgradeOfAnOlderCluster (V2): before the first replica is upgraded none knows what an upgrade is, and plan and
// status work nevertheless.
func TestUpgradeOfAnOlderCluster(t *testing.T) {
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: wire.Insecure{}})
	if err != nil {
		t.Fatal(err)
	}
	routes := http.NewServeMux()
	routes.Handle(apipbconnect.NewClusterServiceHandler(olderCluster{}))
	routes.Handle(apipbconnect.NewNodeServiceHandler(olderNodes{}))
	server := &http.Server{Handler: routes, ReadHeaderTimeout: time.Minute}
	mux.ConfigureServer(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(mux.HTTP()) })
	t.Cleanup(func() {
		_ = errors.Join(server.Close(), mux.Close())
		serving.Wait()
	})
	for verb, test := range map[string]struct {
		want []string
		code int
	}{
		"plan":   {[]string{"to weir " + version, "n1 n3 (0.1.0)", "r2 (0.1.0)", "weir cluster transfer", "weir cluster upgrade finish"}, 0},
		"status": {[]string{"cluster version 1; in the way of version 2", "replica r1: its program is too old", "! agent n1 n3: its program is too old\n\n"}, 0},
		"finish": {[]string{"all replicas that answer are older than weir 0.2.0: see weir cluster upgrade plan"}, exitRefused},
	} {
		t.Run(verb, func(t *testing.T) {
			var out bytes.Buffer
			cmd := newRootCommand()
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			cmd.SetArgs([]string{"cluster", "upgrade", verb, "--addresses", mux.Addr().String(), "--insecure-plaintext"})
			code := 0
			if err := cmd.Execute(); err != nil {
				fmt.Fprintln(&out, err)
				code = exitCode(err)
			}
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in\n%s", want, out.String())
				}
			}
		})
	}
}

// TestHashTooLargeForGossip warns once that nobody hears the hash of a replica whose announcement is nearly full.
func TestHashTooLargeForGossip(t *testing.T) {
	for length, want := range map[int]int{400: 0, 480: 1} {
		mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: wire.Insecure{}})
		if err != nil {
			t.Fatal(err)
		}
		dialer, err := wire.NewDialer(wire.Insecure{})
		if err != nil {
			t.Fatal(err)
		}
		self := gossip.Member{ID: "r1", Address: mux.Addr().String(), Version: strings.Repeat("v", length)}
		g, err := gossip.Start(gossip.Config{Self: self, Cluster: "c1", Insecure: true, Port: mux, Dialer: dialer})
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		h := &hashes{gossip: g, log: slog.New(slog.NewTextHandler(&said, nil))}
		for index := range uint64(3) {
			h.Tell(raftstore.StateHash{Index: 1 + index, Hash: state.Hash{1}})
		}
		if got := strings.Count(said.String(), "limit is 512"); got != want || len(h.Told()) != 1-want {
			t.Errorf("%d bytes: told %v, and said\n%s", length, h.Told(), said.String())
		}
		if err := errors.Join(g.Close(), mux.Close()); err != nil {
			t.Error(err)
		}
	}
}
