package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"weir/api/client"
	"weir/cluster/leaktest"
	"weir/cluster/wire"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long a test waits for what must come.
const patience = 2 * time.Minute

// fakeReplica answers the calls that its test has given it, and counts those that
// reach it.
type fakeReplica struct {
	address string

	start func(*apipb.StartRequest) (*apipb.StartResponse, error)
	get   func() (*apipb.Operation, error)
	wait  func() (*apipb.WaitOperationResponse, error)
	watch func(context.Context, *connect.ServerStream[apipb.WatchOperationResponse]) error
	abort func() error
	// instances streams those of an operation.
	instances func(*connect.ServerStream[apipb.WatchInstancesResponse]) error
	output    func(*apipb.JobOutputRequest) (*apipb.JobOutputResponse, error)
	listJobs  func(*apipb.ListJobsRequest) (*apipb.ListJobsResponse, error)
	status    func() (*apipb.StatusResponse, error)
	pools     func() error
	listPools func(*apipb.ListPoolsRequest) (*apipb.ListPoolsResponse, error)
	memory    fakeMemory
	access    fakeAccess
	listNodes func(*apipb.ListNodesRequest) (*apipb.ListNodesResponse, error)
	// leader is what answers say of who leads.
	leader func() string

	mu        sync.Mutex
	mutations []string
	gets      int
}

// serve opens a replica on a port of its own, until the test ends.
func serve(t *testing.T, r *fakeReplica) *fakeReplica {
	t.Helper()
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: wire.Insecure{}, HelloTimeout: patience, HandshakeTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	r.address = mux.Addr().String()
	routes := http.NewServeMux()
	routes.Handle(apipbconnect.NewOperationServiceHandler(fakeOperations{fakeReplica: r}))
	routes.Handle(apipbconnect.NewJobServiceHandler(fakeJobs{fakeReplica: r}))
	routes.Handle(apipbconnect.NewClusterServiceHandler(fakeCluster{fakeReplica: r}))
	routes.Handle(apipbconnect.NewPoolServiceHandler(fakePools{edit: func() error { return r.pools() }, list: r.listPools}))
	routes.Handle(apipbconnect.NewMemoryServiceHandler(r.memory))
	routes.Handle(apipbconnect.NewAccessServiceHandler(r.access))
	routes.Handle(apipbconnect.NewNodeServiceHandler(fakeNodes{fakeReplica: r}))
	server := &http.Server{Handler: routes}
	mux.ConfigureServer(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(mux.HTTP()) })
	t.Cleanup(func() {
		_ = server.Close()
		_ = mux.Close()
		serving.Wait()
	})
	return r
}

type fakeOperations struct {
	apipbconnect.UnimplementedOperationServiceHandler
	*fakeReplica
}

func (r fakeOperations) Start(_ context.Context, req *connect.Request[apipb.StartRequest]) (*connect.Response[apipb.StartResponse], error) {
	r.mu.Lock()
	r.mutations = append(r.mutations, req.Msg.GetMutationId())
	r.mu.Unlock()
	return reply(r.fakeReplica, r.start, req.Msg)
}

func (r fakeOperations) Get(_ context.Context, req *connect.Request[apipb.GetOperationRequest]) (*connect.Response[apipb.GetOperationResponse], error) {
	r.mu.Lock()
	r.gets++
	r.mu.Unlock()
	return reply(r.fakeReplica, func(*apipb.GetOperationRequest) (*apipb.GetOperationResponse, error) {
		op, err := r.get()
		return &apipb.GetOperationResponse{Operation: op}, err
	}, req.Msg)
}

func (r fakeOperations) Wait(context.Context, *connect.Request[apipb.WaitOperationRequest]) (*connect.Response[apipb.WaitOperationResponse], error) {
	return reply(r.fakeReplica, func(struct{}) (*apipb.WaitOperationResponse, error) { return r.wait() }, struct{}{})
}

func (r fakeOperations) Watch(ctx context.Context, _ *connect.Request[apipb.WatchOperationRequest], stream *connect.ServerStream[apipb.WatchOperationResponse]) error {
	return r.watch(ctx, stream)
}

func (r fakeOperations) Abort(context.Context, *connect.Request[apipb.AbortOperationRequest]) (*connect.Response[apipb.AbortOperationResponse], error) {
	return reply(r.fakeReplica, func(struct{}) (*apipb.AbortOperationResponse, error) {
		return &apipb.AbortOperationResponse{}, r.abort()
	}, struct{}{})
}

