package api

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"weir/cluster/identity"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// operatorOnly are the calls that affect all users.
var operatorOnly = map[string]bool{
	apipbconnect.PoolServiceEditProcedure:        true,
	apipbconnect.TreeServiceCreateProcedure:      true,
	apipbconnect.TreeServiceSetProcedure:         true,
	apipbconnect.TreeServiceRemoveProcedure:      true,
	apipbconnect.TreeServiceSetDefaultProcedure:  true,
	apipbconnect.NodeServiceDrainProcedure:       true,
	apipbconnect.NodeServiceUndrainProcedure:     true,
	apipbconnect.NodeServiceRemoveProcedure:      true,
	apipbconnect.MemoryServiceForgetProcedure:    true,
	apipbconnect.ClusterServiceTransferProcedure: true,
	apipbconnect.ClusterServiceAddProcedure:      true,
	apipbconnect.ClusterServiceRemoveProcedure:   true,
	apipbconnect.ClusterServicePromoteProcedure:  true,
	apipbconnect.ClusterServiceDemoteProcedure:   true,
	// A backup holds the data of all users.
	apipbconnect.ClusterServiceBackupProcedure: true,
}

// replicaOnly are the calls that only replicas may make.
var replicaOnly = map[string]bool{apipbconnect.ClusterServiceJoinProcedure: true}

// waits are the calls that may last as long as an operation; Limits.Watches bounds their number.
var waits = map[string]bool{
	apipbconnect.OperationServiceWaitProcedure:  true,
	apipbconnect.OperationServiceWatchProcedure: true,
	apipbconnect.EventServiceReadProcedure:      true,

	apipbconnect.OperationServiceWatchInstancesProcedure: true,
}

// permit returns an error unless the role may make the call. The role alone decides: any client
// may abort, update or suspend the operation of any user.
func permit(who identity.Identity, procedure string) *connect.Error {
	switch {
	case replicaOnly[procedure] && who.Role == identity.Replica:
		return nil
	case replicaOnly[procedure]:
		return fail(connect.CodePermissionDenied, apipb.CodePermissionDenied,
			"%s is for replicas: the certificate of %q has role %s", procedure, who.Name, who.Role)
	case who.Role == identity.Operator || who.Role == identity.Client && !operatorOnly[procedure]:
		return nil
	case who.Role == identity.Client:
		return fail(connect.CodePermissionDenied, apipb.CodePermissionDenied, "%s is for operators: the certificate of %q has role client", procedure, who.Name)
	default:
		return fail(connect.CodePermissionDenied, apipb.CodePermissionDenied,
			"the API is for clients and operators: the certificate of %q has role %s", who.Name, who.Role)
	}
}

type callerKey struct{}

// caller returns the identity of the client that makes the call.
func caller(ctx context.Context) identity.Identity {
	who, _ := ctx.Value(callerKey{}).(identity.Identity)
	return who
}

// Handler serves the public API of a replica. It admits a call if its caller has the
// permission and its subject has a place for one more. It rejects other calls before it
// reads their bodies, so that they cost little.
type Handler struct {
	server *server
	next   http.Handler
	errors *connect.ErrorWriter
	door   *door
	close  context.CancelFunc
}

// Close ends the calls in flight, also those that wait for an operation, with an error
// that says to use another replica. Later calls fail the same way.
func (h *Handler) Close() { h.close() }

// Stats returns how many calls are in flight, wait and were refused, and the limits.
func (h *Handler) Stats() Stats { return h.door.stats(time.Now()) }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	began := time.Now()
	w := newHurried(to, h.server.cfg.Limits.Stall)
	defer w.finish(r)
	w.Header().Set(apipb.HeaderReplica, h.server.cfg.Replica)
	who, err := h.server.cfg.IdentityOf(r)
	if err != nil {
		h.turnAway(w, r, began, fail(connect.CodeUnauthenticated, apipb.CodeUnauthenticated, "unauthenticated: %v", err))
		return
	}
	if denied := permit(who, r.URL.Path); denied != nil {
		h.turnAway(w, r, began, denied)
		return
	}
	leave, crowded := h.door.enter(r.Context(), who, r.URL.Path)
	if crowded != "" {
		h.turnAway(w, r, began, h.server.overloaded(crowded))
		return
	}
	defer leave()
	r = r.WithContext(context.WithValue(r.Context(), callerKey{}, who))
	r.Body = w.body(r.Body, began)
	h.next.ServeHTTP(w, r)
}

// turnAway rejects a request with an error in its own protocol.
func (h *Handler) turnAway(w http.ResponseWriter, r *http.Request, began time.Time, why *connect.Error) {
	h.server.observe(r.URL.Path, why, began)
	if !h.errors.IsSupported(r) {
		http.Error(w, why.Message(), http.StatusForbidden)
		return
	}
	if err := h.errors.Write(w, r, why); err != nil {
		h.server.cfg.Logger.Debug("refusal was not sent", "to", r.RemoteAddr, "error", err)
	}
}
