package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"weir/api/client"
	"weir/cluster/identity"
	"weir/cluster/wire"
	"weir/messages/apipb"
)

// TestRevocation (T6) takes certificates away from a user with an open stream and from an agent with a
// job: both are cut off at every replica, and stay so when the leader is killed. New certificates of
// the same names are accepted, and so are the old ones once the revocation is lifted. What is revoked is
// not renewed.
func TestRevocation(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1", "n2")
	c.startAgent("n1")
	c.startAgent("n2")
	c.ready(t, 2)
	operation := c.start(t, one(small(1, "run", c.folder(t), "1h")))
	c.runs(t, operation, 1)

	// The stream of ann ends.
	ann, err := c.httpClient("user-ann")
	if err != nil {
		t.Fatal(err)
	}
	post := func(replica string) (status int, data []byte, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*answerTime)
		defer cancel()
		return c.post(ctx, "user-ann", replica, "OperationService/List", "{}")
	}
	var stream *http.Response
	until(t, "ann watches", func() string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.replicaURL("r2")+"/weir.api.v1.OperationService/Watch",
			strings.NewReader(`{"operation": "`+operation+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if stream, err = ann.Do(request); err != nil {
			return err.Error()
		}
		return ""
	})
	defer stream.Body.Close()
	c.cli(t, "tls", "revoke", "--role", "user", "--name", "ann", "--reason", "laptop stolen")
	began := time.Now()
	if shown, err := io.ReadAll(stream.Body); err == nil {
		t.Errorf("the stream ended well: %s", shown)
	}
	t.Logf("the stream was cut %s after the revocation", time.Since(began).Round(time.Millisecond))
	for _, replica := range replicaNames {
		until(t, "ann is refused", func() string {
			if status, _, err := post(replica); err == nil {
				return fmt.Sprintf("%s answers ann: %d", replica, status)
			}
			return ""
		})
	}

	// The agent is cut off, and its job runs elsewhere.
	node := c.node("n1")
	where := c.runs(t, operation, 1)[0].GetNode()
	if where == c.node("n2") {
		node = c.node("n2")
	}
	c.cli(t, "tls", "revoke", "--certificate", c.certs("agent-"+node, "tls.crt"))
	agent := strings.TrimPrefix(node, strings.TrimSuffix(c.node("n1"), "n1"))
	c.nodeIs(t, agent, "offline")
	until(t, "the job runs on the other node", func() string {
		for _, job := range c.jobs(t, operation, "running") {
			if job.GetNode() != node {
				return ""
			}
		}
		return "it does not"
	})

	c.process(c.leader(t)).kill()
	if _, _, err := post(live(c)); err == nil {
		t.Error("ann is let in after a failover")
	}
	if list := c.cli(t, "tls", "revoke", "--list"); !strings.Contains(list, "of user ann") || !strings.Contains(list, "laptop stolen") || !strings.Contains(list, "serial ") {
		t.Errorf("the list is\n%s", list)
	}
	if refused := c.refusedTo(t, "operator-admin", live(c), "AccessService/Revoke", `{"role": "operator", "name": "admin"}`); !strings.Contains(refused.Message, "it is the certificate with which you ask") {
		t.Errorf("the operator's own certificate: %v", refused)
	}

	if printed, code := weir(t, "tls", "issue", "--dir", c.certs(), "--role", "user", "--name", "bob", "--validity", "1ns"); code != 0 {
		t.Fatalf("tls issue: exit code %d\n%s", code, printed)
	}
	c.cli(t, "tls", "revoke", "--role", "user", "--name", "bob", "--reason", "left")
	if said := c.cli(t, "tls", "renew", "--dir", c.certs(), c.certs("user-bob")); !strings.Contains(said, "not renewed: user bob: revoked by admin: left") {
		t.Errorf("a new certificate instead of a revoked one: %q", said)
	}
	c.cli(t, "tls", "revoke", "--role", "user", "--name", "bob", "--lift")
	if said := c.cli(t, "tls", "renew", "--dir", c.certs(), c.certs("user-bob")); !strings.Contains(said, "renewed: user bob, valid until") {
		t.Errorf("after the revocation was lifted: %q", said)
	}

	c.cli(t, "tls", "revoke", "--role", "user", "--name", "ann", "--lift")
	until(t, "ann is let in again", func() string {
		status, data, err := post(live(c))
		if err != nil {
			return err.Error()
		}
		if status != 200 {
			return string(data)
		}
		return ""
	})
	c.ask(t, "OperationService/Abort", object{"operation": operation}, &apipb.AbortOperationResponse{})
}

