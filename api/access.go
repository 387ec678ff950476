package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"weir/cluster/identity"
	"weir/messages/apipb/apipbconnect"
)

// operatorOnly are the calls that change what all users share.
var operatorOnly = map[string]bool{
	apipbconnect.PoolServiceCreateProcedure:      true,
	apipbconnect.PoolServiceSetProcedure:         true,
	apipbconnect.PoolServiceRemoveProcedure:      true,
	apipbconnect.ClusterServiceTransferProcedure: true,
}

// waits are the calls that may last as long as an operation does.
var waits = map[string]bool{
	apipbconnect.OperationServiceWaitProcedure:  true,
	apipbconnect.OperationServiceWatchProcedure: true,
}

// permit returns an error unless the role may make the call.
func permit(who identity.Identity, procedure string) *connect.Error {
	switch {
	case who.Role == identity.Operator || who.Role == identity.Client && !operatorOnly[procedure]:
		return nil
	case who.Role == identity.Client:
		return fail(connect.CodePermissionDenied, "permission_denied",
			fmt.Sprintf("%s is for operators: the certificate of %q has role client", procedure, who.Name))
	default:
		return fail(connect.CodePermissionDenied, "permission_denied",
			fmt.Sprintf("the API is for clients and operators: the certificate of %q has role %s", who.Name, who.Role))
	}
}

type callerKey struct{}

// caller returns who makes the call.
func caller(ctx context.Context) identity.Identity {
	who, _ := ctx.Value(callerKey{}).(identity.Identity)
	return who
}

// identify puts who sends a request into its context. Nobody else gets further.
func (s *server) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.cfg.IdentityOf(r)
		if err != nil {
			unknown := fail(connect.CodeUnauthenticated, "unauthenticated", "who are you: "+err.Error())
			if writer := connect.NewErrorWriter(); writer.IsSupported(r) {
				err = writer.Write(w, r, unknown)
				s.cfg.Logger.Debug("unknown caller", "remote", r.RemoteAddr, "error", err)
				return
			}
			http.Error(w, unknown.Message(), http.StatusUnauthorized)
			return
		}
		w.Header().Set(headerReplica, s.cfg.Replica)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	})
}

// guard checks roles, bounds how many calls are under way and how long they take,
// and hints at the leader.
type guard struct {
	server         *server
	calls, watches chan struct{}
}

func newGuard(s *server) *guard {
	return &guard{server: s, calls: make(chan struct{}, s.cfg.Limits.Calls), watches: make(chan struct{}, s.cfg.Limits.Watches)}
}

// enter takes a place for the call, and returns what gives it back.
func (g *guard) enter(ctx context.Context, procedure string) (leave func(), err error) {
	if denied := permit(caller(ctx), procedure); denied != nil {
		return nil, denied
	}
	places, kind := g.calls, "calls are"
	if waits[procedure] {
		places, kind = g.watches, "calls that wait for operations are"
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, g.server.overloaded(fmt.Sprintf("%d %s under way at replica %s, its limit: try again, or another replica", cap(places), kind, g.server.cfg.Replica))
	}
}

// WrapUnary implements connect.Interceptor.
func (g *guard) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		leave, err := g.enter(ctx, req.Spec().Procedure)
		if err != nil {
			return nil, err
		}
		defer leave()
		ctx, cancel := g.bound(ctx, req.Spec().Procedure)
		defer cancel()
		answer, err := next(ctx, req)
		if err != nil {
			return nil, err
		}
		g.server.hint(answer.Header().Set)
		return answer, nil
	}
}

// bound gives a call its time: less than the client's, so that the client hears
// why there is no answer, and no more than the replica's patience.
func (g *guard) bound(ctx context.Context, procedure string) (context.Context, context.CancelFunc) {
	limit := g.server.cfg.Limits.Patience
	deadline, stated := ctx.Deadline()
	if stated {
		left := time.Until(deadline)
		if left -= min(left/8, maxReserve); waits[procedure] || left < limit {
			limit = left
		}
	} else if waits[procedure] {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// maxReserve is how much of a client's time is kept for the way of the answer.
const maxReserve = 100 * time.Millisecond

// WrapStreamingClient implements connect.Interceptor; there are no clients here.
func (g *guard) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (g *guard) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		leave, err := g.enter(ctx, conn.Spec().Procedure)
		if err != nil {
			return err
		}
		defer leave()
		return next(ctx, conn)
	}
}
