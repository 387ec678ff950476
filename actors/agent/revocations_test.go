package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// TestKeptRevocations (T6) are heeded at once and by the agent's next process. A file that is not as it was
// written is an error that says what to do.
func TestKeptRevocations(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "revocations.json")
	r, err := OpenRevocations(dir)
	if err != nil || r.Version() != actorpb.NoRevocations || r.Revoked("1a", "replica", "r1", time.Time{}) != nil {
		t.Fatalf("a new folder: %v", err)
	}
	moment := time.Now()
	told := actorpb.NewRevocations([]*statepb.Revocation{
		{Serial: "1a", Role: "replica", Name: "r3", Time: timestamppb.New(moment)},
		{Role: "replica", Name: "r1", IssuedBefore: timestamppb.New(moment), Time: timestamppb.New(moment)},
	})
	check := func(when string) {
		t.Helper()
		for _, test := range []struct {
			serial, role, name string
			issued             time.Time
			want               bool
		}{
			{"1a", "replica", "r2", moment, true},
			{"2b", "replica", "r3", moment.Add(-time.Hour), false},
			{"2b", "replica", "r1", moment.Add(-time.Second), true},
			{"2b", "replica", "r1", moment, false},
			{"2b", "user", "r1", moment.Add(-time.Second), false},
		} {
			if got := r.Revoked(test.serial, test.role, test.name, test.issued) != nil; got != test.want {
				t.Errorf("%s: %v is revoked: %v", when, test, got)
			}
		}
	}
	r.Heed(told)
	check("told")
	if r.Version() != actorpb.NoRevocations {
		t.Error("the version counts before it is in the file")
	}
	if err := r.Save(); err != nil || r.Version() != told.GetVersion() {
		t.Fatalf("saved: %v, version %s", err, r.Version())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if r, err = OpenRevocations(dir); err != nil || r.Version() != told.GetVersion() {
		t.Fatalf("the next process: %v", err)
	}
	check("read")

	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"cut": string(whole[:len(whole)/2]), "empty": "", "changed": strings.Replace(string(whole), `"1a"`, `"1b"`, 1)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenRevocations(dir); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "weir tls revoke --list") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAgentTellsWhatItHolds (T6) of the cluster's certificates: to the leader when it registers, and once more when
// that has changed.
func TestAgentTellsWhatItHolds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		holds := &actorpb.HeldCredentials{Issuer: "a1", Roots: []string{"a1"}}
		w.cfg.Credentials = func() *actorpb.HeldCredentials { return proto.CloneOf(holds) }
		var told []string
		beats := 0
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				if m, ok := msg.(interface {
					GetCredentials() *actorpb.HeldCredentials
				}); ok && m.GetCredentials() != nil {
					told = append(told, fmt.Sprintf("%T %s", msg, strings.Join(m.GetCredentials().GetRoots(), " ")))
				}
				if m, ok := msg.(*actorpb.Heartbeat); ok {
					beats++
					return &actorpb.HeartbeatAck{Sequence: m.GetSequence(), Term: m.GetTerm()}, nil
				}
				return nil, nil
			}
		})
		w.start()
		expect := func(want ...string) {
			t.Helper()
			w.plane.set(func() {
				if !slices.Equal(told, want) || beats < 2 {
					t.Errorf("told %q with %d heartbeats, want %q", told, beats, want)
				}
				told, beats = nil, 0
			})
		}
		w.advance(5 * time.Second)
		expect("*actorpb.RegisterAgent a1")
		w.plane.set(func() { holds.Roots = []string{"a1", "b2"} })
		w.advance(5 * time.Second)
		expect("*actorpb.Heartbeat a1 b2")
	})
}

// TestAgentLearnsRevocations (T6) from the answers of its leader, and says which it keeps.
func TestAgentLearnsRevocations(t *testing.T) {
	inWorld(t, func(w *world) {
		kept, err := OpenRevocations(w.cfg.StateDir)
		if err != nil {
			t.Fatal(err)
		}
		w.kill()
		w.cfg.Revocations = kept
		told := actorpb.NewRevocations([]*statepb.Revocation{{Serial: "1a"}})
		said := map[string]bool{}
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				if m, ok := msg.(interface{ GetRevocations() string }); ok {
					said[m.GetRevocations()] = true
				}
				if m, ok := msg.(*actorpb.Heartbeat); ok {
					return &actorpb.HeartbeatAck{Sequence: m.GetSequence(), Term: m.GetTerm(), Revocations: told}, nil
				}
				return nil, nil
			}
		})
		w.start()
		w.advance(5 * time.Second)
		w.plane.set(func() {
			if !said[actorpb.NoRevocations] || !said[told.GetVersion()] || len(said) != 2 {
				t.Errorf("it said it keeps %v", said)
			}
		})
		if next, err := OpenRevocations(w.cfg.StateDir); err != nil || next.Revoked("1a", "replica", "r1", time.Now()) == nil {
			t.Errorf("after the agent learned it, its file does not say so: %v", err)
		}
	})
}
