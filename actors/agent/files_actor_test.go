package agent

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
)

// asksFor has jobs find these files in their workspaces.
func (w *world) asksFor(files ...*actorpb.JobFile) {
	w.specced(func(spec *actorpb.JobSpec) { spec.Files = files })
}

func TestAgentPlacesFiles(t *testing.T) {
	source := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(source, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inWorld(t, func(w *world) {
		w.asksFor(&actorpb.JobFile{Source: source, Path: "bin/tool", Executable: true}, &actorpb.JobFile{Source: source, Path: "data"})
		w.send(plan(3, 7, granted("j", 9)))
		for path, mode := range map[string]os.FileMode{"bin/tool": 0o555, "data": 0o444} {
			info, err := os.Stat(filepath.Join(w.machine.workspaces, "j", path))
			if err != nil || info.Mode() != mode || info.Size() != 10 {
				t.Errorf("%s is %v, %v; want mode %v", path, info, err, mode)
			}
		}
		w.exit("j", 0)
		w.want("j:completed")
		if s := w.agent.Stats().Files; s.Files != 1 || s.Bytes != 10 || s.Limit != 10<<30 {
			t.Errorf("files %+v", s)
		}
		if left, err := os.ReadDir(folder{path: w.cfg.StateDir}.placing("")); err != nil || len(left) > 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	})
}

func TestAgentMakesRoomOnAFullDisk(t *testing.T) {
	source := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(source, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	inWorld(t, func(w *world) {
		w.asksFor(&actorpb.JobFile{Source: source, Path: "data"})
		w.send(plan(3, 7, granted("j", 9)))
		w.exit("j", 0)
		w.advance(10 * time.Second)
		if files := w.agent.Stats().Files; files.Files != 1 {
			t.Errorf("files %+v", files)
		}
		w.kill()
		// No disk has so much.
		w.cfg.MinFree = 1 << 60
		w.start()
		w.advance(2 * spacePeriod)
		if files := w.agent.Stats().Files; files.Files != 0 || files.Evicted != 1 || w.logs.count("file cache freed space") != 1 {
			t.Errorf("files %+v, logs %v", files, w.logs.text)
		}
	})
}

func TestAgentSaysWhichFileCannotBeHad(t *testing.T) {
	inWorld(t, func(w *world) {
		w.asksFor(&actorpb.JobFile{Source: "/no/such/file", Path: "data"})
		w.send(plan(3, 7, granted("j", 9)))
		w.want("j:failed")
		if m := w.result("j").GetJob().GetError().GetMessage(); !strings.Contains(m, `place file "data": /no/such/file: file unavailable: no such file or directory`) {
			t.Errorf("error %q", m)
		}
		if w.starts("j") != 0 {
			t.Error("it was started all the same")
		}
	})
}

// TestAgentRemovesTheFilesOfAJobThatDoesNotStart, whatever the start failed of.
func TestAgentRemovesTheFilesOfAJobThatDoesNotStart(t *testing.T) {
	source := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(source, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	inWorld(t, func(w *world) {
		w.asksFor(&actorpb.JobFile{Source: source, Path: "data"})
		w.machine.set(func() { w.machine.failure = unix.EIO })
		w.send(plan(3, 7, granted("j", 9)))
		w.advance(10 * time.Second)
		w.want("j:aborted:job_proxy_failed")
		if left, err := os.ReadDir(folder{path: w.cfg.StateDir}.placing("")); err != nil || len(left) > 0 || w.starts("j") != 1 {
			t.Errorf("left are %v, %v after %d starts", left, err, w.starts("j"))
		}
	})
}

// TestAgentEndsTheFetchingOfAJobThatIsAborted runs in real time: its server is real.
func TestAgentEndsTheFetchingOfAJobThatIsAborted(t *testing.T) {
	asked, left := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.(http.Flusher).Flush()
		close(asked)
		<-r.Context().Done()
		close(left)
	}))
	defer server.Close()
	w := &world{
		t: t, system: quietSystem(), plane: &plane{term: 3, phases: map[string][]string{}}, logs: &logs{},
		machine: &machine{},
	}
	w.cfg = testConfig(t.TempDir(), w.logs)
	w.asksFor(&actorpb.JobFile{Source: server.URL + "/f", Path: "data"})
	life := make(chan uint64, 1)
	answer := w.plane.answer
	w.plane.answer = func(replica string, msg proto.Message) (proto.Message, error) {
		switch m := msg.(type) {
		case *actorpb.RegisterAgent:
			return &actorpb.AgentRegistered{Term: 3, Leader: "r1", LeaseMillis: longLease.Milliseconds(), HeartbeatMillis: 100,
				Replicas: []*actorpb.Replica{{Id: "r1", Address: "r1:1"}, {Id: "r2", Address: "r2:1"}}}, nil
		case *actorpb.Heartbeat:
			select {
			case life <- m.GetIncarnation():
			default:
			}
		}
		return answer(replica, msg)
	}
	w.start()
	of := <-life
	send := func(msg *actorpb.NodePlan) {
		w.system.Root.Send(w.agent.PID(), &remote.Inbound{From: identity.Identity{Role: identity.Replica, Name: "r1"}, Message: msg})
	}
	send(plan(3, 7, granted("j", of)))
	<-asked
	send(plan(3, 8, abort("j", "user_request", 0)))
	<-left
	deadline, tick := time.After(patience), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for w.results() != "j:aborted:user_request" {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("results %q", w.results())
		}
	}
	// It writes down whom it knows beside all that, in a folder that is removed next.
	awaitPath(t, folder{path: w.cfg.StateDir}.replicasFile(), true)
	if err := w.agent.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAgentStartsNoDeniedJob (T2): a job whose user may not run it as its account is aborted with the reason, so that
// another one can start once it may; also if there is something that could be run.
func TestAgentStartsNoDeniedJob(t *testing.T) {
	inWorld(t, func(w *world) {
		w.specced(func(spec *actorpb.JobSpec) { spec.Denied = "user x needs a grant" })
		w.send(plan(3, 7, granted("j", 9)))
		w.advance(time.Second)
		w.want("j:aborted:get_spec_failed")
		if w.starts("j") != 0 {
			t.Error("the job was started")
		}
		if m := w.result("j").GetJob().GetError().GetMessage(); !strings.Contains(m, "user x needs a grant") {
			t.Errorf("error %q", m)
		}
	})
}
