package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/cluster"
	"weir/cluster/identity"
	"weir/cluster/vault"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// site is the API of a replica, reached over HTTP.
type site struct {
	*replicaFake
	handler *Handler
	url     string
	client  *http.Client
	limits  Limits
	// health is what the replica says of itself; nil: nothing.
	health atomic.Pointer[Health]
	// ended counts calls by procedure and code.
	ended endedCalls
	vault *vault.Vault
	// audited are the lines of the audit log.
	audited auditFake
}

type endedCalls struct {
	mu    sync.Mutex
	calls map[string]int
}

func (e *endedCalls) observe(procedure, code string, _ time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls == nil {
		e.calls = map[string]int{}
	}
	e.calls[procedure+" "+code]++
}

func (e *endedCalls) of(procedure, code string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[procedure+" "+code]
}

// roleHeader has the role and name of who calls in a test.
const roleHeader = "Test-Identity"

func newSite(t testing.TB, change ...func(*Limits)) *site {
	s := newDirectSite(t, change...)
	server := httptest.NewServer(s.handler)
	s.url, s.client = server.URL, server.Client()
	t.Cleanup(func() {
		s.handler.Close()
		s.client.CloseIdleConnections()
		server.Close()
	})
	return s
}

// newDirectSite is a site without a network: its client calls the handler, and has an answer once that is whole.
func newDirectSite(t testing.TB, change ...func(*Limits)) *site {
	s := &site{replicaFake: newReplica(t), limits: DefaultLimits()}
	// Nothing is told but what has happened, however slow the machine is.
	s.limits.KeepAlive = time.Hour
	// A call that waits and does not rest holds up all others.
	s.limits.Computing = 1
	for _, c := range change {
		c(&s.limits)
	}
	var peers cluster.Peers
	for _, id := range replicaIDs {
		peers = append(peers, cluster.Peer{ID: scheduling.ReplicaID(id), Address: id + ".example:7701"})
	}
	directory := cluster.NewDirectory(peers, s.replicaFake)
	sealer, err := vault.New(make([]byte, vault.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	s.vault = sealer
	var ids atomic.Int64
	handler, err := NewHandler(Config{
		Replica: "r1", Cluster: "c1", Version: "v2", Store: s.replicaFake, Log: s.replicaFake, Leader: s.replicaFake, Objects: s.replicaFake, Signals: s.replicaFake, Events: s.events, Audit: &s.audited,
		Directory: directory, IdentityOf: identityOf, Vault: sealer, NewID: func() string { return fmt.Sprintf("op-%d", ids.Add(1)) },
		Now: time.Now, Observe: s.ended.observe, Health: s.healthNow, Limits: s.limits, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.handler, s.url, s.client = handler, "http://r1.example", &http.Client{Transport: direct{handler}}
	t.Cleanup(func() {
		handler.Close()
		directory.Close()
		for _, e := range []*entrance{handler.door.large, handler.door.leader, handler.door.parts, handler.door.turns} {
			if taken, waiting := e.count(); taken+waiting > 0 {
				t.Errorf("%d places for %s are taken and %d calls wait though all have ended", taken, e.kind, waiting)
			}
		}
	})
	return s
}

// direct carries requests to a handler.
type direct struct{ to http.Handler }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	d.to.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// healthNow is well unless the test says otherwise.
func (s *site) healthNow() Health {
	if health := s.health.Load(); health != nil {
		return *health
	}
	return Health{}
}

// identityOf says what the header says; operator "oda" when it says nothing.
func identityOf(r *http.Request) (identity.Identity, error) {
	said := r.Header.Get(roleHeader)
	if said == "" {
		said = "operator/oda"
	}
	roleName, name, _ := strings.Cut(said, "/")
	role, err := identity.ParseRole(roleName)
	return identity.Identity{Cluster: "c1", Role: role, Name: name}, err
}

// run starts an operation of jobs on an online node n1 and leads it to running; it
// returns its id. The named jobs run.
func (s *site) run(count int, jobs ...string) (operation string) {
	s.t.Helper()
	return s.runAs(startBody(count, ""), count, jobs...)
}

// runAs does that with an operation of a description of its own, with a task t.
func (s *site) runAs(body string, count int, jobs ...string) (operation string) {
	s.t.Helper()
	operation = at(s.t, s.get("OperationService/Start", body), "operation_id").(string)
	s.leadsTo(operation, count, jobs...)
	return operation
}

// leadsTo leads an operation that was started, of jobs of a task t, to running, and has the
// named jobs run.
func (s *site) leadsTo(operation string, count int, jobs ...string) {
	s.t.Helper()
	size := &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1 << 20}
	s.must(
		&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
			Id: "n1", Incarnation: 1, Version: "v2", Tags: []string{"fast"}, Resources: &statepb.Resources{UserSlots: 10, CpuHundredths: 1000, Memory: 1 << 30},
		}},
		&commandpb.AdvanceOperation{OperationId: operation, Term: 1, From: "starting", To: "waiting_for_agent"},
		&commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{{OperationId: operation, Replica: "r1", Epoch: 1}}},
		&commandpb.PrepareOperation{OperationId: operation, Epoch: 1},
		&commandpb.AdvanceOperation{OperationId: operation, Term: 1, From: "pending", To: "materializing", Trees: []string{"default"}},
		&commandpb.DefineTasks{OperationId: operation, Epoch: 1, Tasks: []*commandpb.TaskDefinition{{
			Name: "t", JobCount: int32(count), JobResources: size,
			Memory: &statepb.TaskMemory{Profile: "ads/nightly", Reserve: &statepb.JobReserve{User: size.GetMemory()}},
		}}},
	)
	s.grants(operation, jobs...)
}

// grants has the named jobs of a task t run.
func (s *site) grants(operation string, jobs ...string) {
	s.t.Helper()
	grants := &commandpb.StartAllocations{Term: 1}
	for _, job := range jobs {
		grants.Grants = append(grants.Grants, &commandpb.Grant{
			JobId: job, OperationId: operation, Task: "t", Node: "n1", NodeIncarnation: 1,
			Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1 << 20},
		})
	}
	s.must(grants)
}

// finish ends a job.
func (s *site) finish(operation, job, state string) {
	s.t.Helper()
	s.must(&commandpb.FinishJobs{OperationId: operation, Epoch: 1, Jobs: []*statepb.FinishedJob{{
		JobId: job, State: state, ExitCode: 3, Pid: 42, Statistics: &statepb.JobStatistics{MaxMemory: 77, CpuUserMicros: 1500000},
	}}})
}
