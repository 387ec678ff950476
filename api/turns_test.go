package api

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// noTurn is what ann is told when others compute.
const noTurn = "overloaded: 0 calls that compute of user ann in flight on replica r1, with a limit of 1 for each of the present users (1 in all): retry later, or use another replica"

// rival takes the only turn of a site.
func rival(t testing.TB, s *site) *turn {
	other := &turn{door: s.handler.door, of: aUser("mallory"), ctx: t.Context()}
	t.Cleanup(other.rest)
	return other
}

// ofAnn runs an operation op-1 of ann, with a job j1.
func ofAnn(s *site) {
	s.get("OperationService/Start", startBody(1, ""), roleHeader, "client/ann")
	s.leadsTo("op-1", 1, "j1")
}

// TestNoTurnAfterAWait (T5): a call that waited, and meanwhile another one took the only turn for longer than
// calls may last, is refused. It does not compute out of turn.
func TestNoTurnAfterAWait(t *testing.T) {
	for name, test := range map[string]struct{ call, body, in string }{
		"an operation, at the barrier":     {"OperationService/Get", `{"operation": "op-1"}`, "ReadBarrier"},
		"an operation, for its shares":     {"OperationService/Get", `{"operation": "op-1"}`, "SchedulerView"},
		"operations":                       {"OperationService/List", `{}`, "SchedulerView"},
		"a wait":                           {"OperationService/Wait", `{"operation": "op-1"}`, "ReadBarrier"},
		"a change, before it is made":      {"OperationService/Suspend", `{"operation": "op-1"}`, "ReadBarrier"},
		"instances":                        {"OperationService/Instances", `{"operation": "op-1"}`, "Instances"},
		"jobs":                             {"JobService/List", `{"operation": "op-1"}`, "JobLive"},
		"a job":                            {"JobService/Get", `{"job_id": "j1"}`, "JobLive"},
		"the statistics of a job":          {"JobService/Statistics", `{"job_id": "j1"}`, "JobLive"},
		"an output":                        {"JobService/Output", `{"job_id": "j1", "stream": "stdout"}`, "ReadOutput"},
		"an output, for what the job does": {"JobService/Output", `{"job_id": "j1", "stream": "stdout"}`, "JobLive"},
		"a file":                           {"JobService/File", `{"job_id": "j1"}`, "ReadFile"},
		"a command in a job":               {"JobService/Exec", `{"job_id": "j1", "session": "0123456789abcdef", "command": ["ls"]}`, "Exec"},
		"output of a command in a job":     {"JobService/ExecIO", `{"job_id": "j1", "session": "0123456789abcdef", "output_offset": 0, "wait_millis": 9}`, "Exec"},
		"nodes":                            {"NodeService/List", `{}`, "SchedulerView"},
		"a node":                           {"NodeService/Get", `{"node": "n1"}`, "SchedulerView"},
		"a node, for its jobs":             {"NodeService/Get", `{"node": "n1"}`, "JobLive"},
		"pools":                            {"PoolService/List", `{}`, "SchedulerView"},
		"the history of a pool":            {"PoolService/History", `{"pool": "<Root>"}`, "PoolHistory"},
		"a what-if":                        {"TreeService/WhatIf", `{}`, "SchedulerView"},
		"an attribute":                     {"AttributeService/Get", `{"path": "scheduler/pool_trees/default/pools/<Root>"}`, "SchedulerView"},
		"why an operation waits":           {"ExplainService/Explain", `{"operation": "op-1"}`, "SchedulerView"},
		"why a job waits":                  {"ExplainService/Explain", `{"job": "j1"}`, "JobLive"},
		"the status":                       {"ClusterService/Status", `{}`, "ReadBarrier"},
		"the status, for refused agents":   {"ClusterService/Status", `{}`, "SchedulerView"},
		"an upgrade, for its agents":       {"ClusterService/UpgradeStatus", `{}`, "SchedulerView"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newDirectSite(t)
				// Without grants nobody asks for refused agents.
				s.must(&commandpb.EditNodeGrant{Grant: &statepb.NodeGrant{Pattern: "*", Tags: []string{"fast"}}})
				ofAnn(s)
				s.output = func(*actorpb.ReadOutput) (*actorpb.OutputPart, error) { return &actorpb.OutputPart{End: true}, nil }
				s.history.Store(new(func(*actorpb.PoolHistoryRequest) *actorpb.PoolHistory { return nil }))
				other, waited := rival(t, s), false
				s.meanwhile.Store(new(func(request string) {
					if request != test.in {
						return
					}
					waited = true
					if err := other.take(); err != nil {
						t.Error(err)
					}
				}))
				began := time.Now()
				got := s.post(test.call, test.body, roleHeader, "client/ann")
				if !waited {
					t.Fatalf("it did not ask for %s: %d %s", test.in, got.status, got.raw)
				}
				if got.status != http.StatusTooManyRequests || !strings.Contains(got.raw, noTurn) || got.header.Get(apipb.HeaderRetry) == "" {
					t.Errorf("%d %v %s, want %q", got.status, got.header, got.raw, noTurn)
				}
				if took := time.Since(began); took > s.limits.Patience {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestChangeIsAnsweredWithoutATurn (T5): a change that was made, or refused, while another one computed is not said to be overloaded.
func TestChangeIsAnsweredWithoutATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDirectSite(t)
		other := rival(t, s)
		s.after.Store(new(func() {
			if err := other.take(); err != nil {
				t.Error(err)
			}
		}))
		for _, want := range []string{`"operation_id":"op-1"`, `already`} {
			got := s.post("OperationService/Start", startBody(1, `, "alias": "*one"`), roleHeader, "client/ann")
			if !strings.Contains(strings.ReplaceAll(got.raw, " ", ""), want) {
				t.Errorf("%d %s, want %s", got.status, got.raw, want)
			}
			other.rest()
		}
	})
}

// TestNoTurnInAStream (T5) is the same for streams, which wait for changes and for their client. They end, and the
// client continues elsewhere.
func TestNoTurnInAStream(t *testing.T) {
	type stream interface {
		Receive() bool
		Err() error
	}
	watch := func(s *site) (stream, error) {
		return watcher(s).Watch(s.t.Context(), as("client/ann", &apipb.WatchOperationRequest{Operation: "op-1"}))
	}
	instances := func(s *site) (stream, error) {
		return watcher(s).WatchInstances(s.t.Context(), as("client/ann", &apipb.WatchInstancesRequest{Operation: "op-1"}))
	}
	events := func(s *site) (stream, error) {
		return apipbconnect.NewEventServiceClient(s.client, s.url).Read(s.t.Context(), as("client/ann", &apipb.ReadEventsRequest{Follow: true}))
	}
	for name, test := range map[string]struct {
		open func(*site) (stream, error)
		// sends says that the turn is taken while the first message is sent.
		sends bool
	}{
		"an operation that changes": {watch, false},
		"an operation that is sent": {watch, true},
		"instances that change":     {instances, false},
		"instances that are sent":   {instances, true},
		"events that come":          {events, false},
		"events that are sent":      {events, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newDirectSite(t)
				ofAnn(s)
				other := rival(t, s)
				take := func() {
					if err := other.take(); err != nil {
						t.Error(err)
					}
				}
				if test.sends {
					s.client.Transport = direct{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(writing{w, take}, r) })}
				}
				ended := make(chan error)
				go func() {
					got, err := test.open(s)
					for more := err == nil; more; err = got.Err() {
						more = got.Receive()
					}
					ended <- err
				}()
				if !test.sends {
					synctest.Wait()
					take()
					s.must(&commandpb.SuspendOperation{OperationId: "op-1", User: "oda"})
					s.see(&actorpb.Instances{OperationId: "op-1", Version: "v9"})
				}
				if err := <-ended; connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), noTurn) {
					t.Errorf("%v, want %q", err, noTurn)
				}
			})
		})
	}
}

// writing does something before it writes.
type writing struct {
	http.ResponseWriter
	first func()
}

// Write implements io.Writer.
func (w writing) Write(data []byte) (int, error) {
	w.first()
	return w.ResponseWriter.Write(data)
}

// as is a request of an identity.
func as[T any](who string, m *T) *connect.Request[T] {
	req := connect.NewRequest(m)
	req.Header().Set(roleHeader, who)
	return req
}
