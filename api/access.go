package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"weir/cluster/identity"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/commandpb"
	"weir/scheduling/access"
)

// need says who may make a call.
type need uint8

const (
	// everyone: any user of the cluster. What the answer shows of operations of others depends on
	// the right read.
	everyone need = iota + 1
	// readers: the owner of the operation that the call names, and those with the right read on it.
	readers
	// subjects: those who have the right to the command that the call proposes. Package state knows
	// it. Files of a job, and commands within it, which take no command of the log, need the right to manage
	// its operation.
	subjects
	// operators only: the call affects all users, or its answer holds the data of all users.
	operatorsOnly
	// replicas only.
	replicasOnly
)

// needs says for each call who may make it. A replica does not start if a call is missing.
var needs = map[string]need{
	apipbconnect.OperationServiceStartProcedure:          subjects,
	apipbconnect.OperationServiceRetryProcedure:          subjects,
	apipbconnect.OperationServiceListProcedure:           everyone,
	apipbconnect.OperationServiceGetProcedure:            everyone,
	apipbconnect.OperationServiceNamesProcedure:          everyone,
	apipbconnect.OperationServiceWaitProcedure:           everyone,
	apipbconnect.OperationServiceWatchProcedure:          everyone,
	apipbconnect.OperationServiceAbortProcedure:          subjects,
	apipbconnect.OperationServiceSuspendProcedure:        subjects,
	apipbconnect.OperationServiceResumeProcedure:         subjects,
	apipbconnect.OperationServiceCompleteProcedure:       subjects,
	apipbconnect.OperationServiceUpdateProcedure:         subjects,
	apipbconnect.OperationServiceEventsProcedure:         readers,
	apipbconnect.OperationServiceInstancesProcedure:      readers,
	apipbconnect.OperationServiceWatchInstancesProcedure: readers,
	apipbconnect.OperationServiceServicesProcedure:       everyone,
	apipbconnect.OperationServiceStatisticsProcedure:     readers,

	apipbconnect.JobServiceListProcedure:       readers,
	apipbconnect.JobServiceGetProcedure:        readers,
	apipbconnect.JobServiceOutputProcedure:     readers,
	apipbconnect.JobServiceStatisticsProcedure: readers,
	apipbconnect.JobServiceFileProcedure:       subjects,
	apipbconnect.JobServiceExecProcedure:       subjects,
	apipbconnect.JobServiceExecIOProcedure:     subjects,
	apipbconnect.JobServiceAbortProcedure:      subjects,
	apipbconnect.JobServiceInterruptProcedure:  subjects,

	apipbconnect.MemoryServiceProfilesProcedure: everyone,
	apipbconnect.MemoryServiceForgetProcedure:   operatorsOnly,
	apipbconnect.PoolServiceListProcedure:       everyone,
	apipbconnect.PoolServiceGetProcedure:        everyone,
	apipbconnect.PoolServiceHistoryProcedure:    everyone,
	apipbconnect.PoolServiceLedgerProcedure:     everyone,
	apipbconnect.PoolServiceEditProcedure:       subjects,
	apipbconnect.TreeServiceListProcedure:       everyone,
	apipbconnect.TreeServiceGetProcedure:        everyone,
	apipbconnect.TreeServiceWhatIfProcedure:     everyone,
	apipbconnect.TreeServiceCreateProcedure:     subjects,
	apipbconnect.TreeServiceSetProcedure:        subjects,
	apipbconnect.TreeServiceRemoveProcedure:     subjects,
	apipbconnect.TreeServiceSetDefaultProcedure: subjects,
	apipbconnect.AttributeServiceGetProcedure:   everyone,
	apipbconnect.NodeServiceListProcedure:       everyone,
	apipbconnect.NodeServiceGetProcedure:        everyone,
	apipbconnect.NodeServiceDrainProcedure:      subjects,
	apipbconnect.NodeServiceUndrainProcedure:    subjects,
	apipbconnect.NodeServiceRemoveProcedure:     subjects,
	apipbconnect.NodeServiceGrantsProcedure:     everyone,
	apipbconnect.NodeServiceEditGrantProcedure:  subjects,

	apipbconnect.ClusterServiceMembersProcedure:       everyone,
	apipbconnect.ClusterServiceStatusProcedure:        everyone,
	apipbconnect.ClusterServiceTransferProcedure:      operatorsOnly,
	apipbconnect.ClusterServiceAddProcedure:           operatorsOnly,
	apipbconnect.ClusterServiceRemoveProcedure:        operatorsOnly,
	apipbconnect.ClusterServicePromoteProcedure:       operatorsOnly,
	apipbconnect.ClusterServiceDemoteProcedure:        operatorsOnly,
	apipbconnect.ClusterServiceBackupProcedure:        operatorsOnly,
	apipbconnect.ClusterServiceJoinProcedure:          replicasOnly,
	apipbconnect.ClusterServiceUpgradeStatusProcedure: everyone,
	apipbconnect.ClusterServiceFinishUpgradeProcedure: operatorsOnly,

	apipbconnect.AccessServiceWhoAmIProcedure:       everyone,
	apipbconnect.AccessServiceMayIProcedure:         everyone,
	apipbconnect.AccessServiceGroupsProcedure:       everyone,
	apipbconnect.AccessServiceEditGroupProcedure:    subjects,
	apipbconnect.AccessServiceAccountsProcedure:     everyone,
	apipbconnect.AccessServiceEditAccountsProcedure: subjects,
	apipbconnect.AccessServiceRevocationsProcedure:  operatorsOnly,
	apipbconnect.AccessServiceRevokeProcedure:       subjects,
	apipbconnect.AccessServiceStoresProcedure:       operatorsOnly,
	apipbconnect.AccessServiceEditStoreProcedure:    subjects,
	apipbconnect.EventServiceReadProcedure:          everyone,
	apipbconnect.AuditServiceReadProcedure:          operatorsOnly,
	apipbconnect.ExplainServiceExplainProcedure:     everyone,
}

