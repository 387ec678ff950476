package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// TestRotation (T6) replaces the authority and the gossip key of a cluster that works: three replicas, and four agents
// of which one has a copy of its folder, as on another machine. Each step is refused until that agent has what the
// step before has changed, and names it. All the while a client that was there before starts short operations, and
// long jobs run: no operation fails, no job is aborted, and replicas can read each other. In the end certificates of
// the old authority open nothing, and a replica that is restarted is one of the cluster.
func TestRotation(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1", "n2", "n3", "n4")
	near, far := c.certs("agent-"+c.node("n2")), filepath.Join(c.dir, "far")
	if err := os.CopyFS(far, os.DirFS(near)); err != nil {
		t.Fatal(err)
	}
	for _, agent := range []string{"n1", "n3", "n4"} {
		c.startAgent(agent)
	}
	c.startAgent("n2", "--credentials", far)
	c.ready(t, 4)
	long := c.start(t, one(small(4, "run", c.folder(t), "1h")))
	before, term := c.runs(t, long, 4), c.term(t)
	var short sync.WaitGroup
	done, stop := context.WithCancel(t.Context())
	defer stop()
	completed := c.keepStarting(done, t, &short)

	steps := []string{"start", "switch", "finish"}
	for i, step := range steps {
		c.rotate(t, step)
		c.takeUp(t, "r1", "r2", "r3", "n1", "n3", "n4")
		if step == "start" {
			// What a thief has, who trusts both authorities but has certificates of the old one.
			for _, name := range []string{"replica-r1", "user-ann"} {
				if err := os.CopyFS(c.certs("old", name), os.DirFS(c.certs(name))); err != nil {
					t.Fatal(err)
				}
			}
		}
		if step != "finish" {
			c.waitsForOne(t, steps[i+1], "agent "+c.node("n2"))
		}
		for _, file := range []string{"ca.crt", "tls.crt"} {
			content, err := os.ReadFile(filepath.Join(near, file))
			if err = errors.Join(err, os.WriteFile(filepath.Join(far, file), content, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		c.takeUp(t, "n2")
	}
	until(t, "the rotation is over", func() string {
		if status := c.health(t); strings.Contains(status, "being replaced") {
			return status
		}
		return ""
	})
	c.oldOpensNothing(t)

	stop()
	short.Wait()
	t.Logf("%d short operations completed meanwhile; term %d, then %d", completed(), term, c.term(t))
	if completed() == 0 {
		t.Error("no short operation was started")
	}
	if progress := c.get(t, long).GetProgress(); progress.GetAborted() != 0 || progress.GetFailed() != 0 || progress.GetRunning() != 4 {
		t.Errorf("the long jobs: %v", progress)
	}
	for _, job := range before {
		if now := c.job(t, job.GetId()); now.GetState() != "running" || now.GetPid() != job.GetPid() {
			t.Errorf("a long job was %v and is %v", job, now)
		}
	}
	// One that is short of processors is thought dead for a moment; one whose words nobody can read is a fault of the rotation.
	for _, name := range replicaNames {
		if said := c.process(name).printed(); strings.Contains(said, "Decrypt packet failed") || strings.Contains(said, "node lost") {
			t.Errorf("%s could not read what another said, or lost a node:\n%s", name, said)
		}
	}

	// One that has only the next key hears the others, so these have taken it up.
	if err := c.process("r3").stop(); err != nil {
		t.Fatal(err)
	}
	again := c.startReplica("r3")
	again.says(t, "ready")
	for _, other := range []string{"r1", "r2"} {
		again.says(t, `msg="replica joined" self=r3 replica=`+other)
	}
}

// rotate does a step of a rotation, as soon as nothing holds it up.
func (c *cluster) rotate(t *testing.T, step string) {
	t.Helper()
	if step == "start" {
		if printed, code := weir(t, "tls", "rotate", step, "--dir", c.certs()); code != 0 {
			t.Fatalf("rotate %s: exit code %d\n%s", step, code, printed)
		}
		return
	}
	until(t, "rotate "+step, func() string {
		if printed, code := c.verb(t, "tls", "rotate", step, "--dir", c.certs()); code != 0 {
			return printed
		}
		return ""
	})
}

// takeUp has processes read their credentials again, and this one too.
func (c *cluster) takeUp(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := c.process(name).cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = map[string]*http.Client{}
}

// waitsForOne waits until a step of a rotation is held up by one process alone, which weir status names too.
func (c *cluster) waitsForOne(t *testing.T, step, process string) {
	t.Helper()
	until(t, step+" waits for "+process+" alone", func() string {
		printed, code := c.verb(t, "tls", "rotate", step, "--dir", c.certs())
		if code == 0 {
			t.Fatalf("rotate %s cuts %s off:\n%s", step, process, printed)
		}
		for _, other := range []string{"replica r1", "replica r2", "replica r3", "agent " + c.node("n1"), "agent " + c.node("n3"), "agent " + c.node("n4"), "has not answered"} {
			if strings.Contains(printed, other) {
				return printed
			}
		}
		if !strings.Contains(printed, process+" ") {
			return printed
		}
		return ""
	})
	until(t, "the status tells so", func() string {
		// The leader, which knows of agents, may not have answered in time.
		if status := c.health(t); !strings.Contains(status, "the authority is being replaced by") || !strings.Contains(status, process) {
			return status
		}
		return ""
	})
}

// keepStarting starts short operations, one after the other, until ctx is done, with a client that reads its
// credentials at the start. It returns how many have completed, none of them with an aborted job.
func (c *cluster) keepStarting(ctx context.Context, t *testing.T, running *sync.WaitGroup) (completed func() int) {
	t.Helper()
	users, count := c.operator(t), 0
	spec := options(t, map[string]any{"tasks": map[string]any{"t": map[string]any{"job_count": 2, "command": []any{"true"}, "cpu_limit": 0.1, "memory_limit": "16MiB"}}})
	running.Go(func() {
		for ctx.Err() == nil {
			started, err := users.StartOperation(t.Context(), &apipb.StartRequest{MutationId: uuid.NewString(), Spec: spec})
			if err != nil {
				t.Errorf("short operation %d: %v", count, err)
				return
			}
			op, err := users.WaitOperation(t.Context(), started.GetOperationId())
			if p := op.GetProgress(); err != nil || op.GetState() != lifecycle.Completed.String() || p.GetAborted() != 0 || p.GetFailed() != 0 || p.GetCompleted() != 2 {
				t.Errorf("short operation %d: %v, %v", count, op, err)
				return
			}
			count++
		}
	})
	return func() int { running.Wait(); return count }
}

// oldOpensNothing tries certificates of the old authority at every replica, with clients that trust the next one.
func (c *cluster) oldOpensNothing(t *testing.T) {
	t.Helper()
	thief := newThief(t, c.certs("old", "replica-r1"))
	for _, name := range replicaNames {
		for protocol, dial := range map[string]func(context.Context, string) (net.Conn, error){"raft": thief.dialer.DialRaft, "gossip": thief.dialer.DialGossip} {
			until(t, protocol+" is refused at "+name, func() string {
				ctx, cancel := context.WithTimeout(t.Context(), answerTime)
				defer cancel()
				conn, err := dial(ctx, c.addresses[name])
				if err == nil {
					_ = conn.Close()
					return "it is let in"
				}
				if !strings.Contains(err.Error(), "bad certificate") {
					return err.Error()
				}
				return ""
			})
		}
		until(t, "a call of the old user is refused at "+name, func() string {
			ctx, cancel := context.WithTimeout(t.Context(), 2*answerTime)
			defer cancel()
			status, answer, err := c.post(ctx, "old/user-ann", name, "OperationService/List", "{}")
			switch {
			case err == nil:
				return fmt.Sprint(status, string(answer))
			case !strings.Contains(err.Error(), "bad certificate"):
				return err.Error()
			}
			return ""
		})
	}
}
