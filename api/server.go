package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/commandpb"
	"weir/raftstore/state"
	"weir/scheduling/access"
)

// Stats counts the calls at a replica's API.
type Stats struct {
	// Calls counts the calls in flight that are answered at once. Watches counts the calls that wait
	// for an operation, and Outputs those that read output. CallsLimit, WatchesLimit and OutputsLimit are
	// their limits.
	Calls, CallsLimit, Watches, WatchesLimit, Outputs, OutputsLimit int
	// Queued counts the calls that wait for a place.
	Queued int
	// Refused counts the calls that got no place. RefusedSubjects counts the users to whom that happened
	// in the last minute.
	Refused         uint64
	RefusedSubjects int
}

// server answers every call. Each service has a file of its own.
type server struct {
	cfg Config
	// closing is done when the replica is about to stop.
	closing context.Context
	// refusals counts the calls rejected for overload in the last minute.
	refusals recentCount
	// changes wakes calls that wait for an operation.
	changes *changes
	// removed holds the ids of replicas that were removed through this one: removing
	// one of them again is not an error.
	removed    sync.Map
	procedures map[string]procedure
}

// NewHandler returns the handler that serves the public API of a replica.
func NewHandler(cfg Config) (*Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if missing := unlisted(); len(missing) > 0 {
		return nil, fmt.Errorf("api: who may call %s is not in the table of access", strings.Join(missing, ", "))
	}
	d := newDoor(cfg.Replica, cfg.Limits)
	cfg.Log, cfg.Leader = sharedLog{cfg.Log, d}, sharedLeader{cfg.Leader, d}
	s := &server{cfg: cfg, changes: newChanges(), procedures: knownProcedures()}
	var cancel context.CancelFunc
	s.closing, cancel = context.WithCancel(context.Background())
	go s.changes.read(s.closing, cfg.Store, cfg.Store.Applied()+1)
	options := []connect.HandlerOption{
		connect.WithInterceptors(bounds{s}, names{s}, audits{s}, decisions{}),
		connect.WithReadMaxBytes(max(cfg.Limits.MessageBytes, editBytes)),
		connect.WithCodec(strictJSON{jsonName}),
		connect.WithCodec(strictJSON{jsonCharsetName}),
		connect.WithCompression("gzip", newUnpacker, newPacker),
		connect.WithCompressMinBytes(packedBytes),
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
	routes.Handle(apipbconnect.NewAuditServiceHandler(auditLog{s}, options...))
	routes.Handle(apipbconnect.NewExplainServiceHandler(explanations{s}, options...))
	routes.Handle(apipbconnect.NewAccessServiceHandler(whoAndWhat{s}, options...))
	byLine := lines{next: routes, procedures: s.procedures, errors: connect.NewErrorWriter(options...)}
	return &Handler{server: s, next: byLine, errors: connect.NewErrorWriter(options...), close: cancel, door: d}, nil
}

// packedBytes is the size from which answers are packed. Packing costs more than to make most answers, so
// short ones are not packed and others only quickly.
const packedBytes = 4 << 10

func newPacker() connect.Compressor {
	w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // It knows this level.
	return w
}

func newUnpacker() connect.Decompressor { return &gzip.Reader{} }

// sharedLog is a Log at which each user has a share of the requests.
type sharedLog struct {
	Log
	door *door
}

// ProposeBy implements Log. What became of a command is answered also without a turn: the answer is short, and
// whoever tried again might do twice what was done.
func (l sharedLog) ProposeBy(ctx context.Context, by *commandpb.Subject, command proto.Message) (result *commandpb.Result, err error) {
	_, crowded := away(ctx, l.door, l.door.leader, func() (none struct{}, _ error) {
		result, err = l.Log.ProposeBy(ctx, by, command)
		return none, nil
	})
	if result == nil && err == nil {
		err = crowded
	}
	return result, err
}

// ReadBarrier implements Log. It needs no place: calls share a request.
func (l sharedLog) ReadBarrier(ctx context.Context) error {
	_, err := resting(ctx, func() (none struct{}, err error) { return none, l.Log.ReadBarrier(ctx) })
	return err
}

// sharedLeader is a Leader at which each user has a share of the requests.
type sharedLeader struct {
	to   Leader
	door *door
}

// SchedulerView implements Leader. Calls that want the same share a request; those for explanations or for reports of
// nodes want what no other does.
func (l sharedLeader) SchedulerView(ctx context.Context, m *actorpb.SchedulerViewRequest) (*actorpb.SchedulerView, error) {
	if !m.GetExplain() && len(m.GetReports()) == 0 {
		return resting(ctx, func() (*actorpb.SchedulerView, error) { return l.to.SchedulerView(ctx, m) })
	}
	return away(ctx, l.door, l.door.leader, func() (*actorpb.SchedulerView, error) { return l.to.SchedulerView(ctx, m) })
}

// PoolHistory implements Leader.
func (l sharedLeader) PoolHistory(ctx context.Context, m *actorpb.PoolHistoryRequest) (*actorpb.PoolHistory, error) {
	return away(ctx, l.door, l.door.leader, func() (*actorpb.PoolHistory, error) { return l.to.PoolHistory(ctx, m) })
}

// JobLive implements Leader.
func (l sharedLeader) JobLive(ctx context.Context, jobs []string) (*actorpb.JobLive, error) {
	return away(ctx, l.door, l.door.leader, func() (*actorpb.JobLive, error) { return l.to.JobLive(ctx, jobs) })
}

// ReadOutput implements Leader.
func (l sharedLeader) ReadOutput(ctx context.Context, m *actorpb.ReadOutput) (*actorpb.OutputPart, error) {
	return partBy(ctx, l.door, func() (*actorpb.OutputPart, error) { return l.to.ReadOutput(ctx, m) }, func(p *actorpb.OutputPart) int { return len(p.GetData()) })
}

// ReadFile implements Leader.
func (l sharedLeader) ReadFile(ctx context.Context, m *actorpb.ReadFile) (*actorpb.FilePart, error) {
	return partBy(ctx, l.door, func() (*actorpb.FilePart, error) { return l.to.ReadFile(ctx, m) }, func(p *actorpb.FilePart) int { return len(p.GetData()) })
}

// Exec implements Leader. Whoever waits for output holds no place; much output has one, as parts have.
func (l sharedLeader) Exec(ctx context.Context, m *actorpb.Exec) (*actorpb.ExecPart, error) {
	ask := func() (*actorpb.ExecPart, error) { return l.to.Exec(ctx, m) }
	switch {
	case m.GetOutput().GetWaitMillis() > 0:
		return resting(ctx, ask)
	case m.GetOutput().GetLimit() > promptBytes:
		return partBy(ctx, l.door, ask, execBytes)
	default:
		return away(ctx, l.door, l.door.leader, ask)
	}
}

// execBytes returns how much output of a command an answer has.
func execBytes(part *actorpb.ExecPart) (n int) {
	for _, piece := range part.GetPieces() {
		n += len(piece.GetData())
	}
	return n
}

// partBy reads a part of output or of a file, and charges its reader for the bytes.
func partBy[T any](ctx context.Context, d *door, read func() (T, error), bytes func(T) int) (T, error) {
	return away(ctx, d, d.parts, func() (T, error) {
		part, err := read()
		d.parts.charge(subjectOf(askerOf(ctx).Identity), time.Duration(bytes(part))*time.Second/time.Duration(partRate))
		return part, err
	})
}

// recovered turns a panic into an error of that call, so that other calls go on.
func (s *server) recovered(_ context.Context, spec connect.Spec, _ http.Header, cause any) error {
	s.cfg.Logger.Error("call panicked", "call", spec.Procedure, "panic", cause, "stack", string(debug.Stack()))
	return fail(connect.CodeInternal, apipb.CodeInternal, "%s: internal error on replica %s; see its log", spec.Procedure, s.cfg.Replica)
}

// propose proposes a command of the caller and returns its result, or an error if it was refused. A
// command to which the caller has no right does not even enter the log.
func (s *server) propose(ctx context.Context, what string, command proto.Message) (*commandpb.Result, error) {
	by := askerOf(ctx).subject()
	missing := s.judge(ctx, what, func(st *state.State) error { return state.RightsIn(st).Command(by, command) })
	if missing = s.overlook(by, command, missing); missing != nil {
		return nil, denied(missing)
	}
	result, err := s.cfg.Log.ProposeBy(ctx, by, command)
	if err != nil {
		return nil, s.unavailable(what, err)
	}
	if err := refused(result); err != nil {
		return nil, err
	}
	return result, nil
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

// judge asks about a right in the state of this replica. It asks again with every write answered before
// the call before it says no, because this replica may lag behind the one that gave the right.
func (s *server) judge(ctx context.Context, what string, ask func(*state.State) error) error {
	var err error
	s.cfg.Store.View(func(st *state.State) { err = ask(st) })
	var missing *access.Denied
	if err == nil || !errors.As(err, &missing) {
		return err
	}
	if err := (operations{s}).barrier(ctx, what); err != nil {
		return err
	}
	s.cfg.Store.View(func(st *state.State) { err = ask(st) })
	return err
}

// extraPatience bounds the wait for optional data from the leader. An answer goes out
// without that data if the leader does not respond in time.
const extraPatience = 500 * time.Millisecond

// extra returns a context for a request for optional data. It is done after extraPatience.
func extra(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, extraPatience)
}

// seen returns the view of the leader's schedulers, or why they cannot be reached. The error ends the call.
func (s *server) seen(ctx context.Context, what string, m *actorpb.SchedulerViewRequest) (view *actorpb.SchedulerView, unseen, err error) {
	ctx, cancel := extra(ctx)
	defer cancel()
	view, unseen = s.cfg.Leader.SchedulerView(ctx, m)
	switch {
	case errors.Is(unseen, errNoTurn):
		return nil, unseen, s.unavailable(what, unseen)
	case unseen != nil:
		s.cfg.Logger.Debug("scheduler state unknown", "error", unseen)
		return nil, unseen, nil
	}
	return view, nil, nil
}

// answer wraps msg in a response if err is nil.
func answer[T any](msg *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(msg), nil
}

// page returns the number of entries in an answer: 100 if `asked` is 0. It returns an error
// unless `asked` is from 0 to 1000.
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