// unlisted returns the calls that needs does not have.
func unlisted() (missing []string) {
	for procedure := range knownProcedures() {
		if needs[procedure] == 0 {
			missing = append(missing, procedure)
		}
	}
	slices.Sort(missing)
	return missing
}

// waits are the calls that may wait for more than a replica; Limits.Watches bounds their number.
var waits = map[string]bool{
	apipbconnect.OperationServiceWaitProcedure:  true,
	apipbconnect.OperationServiceWatchProcedure: true,
	apipbconnect.EventServiceReadProcedure:      true,
	apipbconnect.AuditServiceReadProcedure:      true,

	apipbconnect.OperationServiceWatchInstancesProcedure: true,
	apipbconnect.JobServiceExecIOProcedure:               true,
}

// caller is who makes a call.
type caller struct {
	identity.Identity
	// groups are those that the gateway tells which the user came through.
	groups []string
	// gateway is the name of this gateway; empty if the user has a certificate.
	gateway string
	// serial is the serial number of the certificate; empty without one.
	serial string
}

// callerOf returns who makes a request. A gateway makes requests for a user, whom it names.
func callerOf(who identity.Identity, r *http.Request) (caller, *connect.Error) {
	serial := ""
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		serial = identity.Serial(r.TLS.PeerCertificates[0])
	}
	users, groups := r.Header.Values(apipb.HeaderOnBehalfOf), r.Header.Values(apipb.HeaderGroups)
	user := r.Header.Get(apipb.HeaderOnBehalfOf)
	if who.Role != identity.Gateway {
		if len(users) > 0 || len(groups) > 0 {
			return caller{}, fail(connect.CodePermissionDenied, apipb.CodePermissionDenied,
				"the header %s is for gateways: the certificate of %q has role %s", apipb.HeaderOnBehalfOf, who.Name, who.Role)
		}
		return caller{Identity: who, serial: serial}, nil
	}
	c := caller{Identity: identity.Identity{Cluster: who.Cluster, Role: identity.User, Name: user}, gateway: who.Name, serial: serial}
	if user == "" {
		return c, fail(connect.CodePermissionDenied, apipb.CodePermissionDenied,
			"gateway %q does not say for whom it asks: the header %s is missing", who.Name, apipb.HeaderOnBehalfOf)
	}
	err := access.CheckName("user", user)
	if len(users) > 1 || len(groups) > 1 {
		// A gateway that adds its headers to those of its own caller would say what that caller wants.
		err = fmt.Errorf("the header %s or %s is there twice: remove what the gateway gets, and send one of each", apipb.HeaderOnBehalfOf, apipb.HeaderGroups)
	}
	for _, list := range groups {
		for group := range strings.SplitSeq(list, ",") {
			group = strings.TrimSpace(group)
			err = cmp.Or(err, access.CheckName("group", group))
			c.groups = append(c.groups, group)
		}
	}
	if len(c.groups) > maxGroupsTold {
		err = cmp.Or(err, fmt.Errorf("%d groups, the limit is %d", len(c.groups), maxGroupsTold))
	}
	if err != nil {
		return c, fail(connect.CodeInvalidArgument, apipb.CodeInvalidArgument, "gateway %q: %v", who.Name, err)
	}
	return c, nil
}

// maxGroupsTold bounds the groups that a gateway tells of a user: they go into the log with each
// command of the user.
const maxGroupsTold = 200

