package client_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// forwarded is a call as a browser encodes it.
func forwarded(procedure, body string, change ...func(*client.Forwarded)) client.Forwarded {
	f := client.Forwarded{Procedure: procedure, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
	for _, c := range change {
		c(&f)
	}
	return f
}

func changing(f *client.Forwarded) { f.Changes = true }

func streaming(f *client.Forwarded) {
	f.Stream = true
	f.Header.Set("Content-Type", "application/connect+json")
	f.Body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(f.Body))), f.Body...)
}

// forward sends a call, and returns the status and the body of the answer.
func forward(t *testing.T, c *client.Client, f client.Forwarded) (status int, body string, err error) {
	t.Helper()
	answer, err := c.Forward(t.Context(), f)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data), nil
}

func coded(code connect.Code, stable, text string) error {
	err := connect.NewError(code, errors.New(text))
	err.Meta().Set(apipb.HeaderCode, stable)
	return err
}

// TestForward (W2) sends calls that a browser has encoded to replicas that fail and refuse.
func TestForward(t *testing.T) {
	var aborts atomic.Int64
	gets := func(id string) func() (*apipb.Operation, error) {
		return func() (*apipb.Operation, error) { return &apipb.Operation{Id: id}, nil }
	}
	good := serve(t, &fakeReplica{get: gets("op1"), abort: func() error { aborts.Add(1); return nil }})
	stopping := serve(t, &fakeReplica{
		get: func() (*apipb.Operation, error) {
			return nil, coded(connect.CodeUnavailable, apipb.CodeStopping, "stopping")
		},
		abort: func() error { return coded(connect.CodeUnavailable, apipb.CodeNotLeader, "not the leader") },
	})
	refusing := serve(t, &fakeReplica{get: func() (*apipb.Operation, error) {
		return nil, coded(connect.CodePermissionDenied, apipb.CodePermissionDenied, "not yours")
	}})
	unsure := serve(t, &fakeReplica{abort: func() error { return coded(connect.CodeUnavailable, apipb.CodeOutcomeUnknown, "the leader is gone") }})
	large := serve(t, &fakeReplica{get: gets(strings.Repeat("x", 1<<20))})
	const get, abort = apipbconnect.OperationServiceGetProcedure, apipbconnect.OperationServiceAbortProcedure
	dead := deadAddress(t)
	tests := map[string]struct {
		replicas   []string
		call       client.Forwarded
		wantStatus int
		want       string
		wantErr    string
	}{
		"an answer":                         {[]string{good.address}, forwarded(get, `{"operation":"op1"}`), 200, "op1", ""},
		"a larger one than is held":         {[]string{large.address}, forwarded(get, `{"operation":"op1"}`), 200, strings.Repeat("x", 1<<20), ""},
		"a replica that stops":              {[]string{stopping.address, good.address}, forwarded(get, `{"operation":"op1"}`), 200, "op1", ""},
		"a replica that is not there":       {[]string{dead, good.address}, forwarded(get, `{"operation":"op1"}`), 200, "op1", ""},
		"a refusal":                         {[]string{refusing.address, good.address}, forwarded(get, `{"operation":"op1"}`), 403, "not yours", ""},
		"a change at who does not lead":     {[]string{stopping.address, good.address}, forwarded(abort, `{"operation":"op1"}`, changing), 200, "{}", ""},
		"a change at a replica that is not": {[]string{dead, good.address}, forwarded(abort, `{"operation":"op1"}`, changing), 200, "{}", ""},
		"a change in doubt":                 {[]string{unsure.address, good.address}, forwarded(abort, `{"operation":"op1"}`, changing), 0, "", "it may have taken effect anyway"},
		"no replica":                        {[]string{stopping.address}, forwarded(get, `{"operation":"op1"}`), 0, "", "stopping"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			aborts.Store(0)
			adjust := func(cfg *client.Config) {
				if len(test.replicas) == 1 && test.wantErr != "" {
					cfg.Deadline = time.Second
				}
			}
			status, body, err := forward(t, open(t, adjust, test.replicas...), test.call)
			if test.wantErr != "" {
				if !errors.Is(err, client.ErrUnreachable) || !strings.Contains(err.Error(), test.wantErr) || aborts.Load() > 0 {
					t.Errorf("%v after %d changes elsewhere, want …%s…", err, aborts.Load(), test.wantErr)
				}
				return
			}
			if err != nil || status != test.wantStatus || !strings.Contains(body, test.want) {
				t.Errorf("%d %.200s %v, want %d %.200s", status, body, err, test.wantStatus, test.want)
			}
		})
	}
}