// TestAgentsLearnRevocations (T6) revokes the certificate of the leader that an agent is registered with.
// The agent closes its connection and registers with another replica. Its next process refuses the
// certificate while no other replica runs that could tell it, and with a damaged file of
// revocations it does not start. Once the revocation is lifted it accepts the certificate again.
func TestAgentsLearnRevocations(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	agent := c.startAgent("n1")
	c.ready(t, 1)
	agent.says(t, "msg=registered")
	revoked := c.leader(t)
	certificate := c.certs("replica-"+revoked, "tls.crt")
	began := time.Now()
	c.cli(t, "tls", "revoke", "--certificate", certificate)
	agent.says(t, "/replica/"+revoked+" (")
	t.Logf("the agent left %s %s after the revocation", revoked, time.Since(began).Round(time.Millisecond))
	until(t, "another leads", func() string {
		if leader := c.leader(t); leader == revoked {
			return leader + " leads"
		}
		return ""
	})
	c.nodeIs(t, "n1", "online")
	agent.says(t, "closed: certificate has been revoked")

	others := func(do func(name string)) {
		for _, name := range replicaNames {
			if name != revoked {
				do(name)
			}
		}
	}
	// alone starts the agent while the replica whose certificate is in question is the only one.
	alone := func() *process {
		if err := c.process("n1").stop(); err != nil {
			t.Fatal(err)
		}
		others(func(name string) { c.process(name).kill() })
		return c.startAgent("n1", "--log-level", "debug")
	}
	alone().says(t, "certificate has been revoked")

	file := c.data("n1") + "/revocations.json"
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.process("n1").stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, kept[:len(kept)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	broken := c.startAgent("n1")
	if code := broken.exit(t); code == 0 || !strings.Contains(broken.printed(), "then remove the file and start the agent") {
		t.Errorf("with a damaged file: exit code %d\n%s", code, broken.printed())
	}
	if err := os.WriteFile(file, kept, 0o600); err != nil {
		t.Fatal(err)
	}

	others(func(name string) { c.startReplica(name) })
	c.startAgent("n1")
	c.nodeIs(t, "n1", "online")
	c.cli(t, "tls", "revoke", "--certificate", certificate, "--lift")
	until(t, "the agent keeps no revocation", func() string {
		data, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(data), "serial") {
			return fmt.Sprintf("%s, %v", data, err)
		}
		return ""
	})
	again := alone()
	again.says(t, "it is not the leader")
	if strings.Contains(again.printed(), "certificate has been revoked") {
		t.Errorf("after the revocation was lifted:\n%s", again.printed())
	}
}

// live returns a replica that runs.
func live(c *cluster) string {
	for _, name := range replicaNames {
		if c.lives(name) {
			return name
		}
	}
	return ""
}

// TestRemovedReplicaOpensNoPort (T6) removes a replica whose certificate is valid for a year. The raft
// connection that it has open is cut, and its certificate opens no raft, gossip or actor connection
// at any replica, nor a call of the API. It learns that it was removed, even if it was down
// meanwhile, and can be added again under its name, with the same certificate.
func TestRemovedReplicaOpensNoPort(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here)
	operator := c.operator(t)
	for _, name := range replicaNames {
		c.process(name).says(t, "ready")
	}
	p := c.newReplica(t, "r4")
	p.says(t, "waiting to be added: run weir cluster add r4")
	thief := newThief(t, c.certs("replica-r4"))
	for _, name := range replicaNames {
		thief.isRefused(t, c.addresses[name])
	}
	c.add(t, operator, "r4")
	c.role(t, operator, "r4", "voter")
	p.says(t, "ready")
	var open []net.Conn
	for _, name := range replicaNames {
		until(t, name+" lets r4 in", func() string {
			ctx, cancel := context.WithTimeout(t.Context(), answerTime)
			defer cancel()
			conn, err := thief.dialer.DialRaft(ctx, c.addresses[name])
			if err != nil {
				return err.Error()
			}
			open = append(open, conn)
			return ""
		})
	}

	p.kill()
	c.remove(t, operator, "r4")
	began := time.Now()
	for i, conn := range open {
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection with %s is not cut: %v", replicaNames[i], err)
		}
		_ = conn.Close()
	}
	t.Logf("the connections were cut %s after the removal", time.Since(began).Round(time.Millisecond))
	for _, name := range replicaNames {
		thief.isRefused(t, c.addresses[name])
	}
	again := c.restartNew("r4")
	if code := again.exit(t); code != 12 {
		t.Errorf("r4, which was down when it was removed, ended with exit code %d, want 12\n%s", code, again.printed())
	}
	c.removedStartsFirst(t, operator, thief)

	if err := os.RemoveAll(c.data("r4")); err != nil {
		t.Fatal(err)
	}
	p = c.restartNew("r4")
	p.says(t, "waiting to be added: run weir cluster add r4")
	c.add(t, operator, "r4")
	c.role(t, operator, "r4", "voter")
	p.says(t, "ready")
}