func (r fakeOperations) WatchInstances(_ context.Context, _ *connect.Request[apipb.WatchInstancesRequest], stream *connect.ServerStream[apipb.WatchInstancesResponse]) error {
	return r.instances(stream)
}

type fakeJobs struct {
	apipbconnect.UnimplementedJobServiceHandler
	*fakeReplica
}

func (r fakeJobs) Output(_ context.Context, req *connect.Request[apipb.JobOutputRequest]) (*connect.Response[apipb.JobOutputResponse], error) {
	return reply(r.fakeReplica, r.output, req.Msg)
}

func (r fakeJobs) List(_ context.Context, req *connect.Request[apipb.ListJobsRequest]) (*connect.Response[apipb.ListJobsResponse], error) {
	return reply(r.fakeReplica, r.listJobs, req.Msg)
}

type fakeNodes struct {
	apipbconnect.UnimplementedNodeServiceHandler
	*fakeReplica
}

func (r fakeNodes) List(_ context.Context, req *connect.Request[apipb.ListNodesRequest]) (*connect.Response[apipb.ListNodesResponse], error) {
	return reply(r.fakeReplica, r.listNodes, req.Msg)
}

type fakeCluster struct {
	apipbconnect.UnimplementedClusterServiceHandler
	*fakeReplica
}

func (r fakeCluster) Status(context.Context, *connect.Request[apipb.StatusRequest]) (*connect.Response[apipb.StatusResponse], error) {
	return reply(r.fakeReplica, func(struct{}) (*apipb.StatusResponse, error) { return r.status() }, struct{}{})
}

// reply answers as replicas do, with a hint at the leader.
func reply[Req, Res any](r *fakeReplica, handle func(Req) (*Res, error), req Req) (*connect.Response[Res], error) {
	msg, err := handle(req)
	if err != nil {
		return nil, err
	}
	answer := connect.NewResponse(msg)
	if r.leader != nil {
		answer.Header().Set(apipb.HeaderLeader, r.leader())
	}
	return answer, nil
}

// refuse returns a replica's error.
func refuse(kind connect.Code, code, message string) *connect.Error {
	err := connect.NewError(kind, errors.New(message))
	err.Meta().Set(apipb.HeaderCode, code)
	return err
}

// unavailable is the answer of a replica that cannot act, and says who leads.
func unavailable(leader string) *connect.Error {
	err := refuse(connect.CodeUnavailable, "no_quorum", "the log was not reached")
	if leader != "" {
		err.Meta().Set(apipb.HeaderLeader, leader)
	}
	return err
}

// overloaded is the answer of a replica that turns a call away.
func overloaded(after time.Duration) *connect.Error {
	err := refuse(connect.CodeResourceExhausted, "overloaded", "too many calls")
	err.Meta().Set(apipb.HeaderRetry, strconv.FormatInt(after.Milliseconds(), 10))
	return err
}

// deadAddress returns an address where nobody listens, nor will while the test runs.
func deadAddress(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
}

// frozenAddress returns an address where connections are accepted, and then
// nothing happens.
func frozenAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		var held []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			held = append(held, conn)
		}
		for _, conn := range held {
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
	})
	return listener.Addr().String()
}

// open returns a client of plaintext replicas; adjust changes its times.
func open(t *testing.T, adjust func(*client.Config), addresses ...string) *client.Client {
	t.Helper()
	cfg, err := client.Settings{Addresses: addresses, Insecure: true}.Config()
	if err != nil {
		t.Fatal(err)
	}
	// A try that is given up would be made again, and counted again.
	cfg.Try, cfg.Deadline = patience, patience
	if adjust != nil {
		adjust(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// hasty gives tries up soon, for tests with replicas that never answer.
func hasty(cfg *client.Config) { cfg.Try = 250 * time.Millisecond }

// ending is a context whose deadline comes when the test says so.
type ending struct {
	context.Context
	over chan struct{}
	// end may be called more than once.
	end func()
}

func newEnding() *ending {
	over := make(chan struct{})
	return &ending{Context: context.Background(), over: over, end: sync.OnceFunc(func() { close(over) })}
}

// Done implements context.Context.
func (c *ending) Done() <-chan struct{} { return c.over }

// Err implements context.Context.
func (c *ending) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func running(id string) *apipb.Operation   { return &apipb.Operation{Id: id, State: "running"} }
func completed(id string) *apipb.Operation { return &apipb.Operation{Id: id, State: "completed"} }
