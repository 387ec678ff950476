package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/client"
	"weir/messages/apipb"
)

func TestCallGoesOnWhen(t *testing.T) {
	good := func(t *testing.T) *fakeReplica {
		return serve(t, &fakeReplica{start: func(*apipb.StartRequest) (*apipb.StartResponse, error) {
			return &apipb.StartResponse{OperationId: "op"}, nil
		}})
	}
	failing := func(t *testing.T, err error) *fakeReplica {
		return serve(t, &fakeReplica{start: func(*apipb.StartRequest) (*apipb.StartResponse, error) { return nil, err }})
	}
	tests := map[string]func(t *testing.T, good string) (addresses []string){
		"the first replica is dead":   func(t *testing.T, good string) []string { return []string{deadAddress(t), good} },
		"the first replica is frozen": func(t *testing.T, good string) []string { return []string{frozenAddress(t), good} },
		"the first replica has no quorum": func(t *testing.T, good string) []string {
			return []string{failing(t, unavailable("")).address, good}
		},
		"the leader is known by a hint alone": func(t *testing.T, good string) []string {
			return []string{failing(t, unavailable(good)).address}
		},
		"hints keep pointing at a dead leader": func(t *testing.T, good string) []string {
			dead := deadAddress(t)
			return []string{dead, failing(t, unavailable(dead)).address, good}
		},
		"hints keep pointing at a frozen leader": func(t *testing.T, good string) []string {
			frozen := frozenAddress(t)
			return []string{frozen, failing(t, unavailable(frozen)).address, good}
		},
		"hints keep pointing at a leader without quorum": func(t *testing.T, good string) []string {
			var leader *fakeReplica
			leader = serve(t, &fakeReplica{start: func(*apipb.StartRequest) (*apipb.StartResponse, error) {
				return nil, unavailable(leader.address)
			}})
			return []string{leader.address, failing(t, unavailable(leader.address)).address, good}
		},
		"a hint is no address": func(t *testing.T, good string) []string {
			return []string{failing(t, unavailable("nowhere")).address, good}
		},
		"a replica turns the call away": func(t *testing.T, good string) []string {
			return []string{failing(t, overloaded(time.Millisecond)).address, good}
		},
	}
	for name, addresses := range tests {
		t.Run(name, func(t *testing.T) {
			last := good(t)
			c := open(t, hasty, addresses(t, last.address)...)
			got, err := c.StartOperation(t.Context(), &apipb.StartRequest{Spec: &structpb.Struct{}})
			if err != nil || got.GetOperationId() != "op" {
				t.Fatalf("start = %v, %v; want op", got, err)
			}
		})
	}
}

func TestEveryTryCarriesTheSameMutation(t *testing.T) {
	tests := map[string]struct {
		request *apipb.StartRequest
		want    func(id string) bool
	}{
		"one is made up": {&apipb.StartRequest{Spec: &structpb.Struct{}}, func(id string) bool { return id != "" }},
		"the caller's":   {&apipb.StartRequest{Spec: &structpb.Struct{}, MutationId: "mine"}, func(id string) bool { return id == "mine" }},
		"the spec's is left to the replica": {&apipb.StartRequest{Spec: &structpb.Struct{Fields: map[string]*structpb.Value{
			"mutation_id": structpb.NewStringValue("the spec's"),
		}}}, func(id string) bool { return id == "" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			asked := 0
			r := serve(t, &fakeReplica{start: func(*apipb.StartRequest) (*apipb.StartResponse, error) {
				if asked++; asked < 4 {
					return nil, unavailable("")
				}
				return &apipb.StartResponse{OperationId: "op"}, nil
			}})
			if _, err := open(t, nil, r.address).StartOperation(t.Context(), test.request); err != nil {
				t.Fatal(err)
			}
			if len(r.mutations) != 4 || len(slices.Compact(r.mutations)) != 1 || !test.want(r.mutations[0]) {
				t.Fatalf("mutation ids = %q", r.mutations)
			}
		})
	}
}

