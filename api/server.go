package api

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/commandpb"
	"weir/raftstore/state"
)

// Stats is what a replica's API has under way.
type Stats struct {
	// Calls are those that are answered at once, Watches those that wait for an
	// operation; the limits are how many there may be.
	Calls, CallsLimit, Watches, WatchesLimit int
}

// server answers every call. Its methods are spread over one file a service.
type server struct {
	cfg Config
	// closing is done when the replica is about to stop.
	closing context.Context
	// refusals are those for overload, of late.
	refusals recentCount
	// changes wakes calls that wait for an operation.
	changes *changes
	// removed has the replicas that were removed by way of this one: to remove them
	// again is no mistake.
	removed sync.Map
	// procedures are those that there are: true for those that answer with a stream.
	procedures map[string]bool
}

// NewHandler returns what serves the public API of a replica.
func NewHandler(cfg Config) (*Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &server{cfg: cfg, changes: newChanges(), procedures: knownProcedures()}
	var cancel context.CancelFunc
	s.closing, cancel = context.WithCancel(context.Background())
	go s.changes.read(s.closing, cfg.Store, cfg.Store.Applied()+1)
	options := []connect.HandlerOption{
		connect.WithInterceptors(bounds{s}),
		connect.WithReadMaxBytes(cfg.Limits.MessageBytes),
		connect.WithCodec(strictJSON{jsonName}),
		connect.WithCodec(strictJSON{jsonCharsetName}),
		connect.WithRecover(s.recovered),
	}
	routes := http.NewServeMux()
	routes.Handle(apipbconnect.NewOperationServiceHandler(operations{s}, options...))
	routes.Handle(apipbconnect.NewJobServiceHandler(jobs{s}, options...))
	routes.Handle(apipbconnect.NewMemoryServiceHandler(memories{s}, options...))
	routes.Handle(apipbconnect.NewPoolServiceHandler(pools{s}, options...))
	routes.Handle(apipbconnect.NewTreeServiceHandler(trees{s}, options...))
	routes.Handle(apipbconnect.NewAttributeServiceHandler(attributes{s}, options...))
	routes.Handle(apipbconnect.NewNodeServiceHandler(nodes{s}, options...))
	routes.Handle(apipbconnect.NewClusterServiceHandler(clusters{s}, options...))
	routes.Handle(apipbconnect.NewEventServiceHandler(eventLog{s}, options...))
	routes.Handle(apipbconnect.NewExplainServiceHandler(explanations{s}, options...))
	byLine := lines{next: routes, streams: s.procedures, errors: connect.NewErrorWriter(options...), limit: cfg.Limits.MessageBytes}
	return &Handler{
		server: s, next: byLine, errors: connect.NewErrorWriter(options...), close: cancel,
		calls: make(chan struct{}, cfg.Limits.Calls), watches: make(chan struct{}, cfg.Limits.Watches),
	}, nil
}

// recovered turns a panic into an answer: one call's mistake is not all calls'.
func (s *server) recovered(_ context.Context, spec connect.Spec, _ http.Header, cause any) error {
	s.cfg.Logger.Error("call panicked", "call", spec.Procedure, "panic", cause, "stack", string(debug.Stack()))
	return fail(connect.CodeInternal, apipb.CodeInternal, "%s: internal error on replica %s; see its log", spec.Procedure, s.cfg.Replica)
}

// propose has one command carried out.
func (s *server) propose(ctx context.Context, what string, command proto.Message) (*commandpb.Result, error) {
	results, err := s.cfg.Log.Propose(ctx, command)
	if err != nil {
		return nil, s.unavailable(what, err)
	}
	if err := refused(results[0]); err != nil {
		return nil, err
	}
	return results[0], nil
}

// read lets f read a state that shows every write answered before the call.
func (s *server) read(ctx context.Context, what string, f func(*state.State) error) error {
	if err := s.cfg.Log.ReadBarrier(ctx); err != nil {
		return s.unavailable(what, err)
	}
	var err error
	s.cfg.Store.View(func(st *state.State) { err = f(st) })
	return err
}

// extraPatience bounds the wait for what is shown when the leader can be reached,
// and left out when it cannot: the rest is not held up for it.
const extraPatience = 500 * time.Millisecond

// extra returns the context of such a question.
func extra(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, extraPatience)
}

// seen returns what the leader's schedulers see now, or why they cannot be reached.
func (s *server) seen(ctx context.Context, m *actorpb.SchedulerViewRequest) (*actorpb.SchedulerView, error) {
	ctx, cancel := extra(ctx)
	defer cancel()
	view, err := s.cfg.Leader.SchedulerView(ctx, m)
	if err != nil {
		s.cfg.Logger.Debug("scheduler state unknown", "error", err)
	}
	return view, err
}

// answer wraps a message, or passes the error on.
func answer[T any](msg *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(msg), nil
}

// page returns how many entries to answer with.
func page(asked int32, what string) (int, error) {
	switch {
	case asked == 0:
		return 100, nil
	case asked < 0 || asked > 1000:
		return 0, invalid("%s: limit %d: must be 1 to 1000", what, asked)
	default:
		return int(asked), nil
	}
}