// removedStartsFirst stops the cluster, and starts it again after the removed r4 with its old state. The
// first of the others, which has no leader yet, does not let r4 in. r4 never leads, is in nobody's
// gossip, and learns that it was removed.
func (c *cluster) removedStartsFirst(t *testing.T, operator *client.Client, thief thief) {
	t.Helper()
	for _, name := range replicaNames {
		c.hasBegun(t, name)
	}
	c.stopReplicas(t)
	p := c.restartNew("r4")
	p.says(t, "store open")
	began := time.Now()
	c.startReplica("r1")
	for _, dial := range []func(context.Context, string) (net.Conn, error){thief.dialer.DialRaft, thief.dialer.DialGossip} {
		until(t, "r1 answers r4", func() string {
			ctx, cancel := context.WithTimeout(t.Context(), answerTime)
			defer cancel()
			conn, err := dial(ctx, c.addresses["r1"])
			if err == nil {
				_ = conn.Close()
				// After ten seconds without a leader it may.
				if took := time.Since(began); took < 10*time.Second {
					t.Errorf("r1 lets r4 in %s after its start", took)
				}
				return ""
			}
			if !strings.Contains(err.Error(), "bad certificate") {
				return err.Error()
			}
			return ""
		})
	}
	c.startReplica("r2")
	c.startReplica("r3")
	for _, name := range replicaNames {
		c.process(name).says(t, "ready")
		c.role(t, operator, name, "voter")
	}
	if code := p.exit(t); code != 12 {
		t.Errorf("r4, started before the others, ended with exit code %d, want 12\n%s", code, p.printed())
	}
	if strings.Contains(p.printed(), "became leader") {
		t.Errorf("r4 led:\n%s", p.printed())
	}
	for _, name := range replicaNames {
		if said, joined := c.process(name).printed(), `msg="replica joined" self=`+name+" replica=r"; !strings.Contains(said, joined) || strings.Contains(said, joined+"4") {
			t.Errorf("r4 is in the gossip of %s:\n%s", name, said)
		}
	}
}

// thief has the credentials of a replica.
type thief struct {
	dialer *wire.Dialer
	http   *http.Client
}

func newThief(t *testing.T, folder string) thief {
	t.Helper()
	credentials, err := identity.LoadCredentials(folder)
	if err != nil {
		t.Fatal(err)
	}
	dialer, err := wire.NewDialer(wire.Mutual{Credentials: credentials})
	if err != nil {
		t.Fatal(err)
	}
	made := dialer.HTTPClient(answerTime)
	t.Cleanup(made.CloseIdleConnections)
	return thief{dialer, made}
}

// isRefused waits for a clear answer of each protocol, which has to be no. On a busy machine a
// handshake may take longer than a stranger may take, which is no answer.
func (s thief) isRefused(t *testing.T, address string) {
	t.Helper()
	for protocol, dial := range map[string]func(context.Context, string) (net.Conn, error){"raft": s.dialer.DialRaft, "gossip": s.dialer.DialGossip} {
		until(t, protocol+" is refused at "+address, func() string {
			ctx, cancel := context.WithTimeout(t.Context(), answerTime)
			defer cancel()
			conn, err := dial(ctx, address)
			switch {
			case err == nil:
				_ = conn.Close()
				return "it is let in"
			case !strings.Contains(err.Error(), "bad certificate"):
				return err.Error()
			}
			return ""
		})
	}
	for _, path := range []string{"/weir.remote.v1.Remote/Stream", "/weir.api.v1.ClusterService/Members", "/metrics"} {
		until(t, path+" is refused at "+address, func() string {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.dialer.URL(address)+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			answer, err := s.http.Do(request)
			if err != nil {
				return err.Error()
			}
			defer answer.Body.Close()
			said, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusForbidden || !strings.Contains(string(said), "not a member") {
				return fmt.Sprintf("%s: %s, %v", answer.Status, said, err)
			}
			return ""
		})
	}
}