func TestRefusalsAreNotTriedAgain(t *testing.T) {
	tests := map[string]struct {
		err      *connect.Error
		wantCode string
	}{
		"invalid":                     {refuse(connect.CodeInvalidArgument, "invalid_spec", "no"), "invalid_spec"},
		"not found":                   {refuse(connect.CodeNotFound, "unknown_pool", "no"), "unknown_pool"},
		"already there":               {refuse(connect.CodeAlreadyExists, "duplicate_alias", "no"), "duplicate_alias"},
		"precondition":                {refuse(connect.CodeFailedPrecondition, "pool_full", "no"), "pool_full"},
		"not permitted":               {refuse(connect.CodePermissionDenied, "permission_denied", "no"), "permission_denied"},
		"aborted":                     {refuse(connect.CodeAborted, "revision_mismatch", "no"), "revision_mismatch"},
		"who are you":                 {connect.NewError(connect.CodeUnauthenticated, errors.New("no")), "unauthenticated"},
		"unknown, said by a replica":  {connect.NewError(connect.CodeUnknown, errors.New("no")), "unknown"},
		"internal, said by a replica": {connect.NewError(connect.CodeInternal, errors.New("no")), "internal"},
		"larger than a limit":         {connect.NewError(connect.CodeResourceExhausted, errors.New("no")), "resource_exhausted"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := serve(t, &fakeReplica{start: func(*apipb.StartRequest) (*apipb.StartResponse, error) { return nil, test.err }})
			_, err := open(t, nil, r.address).StartOperation(t.Context(), &apipb.StartRequest{})
			var refused *client.Error
			if !errors.As(err, &refused) || refused.Code != test.wantCode || refused.Kind != test.err.Code() || refused.Replica != r.address {
				t.Fatalf("error = %#v; want code %s of %s", err, test.wantCode, r.address)
			}
			if err.Error() != "start operation: no" {
				t.Errorf("message = %q", err)
			}
			if len(r.mutations) != 1 {
				t.Errorf("asked %d times; want 1", len(r.mutations))
			}
		})
	}
}

func TestRequestsThatCannotBeSentAreRefused(t *testing.T) {
	_, err := open(t, nil, deadAddress(t)).GetOperation(t.Context(), "\xff")
	if client.CodeOf(err) != "invalid_argument" {
		t.Fatalf("error = %v; want invalid_argument", err)
	}
}

func TestChangeOfAnUnheardTryIsNoError(t *testing.T) {
	tests := map[string]struct {
		state string
		want  string
	}{
		"it was done by the try":      {"aborted", ""},
		"it has ended in its own way": {"completed", "operation_ended"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			asked := 0
			r := serve(t, &fakeReplica{
				abort: func() error {
					if asked++; asked == 1 {
						return unavailable("")
					}
					return refuse(connect.CodeFailedPrecondition, "operation_ended", "it has ended")
				},
				get: func() (*apipb.Operation, error) { return &apipb.Operation{Id: "op", State: test.state}, nil },
			})
			err := open(t, nil, r.address).AbortOperation(t.Context(), "op", "", 0)
			if client.CodeOf(err) != test.want || (err == nil) != (test.want == "") {
				t.Fatalf("error = %v; want code %q", err, test.want)
			}
		})
	}
}

