package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/raftstore/state"
)

func TestJobState(t *testing.T) {
	for name, test := range map[string]struct {
		job  *apipb.Job
		want string
	}{
		"it runs":               {&apipb.Job{State: "running"}, "running"},
		"it said that it fails": {&apipb.Job{State: "failed", ExitCode: 7, Error: &apipb.Error{Message: "exit code 7"}}, "failed: exit code 7"},
		"it was never a program": {
			&apipb.Job{State: "failed", ExitCode: -1, Error: &apipb.Error{Message: "start /none: no such file or directory"}},
			"failed: start /none: no such file or directory",
		},
		"it is asked to leave": {
			&apipb.Job{State: "running", Stopping: "preemption", Interruption: &apipb.Interruption{Reason: "preemption", AbortReason: "preemption"}}, "running, leaving: preemption",
		},
		"it is killed":                {&apipb.Job{State: "aborting", Stopping: "user_request", Interruption: &apipb.Interruption{AbortReason: "user_request"}}, "aborting, stopping: user_request"},
		"gossip has heard that it is": {&apipb.Job{State: "running", Stopping: "node_drain"}, "running, stopping: node_drain"},
		"it left and is to run again": {&apipb.Job{State: "completed", Rerun: true, FinishTime: timestamppb.Now(), Interruption: &apipb.Interruption{Reason: "preemption"}}, "completed, runs again"},
		"it was aborted":              {&apipb.Job{State: "aborted", AbortReason: "user_request", ExitCode: -1}, "aborted: user_request"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := jobState(test.job); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// oneOperation is a replica that knows one operation.
type oneOperation struct {
	apipbconnect.UnimplementedOperationServiceHandler
}

func (oneOperation) Get(_ context.Context, req *connect.Request[apipb.GetOperationRequest]) (*connect.Response[apipb.GetOperationResponse], error) {
	if req.Msg.GetOperation() != "op-1" {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such operation"))
	}
	return connect.NewResponse(&apipb.GetOperationResponse{Operation: &apipb.Operation{Id: "op-1"}}), nil
}

// oneJob is a replica that knows one job.
type oneJob struct {
	apipbconnect.UnimplementedJobServiceHandler
}

func (oneJob) Get(_ context.Context, req *connect.Request[apipb.GetJobRequest]) (*connect.Response[apipb.GetJobResponse], error) {
	if req.Msg.GetJobId() != "job-1" {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such job"))
	}
	return connect.NewResponse(&apipb.GetJobResponse{Job: &apipb.Job{Id: "job-1"}}), nil
}

// newFewSession is a session with a replica that knows one operation and one job.
func newFewSession(t *testing.T) *session {
	t.Helper()
	routes := http.NewServeMux()
	routes.Handle(apipbconnect.NewOperationServiceHandler(oneOperation{}))
	routes.Handle(apipbconnect.NewJobServiceHandler(oneJob{}))
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{
		Addresses: []string{server.Listener.Addr().String()}, HTTP: server.Client(), URL: func(address string) string { return "http://" + address },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &session{Client: c}
}

// TestOperationIsNotTakenForAJob without a word.
func TestOperationIsNotTakenForAJob(t *testing.T) {
	s := newFewSession(t)
	none := &client.Error{What: "job output", Code: apipb.CodeNoSuchJob, Message: "not found: never granted"}
	for name, test := range map[string]struct {
		id   string
		err  error
		want string
	}{
		"an operation":    {"op-1", none, "op-1 is an operation: weir job list op-1 lists its jobs"},
		"nothing":         {"x", none, "not found: never granted"},
		"another failure": {"op-1", errors.New("broken"), "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := unknownJob(t.Context(), s, test.id, test.err); got == nil || !strings.HasSuffix(got.Error(), test.want) {
				t.Errorf("got %v, want %q", got, test.want)
			}
		})
	}
	if err := unknownJob(t.Context(), s, "op-1", nil); err != nil {
		t.Error(err)
	}
}

// TestExplainedElsewhere asks for an operation as for a job, and the other way round.
func TestExplainedElsewhere(t *testing.T) {
	s := newFewSession(t)
	noJob := &client.Error{What: "explain", Code: apipb.CodeNoSuchJob, Message: "not found: never granted"}
	noOperation := &client.Error{What: "explain", Code: state.CodeUnknownOperation, Message: "operation not found"}
	for name, test := range map[string]struct {
		id   string
		err  error
		want string
	}{
		"an operation for a job": {"op-1", noJob, "op-1 is an operation: weir explain op op-1"},
		"a job for an operation": {"job-1", noOperation, "job-1 is a job: weir explain job job-1"},
		"no job":                 {"x", noJob, "not found: never granted"},
		"no operation":           {"x", noOperation, "operation not found"},
		"another failure":        {"op-1", errors.New("broken"), "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := explainedElsewhere(t.Context(), s, test.id, test.err); got == nil || !strings.HasSuffix(got.Error(), test.want) {
				t.Errorf("got %v, want %q", got, test.want)
			}
		})
	}
}
