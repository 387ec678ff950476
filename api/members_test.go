package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/raftstore"
)

// The members of the test's cluster do what their names say.

func (r *replicaFake) AddReplica(_ context.Context, id, _ string) error { return memberFate(id) }

func (r *replicaFake) RemoveReplica(_ context.Context, id string, force bool) error {
	if force {
		return nil
	}
	return memberFate(id)
}

func (r *replicaFake) PromoteReplica(_ context.Context, id string) error { return memberFate(id) }

func (r *replicaFake) DemoteReplica(_ context.Context, id string, _ bool) error {
	return memberFate(id)
}

func (r *replicaFake) Admit(_ context.Context, a raftstore.Applicant) (raftstore.Suffrage, error) {
	if a.Empty {
		return raftstore.NonVoter, nil
	}
	return raftstore.Voter, nil
}

func (r *replicaFake) Backup(w io.Writer) error {
	_, err := w.Write(r.backup)
	return err
}

// TestBackupIsSentInParts backs up a state that the store writes at once, and that is larger than any
// message may be.
func TestBackupIsSentInParts(t *testing.T) {
	s := newSite(t)
	s.backup = bytes.Repeat([]byte("state"), 14<<20)
	stream, err := apipbconnect.NewClusterServiceClient(s.client, s.url, connect.WithReadMaxBytes(1<<20)).Backup(t.Context(), connect.NewRequest(&apipb.BackupRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var got []byte
	for stream.Receive() {
		got = append(got, stream.Msg().GetData()...)
	}
	if err := stream.Err(); err != nil || !bytes.Equal(got, s.backup) {
		t.Errorf("%d bytes of %d have come: %v", len(got), len(s.backup), err)
	}
}

func memberFate(id string) error {
	switch id {
	case "elsewhere":
		return fmt.Errorf("members: %w", &raftstore.NotLeaderError{LeaderID: "r2"})
	case "needed":
		return fmt.Errorf("%w: only 1 live", raftstore.ErrMembership)
	case "stuck":
		return errors.New("stuck")
	}
	return nil
}

func TestMembersAreChanged(t *testing.T) {
	tests := map[string]struct {
		method, body string
		wantStatus   int
		wantCode     string
	}{
		"added":                       {"Add", `{"id": "r4", "address": "h4:7701"}`, http.StatusOK, ""},
		"added without a port":        {"Add", `{"id": "r4", "address": "h4"}`, http.StatusBadRequest, "invalid_argument"},
		"added without a name":        {"Add", `{"address": "h4:7701"}`, http.StatusBadRequest, "invalid_argument"},
		"asked of a follower":         {"Add", `{"id": "elsewhere", "address": "h4:7701"}`, http.StatusServiceUnavailable, "not_leader"},
		"removed":                     {"Remove", `{"id": "r3"}`, http.StatusOK, ""},
		"removed, a retry":            {"Remove", `{"id": "r3"}`, http.StatusOK, ""},
		"removed, but never was":      {"Remove", `{"id": "r9"}`, http.StatusNotFound, "unknown_replica"},
		"removed without a name":      {"Remove", `{}`, http.StatusBadRequest, "invalid_argument"},
		"removed though it is needed": {"Remove", `{"id": "needed"}`, http.StatusBadRequest, "members_not_changed"},
		"removed by force":            {"Remove", `{"id": "r2", "force": true}`, http.StatusOK, ""},
		"promoted":                    {"Promote", `{"id": "r3"}`, http.StatusOK, ""},
		"promoted without a name":     {"Promote", `{}`, http.StatusBadRequest, "invalid_argument"},
		"demoted":                     {"Demote", `{"id": "r3"}`, http.StatusOK, ""},
		"demoted without a name":      {"Demote", `{}`, http.StatusBadRequest, "invalid_argument"},
		"not known what came of it":   {"Demote", `{"id": "stuck"}`, http.StatusServiceUnavailable, "unavailable"},
	}
	s := newSite(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := s.post("ClusterService/"+test.method, test.body)
			if got.status != test.wantStatus || got.header.Get(apipb.HeaderCode) != test.wantCode {
				t.Errorf("got %d %q %s, want %d %q", got.status, got.header.Get(apipb.HeaderCode), got.raw, test.wantStatus, test.wantCode)
			}
		})
	}
}

func TestReplicaJoinsForItselfOnly(t *testing.T) {
	s := newSite(t)
	got := s.post("ClusterService/Join", `{"id": "r2", "empty": true}`, roleHeader, "replica/r2")
	if got.status != http.StatusOK || at(t, got.fields, "suffrage") != "nonvoter" {
		t.Errorf("got %d %s", got.status, got.raw)
	}
	got = s.post("ClusterService/Join", `{"id": "r1", "empty": true}`, roleHeader, "replica/r2")
	if got.status != http.StatusForbidden || got.header.Get(apipb.HeaderCode) != "permission_denied" {
		t.Errorf("for another one: got %d %s", got.status, got.raw)
	}
}
