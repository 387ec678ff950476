package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/cluster/gossip"
	"weir/messages/versions"
	"weir/raftstore"
)

// TestClusterBeyondThisProgram (V2): a replica stops when it hears that the cluster has a version that its program
// does not know, with the exit code after which systemd does not restart it.
func TestClusterBeyondThisProgram(t *testing.T) {
	members := []gossip.Member{{ID: "r1", Version: "0.3.0", ClusterVersion: 3}, {ID: "r2"}}
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