// subject returns the caller as the subject of commands.
func (c caller) subject() *commandpb.Subject {
	return &commandpb.Subject{User: c.Name, Operator: c.Role == identity.Operator, Groups: c.groups}
}

// permit returns an error unless the role may make the call at all. What a user may do beyond this
// is decided where the state is known.
func permit(who identity.Identity, procedure string) *connect.Error {
	wanted := needs[procedure]
	switch {
	case wanted == replicasOnly && who.Role == identity.Replica:
		return nil
	case wanted == replicasOnly:
		return fail(connect.CodePermissionDenied, apipb.CodePermissionDenied,
			"%s is for replicas: the certificate of %q has role %s", procedure, who.Name, who.Role)
	case who.Role == identity.Operator || who.Role == identity.User && wanted != operatorsOnly:
		return nil
	case who.Role == identity.User:
		return fail(connect.CodePermissionDenied, apipb.CodePermissionDenied,
			"%s is for operators: the certificate of %q has role %s: ask an operator, or whoever keeps the authority's key for a certificate (weir tls issue --role operator --name NAME)",
			procedure, who.Name, who.Role)
	default:
		return fail(connect.CodePermissionDenied, apipb.CodePermissionDenied,
			"the API is for users and operators: the certificate of %q has role %s: whoever keeps the authority's key issues one (weir tls issue --role user --name NAME)", who.Name, who.Role)
	}
}

// asking is a call in progress.
type asking struct {
	caller
	need need
	// request is the id of the call.
	request string
	// turn is the right of the call to compute.
	turn *turn
	// decided says that the right of the caller to see the answer has been checked.
	decided bool
}

type askingKey struct{}

// askerOf returns who makes the call, and what the call needs.
func askerOf(ctx context.Context) *asking {
	if a, ok := ctx.Value(askingKey{}).(*asking); ok {
		return a
	}
	return &asking{}
}

// userOf returns the name of the user who makes the call.
func userOf(ctx context.Context) string { return askerOf(ctx).Name }

// Handler serves the public API of a replica. It admits a call if its caller has the
// permission and its subject has a place for one more. It rejects other calls before it
// reads their bodies, so that they cost little; and requests that are too large before it decodes them.
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
	call := &asking{need: needs[r.URL.Path], request: requestID(r)}
	w.Header().Set(apipb.HeaderRequest, call.request)
	denied := h.admit(call, r)
	if denied != nil {
		h.server.audit(call, r.RemoteAddr, r.URL.Path, func() (string, string) { return "", "" }, denied)
		h.turnAway(w, r, began, denied)
		return
	}
	leave, crowded, after := h.door.enter(r.Context(), call.Identity, r.URL.Path)
	if crowded != "" {
		why := h.server.overloaded(crowded)
		suggest(why, max(after, h.server.cfg.Limits.RetryAfter))
		h.turnAway(w, r, began, why)
		return
	}
	defer leave()
	call.turn = &turn{door: h.door, of: subjectOf(call.Identity), fewest: fewestOf(r.URL.Path), ctx: r.Context()}
	w.turn = call.turn
	defer call.turn.rest()
	r = r.WithContext(context.WithValue(r.Context(), askingKey{}, call))
	done, refused := h.receive(w, r, call, began)
	if refused != nil {
		h.turnAway(w, r, began, refused)
		return
	}
	defer done()
	h.next.ServeHTTP(w, r)
}

// Beside lets requests in to a handler of metrics or health, a few at once.
func (h *Handler) Beside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := h.server.cfg.IdentityOf(r)
		if err != nil {
			http.Error(w, "unauthenticated: "+err.Error(), http.StatusUnauthorized)
			return
		}
		of := subjectOf(who)
		t := h.door.probes.enter(r.Context(), of)
		if t == nil {
			http.Error(w, h.door.crowded(h.door.probes, of), http.StatusTooManyRequests)
			return
		}
		defer h.door.probes.leave(t)
		to := newHurried(w, h.server.cfg.Limits.Stall)
		defer to.finish(r)
		next.ServeHTTP(to, r)
	})
}

// admit finds out who makes a call, and returns an error if the role may not make it.
func (h *Handler) admit(call *asking, r *http.Request) *connect.Error {
	who, err := h.server.cfg.IdentityOf(r)
	if err != nil {
		return fail(connect.CodeUnauthenticated, apipb.CodeUnauthenticated, "unauthenticated: %v", err)
	}
	by, denied := callerOf(who, r)
	call.caller = by
	if by.Name == "" {
		// A gateway that does not say for whom it asks, or another that says so.
		call.Identity = who
	}
	if denied != nil {
		return denied
	}
	return permit(by.Identity, r.URL.Path)
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