func TestUnreachableSaysWhoWasAskedAndWhy(t *testing.T) {
	dead, frozen, heard := deadAddress(t), frozenAddress(t), map[string]bool{}
	lost := serve(t, &fakeReplica{abort: func() error { return unavailable("") }})
	// The call ends when each has said what it has to say.
	ctx := newEnding()
	said := map[string]string{dead: "connection refused", frozen: "deadline", lost.address: "the log was not reached"}
	c := open(t, func(cfg *client.Config) {
		cfg.Try = 50 * time.Millisecond
		cfg.Logger = slog.New(logged(func(replica, cause string) {
			heard[replica] = strings.Contains(cause, said[replica])
			if heard[dead] && heard[frozen] && heard[lost.address] {
				ctx.end()
			}
		}))
	}, dead, frozen, lost.address)
	err := c.AbortOperation(ctx, "op", "", 0)
	var unreachable *client.UnreachableError
	if !errors.As(err, &unreachable) || !errors.Is(err, client.ErrUnreachable) || !unreachable.Unsure {
		t.Fatalf("error = %#v; want an unsure UnreachableError", err)
	}
	var asked []string
	for _, try := range unreachable.Tried {
		asked = append(asked, try.Address)
	}
	if want := []string{dead, frozen, lost.address}; !slices.Equal(asked, want) {
		t.Errorf("tried = %v; want %v", asked, want)
	}
	for _, want := range []string{
		"abort operation: ", dead + ": connection refused", frozen + ": no answer in time", lost.address + ": the log was not reached",
		"it may have taken effect anyway", "majority",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

// logged is a log that is told of each try without an answer.
type logged func(replica, cause string)

// Enabled implements slog.Handler.
func (logged) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l logged) Handle(_ context.Context, record slog.Record) error {
	said := map[string]string{}
	record.Attrs(func(a slog.Attr) bool {
		said[a.Key] = a.Value.String()
		return true
	})
	l(said["replica"], said["error"])
	return nil
}

// WithAttrs implements slog.Handler.
func (l logged) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l logged) WithGroup(string) slog.Handler { return l }

// TestHangingUpIsTold: who hangs up on everybody may want certificates.
func TestHangingUpIsTold(t *testing.T) {
	const advice = "connection closed: check that both sides use certificates or neither"
	waiting := errors.New("http2: client conn could not be established")
	for name, test := range map[string]struct {
		tried []error
		want  bool
	}{
		"all hang up, each in its way":   {[]error{io.EOF, io.ErrUnexpectedEOF, syscall.EPIPE, syscall.ECONNRESET, waiting}, true},
		"one is not there":               {[]error{io.EOF, syscall.ECONNREFUSED}, false},
		"nobody was asked in that time":  {nil, false},
		"one that answers too late does": {[]error{context.DeadlineExceeded}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := client.UnreachableError{What: "get operation"}
			for _, err := range test.tried {
				e.Tried = append(e.Tried, client.Try{Address: "host1:7701", Count: 1, Err: connect.NewError(connect.CodeUnavailable, err)})
			}
			if got := strings.Contains(e.Error(), advice); got != test.want {
				t.Errorf("%v", e.Error())
			}
		})
	}
}

func TestCancelledCallsReturnTheCallersError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := serve(t, &fakeReplica{start: func(*apipb.StartRequest) (*apipb.StartResponse, error) {
		cancel()
		return nil, unavailable("")
	}})
	_, err := open(t, nil, r.address).StartOperation(ctx, &apipb.StartRequest{})
	if !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrUnreachable) {
		t.Fatalf("error = %v; want context.Canceled", err)
	}
}

func TestCallsGoToTheLeader(t *testing.T) {
	get := func() (*apipb.Operation, error) { return running("op"), nil }
	leader := serve(t, &fakeReplica{get: get})
	follower := serve(t, &fakeReplica{get: get, leader: func() string { return leader.address }})
	c := open(t, nil, follower.address, leader.address)
	for range 3 {
		if _, err := c.GetOperation(t.Context(), "op"); err != nil {
			t.Fatal(err)
		}
	}
	if follower.gets != 1 || leader.gets != 2 {
		t.Fatalf("asked the follower %d times and the leader %d; want 1 and 2", follower.gets, leader.gets)
	}
}

func TestStatusAll(t *testing.T) {
	dead := deadAddress(t)
	live := serve(t, &fakeReplica{status: func() (*apipb.StatusResponse, error) { return &apipb.StatusResponse{Replica: "r1"}, nil }})
	refusing := serve(t, &fakeReplica{status: func() (*apipb.StatusResponse, error) {
		return nil, refuse(connect.CodePermissionDenied, "permission_denied", "no")
	}})
	all := open(t, nil, dead, live.address, refusing.address).StatusAll(t.Context())
	if len(all) != 3 || all[0].Address != dead || !errors.Is(all[0].Err, client.ErrUnreachable) ||
		all[1].Err != nil || all[1].Status.GetReplica() != "r1" || client.CodeOf(all[2].Err) != "permission_denied" {
		t.Fatalf("status = %v", all)
	}
}