// TestForwardToOne (W1) asks one replica alone, also one that the client was not told of.
func TestForwardToOne(t *testing.T) {
	of := func(id string) *fakeReplica {
		return &fakeReplica{get: func() (*apipb.Operation, error) { return &apipb.Operation{Id: id}, nil }}
	}
	first, second := serve(t, of("first")), serve(t, of("second"))
	c := open(t, nil, first.address)
	at := func(address string) client.Forwarded {
		return forwarded(apipbconnect.OperationServiceGetProcedure, `{"operation":"op1"}`, func(f *client.Forwarded) { f.Address = address })
	}
	for _, want := range []struct{ address, id string }{{second.address, "second"}, {first.address, "first"}, {"", "first"}} {
		if status, body, err := forward(t, c, at(want.address)); err != nil || status != 200 || !strings.Contains(body, want.id) {
			t.Errorf("at %q: %d %s %v, want %s", want.address, status, body, err, want.id)
		}
	}
	if _, body, err := forward(t, c, at(deadAddress(t))); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("one that is not there: %s %v", body, err)
	}
}

// TestForwardStreams (W2) opens a stream at a replica that refuses it, and one that begins it.
func TestForwardStreams(t *testing.T) {
	type stream = *connect.ServerStream[apipb.WatchOperationResponse]
	stopping := serve(t, &fakeReplica{watch: func(context.Context, stream) error {
		return coded(connect.CodeUnavailable, apipb.CodeStopping, "stopping")
	}})
	good := serve(t, &fakeReplica{watch: func(_ context.Context, s stream) error {
		return errors.Join(s.Send(&apipb.WatchOperationResponse{Operation: &apipb.Operation{Id: "op1"}}), s.Send(&apipb.WatchOperationResponse{Operation: &apipb.Operation{Id: "op2"}}))
	}})
	refusing := serve(t, &fakeReplica{watch: func(context.Context, stream) error {
		return coded(connect.CodePermissionDenied, "permission_denied", "not yours")
	}})
	call := forwarded(apipbconnect.OperationServiceWatchProcedure, `{"operation":"op1"}`, streaming)
	if status, body, err := forward(t, open(t, nil, stopping.address, good.address), call); err != nil || status != 200 || !strings.Contains(body, "op1") || !strings.Contains(body, "op2") {
		t.Errorf("%d %q %v", status, body, err)
	}
	if status, body, err := forward(t, open(t, nil, refusing.address, good.address), call); err != nil || status != 200 || !strings.Contains(body, "not yours") || strings.Contains(body, "op1") {
		t.Errorf("a refusal: %d %q %v", status, body, err)
	}
}

// TestForwardTellsDeadlines (W2): a replica learns until when an answer is wanted.
func TestForwardTellsDeadlines(t *testing.T) {
	told := make(chan time.Duration, 1)
	replica := serve(t, &fakeReplica{watch: func(ctx context.Context, s *connect.ServerStream[apipb.WatchOperationResponse]) error {
		deadline, _ := ctx.Deadline()
		told <- time.Until(deadline)
		return s.Send(&apipb.WatchOperationResponse{})
	}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := open(t, nil, replica.address).Forward(ctx, forwarded(apipbconnect.OperationServiceWatchProcedure, `{}`, streaming))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if left := <-told; left <= 0 || left > patience {
		t.Errorf("the replica has %v left, want up to %v", left, patience)
	}
}
