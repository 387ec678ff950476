package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// procedures returns every call that the API has, as service/method.
func procedures() []string {
	var all []string
	for procedure := range knownProcedures() {
		all = append(all, strings.TrimPrefix(procedure, "/weir.api.v1."))
	}
	slices.Sort(all)
	return all
}

func TestRoles(t *testing.T) {
	s := newSite(t)
	for _, role := range []string{"operator", "agent", "replica", "gateway"} {
		for _, procedure := range procedures() {
			wantDenied := role != "operator"
			body := "{}"
			switch {
			case knownProcedures()["/weir.api.v1."+procedure].streams:
				// They stream, and refuse in the stream; see TestWatchIsGuarded.
				continue
			case procedure == "ClusterService/Join":
				// Replicas alone make it, for themselves.
				wantDenied, body = role != "replica", `{"id": "x"}`
			}
			got := s.post(procedure, body, roleHeader, role+"/x")
			if denied := got.header.Get(apipb.HeaderCode) == "permission_denied"; denied != wantDenied {
				t.Errorf("%s as %s: denied %t, want %t: %s", procedure, role, denied, wantDenied, got.raw)
			}
			if wantDenied && got.status != http.StatusForbidden {
				t.Errorf("%s as %s: status %d", procedure, role, got.status)
			}
		}
	}
}

func TestWhoCannotSayWhoTheyAre(t *testing.T) {
	s := newSite(t)
	got := s.post("OperationService/List", "{}", roleHeader, "nobody")
	if got.status != http.StatusUnauthorized || at(t, got.fields, "code") != "unauthenticated" {
		t.Errorf("%d %s", got.status, got.raw)
	}
}

func TestUserIsTheNameInTheCertificate(t *testing.T) {
	s := newSite(t)
	id := at(t, s.get("OperationService/Start", startBody(1, ""), roleHeader, "user/ann"), "operation_id")
	want(t, s.get("OperationService/Get", `{"operation": "`+id.(string)+`"}`), "ann", "operation", "user")
}

func TestOverloadIsRefused(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.Calls, l.QueueTime = 1, time.Millisecond })
	hold := make(chan struct{})
	s.hold.Store(&hold)
	first := make(chan reply, 1)
	go func() { first <- s.post("OperationService/List", "{}") }()
	eventually(t, func() bool { return s.held.Load() == 1 })
	got := s.post("OperationService/List", "{}")
	if got.status != http.StatusTooManyRequests || got.header.Get(apipb.HeaderCode) != "overloaded" || got.header.Get(apipb.HeaderRetry) != "200" {
		t.Errorf("second call: %d %v %s", got.status, got.header, got.raw)
	}
	if want := "1 calls of operator oda in flight on replica r1, with a limit of 1"; !strings.Contains(got.raw, want) {
		t.Errorf("second call: %s, want %q", got.raw, want)
	}
	s.hold.Store(nil)
	close(hold)
	if got := <-first; got.status != http.StatusOK {
		t.Errorf("first call: %d %s", got.status, got.raw)
	}
	s.get("OperationService/List", "{}")
}

func TestEveryLimitIsNeeded(t *testing.T) {
	for name, spoil := range map[string]func(*Limits){
		"calls": func(l *Limits) { l.Calls = 0 }, "watches": func(l *Limits) { l.Watches = -1 },
		"outputs": func(l *Limits) { l.Outputs = 0 }, "queue_time": func(l *Limits) { l.QueueTime = 0 },
		"message_bytes": func(l *Limits) { l.MessageBytes = 0 }, "answer_bytes": func(l *Limits) { l.AnswerBytes = 0 }, "patience": func(l *Limits) { l.Patience = 0 },
		"max_wait": func(l *Limits) { l.MaxWait = 0 }, "keep_alive": func(l *Limits) { l.KeepAlive = 0 }, "retry_after": func(l *Limits) { l.RetryAfter = 0 },
	} {
		l := DefaultLimits()
		spoil(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := NewHandler(Config{Limits: DefaultLimits()}); err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("empty configuration: error %v", err)
	}
}

// The same handlers speak the other protocols.
func TestProtocols(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for name, options := range map[string][]connect.ClientOption{
		"connect": nil, "connect with JSON": {connect.WithProtoJSON()}, "gRPC-web": {connect.WithGRPCWeb()},
	} {
		t.Run(name, func(t *testing.T) {
			client := apipbconnect.NewPoolServiceClient(s.client, s.url, options...)
			got, err := client.Get(ctx, connect.NewRequest(&apipb.GetPoolRequest{Name: "default"}))
			if err != nil || got.Msg.GetPool().GetEffectiveWeight() != 1 {
				t.Errorf("%v, %v", got, err)
			}
			_, err = client.Get(ctx, connect.NewRequest(&apipb.GetPoolRequest{Name: "nowhere"}))
			var refused *connect.Error
			if !errors.As(err, &refused) || refused.Code() != connect.CodeNotFound || refused.Meta().Get(apipb.HeaderCode) != "unknown_pool" {
				t.Errorf("refused with %v", err)
			}
		})
	}
}