func TestCopyOutput(t *testing.T) {
	const text = "one two three"
	// Two bytes a time; every other answer has nothing new.
	output := func(ends bool) func(*apipb.JobOutputRequest) (*apipb.JobOutputResponse, error) {
		quiet := false
		return func(req *apipb.JobOutputRequest) (*apipb.JobOutputResponse, error) {
			from := req.GetOffset()
			if quiet = !quiet; quiet && ends {
				return &apipb.JobOutputResponse{NextOffset: from}, nil
			}
			to := min(from+2, int64(len(text)))
			return &apipb.JobOutputResponse{Data: []byte(text[from:to]), NextOffset: to, End: ends && to == int64(len(text))}, nil
		}
	}
	tests := map[string]struct {
		ends, follow bool
		from         int64
	}{
		"what there is":                      {},
		"from the middle":                    {from: 4},
		"all that comes, until it has ended": {ends: true, follow: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := serve(t, &fakeReplica{output: output(test.ends)})
			var got bytes.Buffer
			next, err := open(t, nil, r.address).CopyOutput(t.Context(), &got,
				client.Output{JobID: "job", Stream: "stdout", Offset: test.from, Follow: test.follow})
			if err != nil || got.String() != text[test.from:] || next != int64(len(text)) {
				t.Fatalf("copied %q to %d, %v; want %q", got.String(), next, err, text[test.from:])
			}
		})
	}
}

// TestTryingIsTold says once why there is no answer yet, and nothing where one comes soon.
func TestTryingIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		after     time.Duration
		wantTimes int
	}{
		"no answer for long": {time.Millisecond, 1},
		"not for long yet":   {time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			asked := 0
			r := serve(t, &fakeReplica{start: func(*apipb.StartRequest) (*apipb.StartResponse, error) {
				if asked++; asked < 6 {
					return nil, unavailable("")
				}
				return &apipb.StartResponse{OperationId: "op"}, nil
			}})
			c := open(t, func(cfg *client.Config) {
				cfg.TryingAfter, cfg.Trying = test.after, func(why string) { told = append(told, why) }
			}, r.address)
			if _, err := c.StartOperation(t.Context(), &apipb.StartRequest{Spec: &structpb.Struct{}}); err != nil {
				t.Fatal(err)
			}
			if len(told) != test.wantTimes || test.wantTimes > 0 && !strings.HasPrefix(told[0], r.address+": ") {
				t.Errorf("told %q, want %d times why %s has no answer", told, test.wantTimes, r.address)
			}
		})
	}
}

// TestWaitEndsWithTooLongAnOutage, of replicas that refuse and of such that hang.
func TestWaitEndsWithTooLongAnOutage(t *testing.T) {
	waits := map[string]func(c *client.Client) error{
		"wait": func(c *client.Client) error {
			_, err := c.WaitOperation(t.Context(), "op")
			return err
		},
		"watch": func(c *client.Client) (last error) {
			for _, err := range c.WatchOperation(t.Context(), "op") {
				last = err
			}
			return last
		},
	}
	for name, wait := range waits {
		for kind, address := range map[string]func(*testing.T) string{"dead": deadAddress, "frozen": frozenAddress} {
			t.Run(name+" at a "+kind+" replica", func(t *testing.T) {
				told := ""
				c := open(t, func(cfg *client.Config) {
					cfg.Try, cfg.MaxTry, cfg.Poll = 20*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
					cfg.Outage, cfg.TryingAfter = 200*time.Millisecond, time.Millisecond
					cfg.Trying = func(why string) { told = why }
				}, address(t))
				var silent *client.UnreachableError
				if err := wait(c); !errors.As(err, &silent) || silent.Elapsed < 200*time.Millisecond {
					t.Errorf("got %v, want that the cluster was not reached for 200 ms", err)
				}
				if told == "" {
					t.Error("why there was no answer was not told")
				}
			})
		}
	}
}
