package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/scheduling/access"
	"weir/scheduling/audit"
)

// Audit is the audit log of this replica.
type Audit interface {
	// Record adds a decision. It must not block.
	Record(line audit.Line)
	// Read sends lines with a greater seq than `after`, and the seq after which it goes on; with wait
	// also those that will be written.
	Read(ctx context.Context, after uint64, wait bool, send func(lines []string, after uint64) error) error
	// Latest sends the last n of the lines with a greater seq than `after`, and a lesser one than `before`
	// unless that is 0.
	Latest(ctx context.Context, after, before uint64, n int, send func(lines []string, after uint64) error) error
}

// byOperator is the right in lines about calls that only operators may make.
const byOperator = "operator"

// audited are the calls that are audited also if they are allowed, with the right that they need: all by
// which users or operators change something, and those that show output of jobs or the data of all
// users. Other calls are audited if they are denied.
var audited = map[string]string{
	apipbconnect.OperationServiceStartProcedure:       string(access.Use),
	apipbconnect.OperationServiceRetryProcedure:       string(access.Use),
	apipbconnect.OperationServiceAbortProcedure:       string(access.Manage),
	apipbconnect.OperationServiceSuspendProcedure:     string(access.Manage),
	apipbconnect.OperationServiceResumeProcedure:      string(access.Manage),
	apipbconnect.OperationServiceCompleteProcedure:    string(access.Manage),
	apipbconnect.OperationServiceUpdateProcedure:      string(access.Manage),
	apipbconnect.JobServiceAbortProcedure:             string(access.Manage),
	apipbconnect.JobServiceInterruptProcedure:         string(access.Manage),
	apipbconnect.JobServiceOutputProcedure:            string(access.Read),
	apipbconnect.JobServiceFileProcedure:              string(access.Manage),
	apipbconnect.JobServiceExecProcedure:              string(access.Manage),
	apipbconnect.PoolServiceEditProcedure:             string(access.Administer),
	apipbconnect.TreeServiceCreateProcedure:           byOperator,
	apipbconnect.TreeServiceSetProcedure:              byOperator,
	apipbconnect.TreeServiceRemoveProcedure:           byOperator,
	apipbconnect.TreeServiceSetDefaultProcedure:       byOperator,
	apipbconnect.NodeServiceDrainProcedure:            byOperator,
	apipbconnect.NodeServiceUndrainProcedure:          byOperator,
	apipbconnect.NodeServiceRemoveProcedure:           byOperator,
	apipbconnect.NodeServiceEditGrantProcedure:        byOperator,
	apipbconnect.MemoryServiceForgetProcedure:         byOperator,
	apipbconnect.AccessServiceEditGroupProcedure:      byOperator,
	apipbconnect.AccessServiceEditAccountsProcedure:   byOperator,
	apipbconnect.AccessServiceRevokeProcedure:         byOperator,
	apipbconnect.AccessServiceRevocationsProcedure:    byOperator,
	apipbconnect.AccessServiceStoresProcedure:         byOperator,
	apipbconnect.AccessServiceEditStoreProcedure:      byOperator,
	apipbconnect.ClusterServiceTransferProcedure:      byOperator,
	apipbconnect.ClusterServiceAddProcedure:           byOperator,
	apipbconnect.ClusterServiceRemoveProcedure:        byOperator,
	apipbconnect.ClusterServicePromoteProcedure:       byOperator,
	apipbconnect.ClusterServiceDemoteProcedure:        byOperator,
	apipbconnect.ClusterServiceBackupProcedure:        byOperator,
	apipbconnect.ClusterServiceFinishUpgradeProcedure: byOperator,
	apipbconnect.AuditServiceReadProcedure:            byOperator,
}

// rightTo returns the right that a call needs, as far as the call alone says it.
func rightTo(procedure string) string {
	switch right := audited[procedure]; {
	case right != "":
		return right
	case needs[procedure] == readers:
		return string(access.Read)
	default:
		return ""
	}
}

// audits is an interceptor that records decisions.
type audits struct{ server *server }

// WrapUnary implements connect.Interceptor.
func (a audits) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		change := ""
		if audited[req.Spec().Procedure] != "" {
			// It tells the values before the call.
			change = a.server.changeOf(req.Any())
		}
		answer, err := next(ctx, req)
		var said any
		if err == nil {
			said = answer.Any()
		}
		a.server.audit(askerOf(ctx), req.Peer().Addr, req.Spec().Procedure, func() (string, string) { return objectOf(req.Any(), said), change }, err)
		return answer, err
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (a audits) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (a audits) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		c := &auditedConn{StreamingHandlerConn: conn, server: a.server, by: askerOf(ctx)}
		err := next(ctx, c)
		if !c.allowed || outcomeOf(err) == audit.Denied {
			c.record(err)
		}
		return err
	}
}

// auditedConn is a stream that is recorded as allowed with its first message.
type auditedConn struct {
	connect.StreamingHandlerConn
	server  *server
	by      *asking
	asked   any
	allowed bool
}

// Receive implements connect.StreamingHandlerConn.
func (c *auditedConn) Receive(msg any) error {
	if c.asked == nil {
		// Later ones are empty: a look for the end.
		c.asked = msg
	}
	return c.StreamingHandlerConn.Receive(msg)
}

// Send implements connect.StreamingHandlerConn.
func (c *auditedConn) Send(msg any) error {
	if !c.allowed {
		c.allowed = true
		c.record(nil)
	}
	return c.StreamingHandlerConn.Send(msg)
}

func (c *auditedConn) record(err error) {
	c.server.audit(c.by, c.Peer().Addr, c.Spec().Procedure, func() (string, string) { return objectOf(c.asked, nil), "" }, err)
}

// outcomeOf returns how a call with an error ended.
func outcomeOf(err error) audit.Outcome {
	if err == nil {
		return audit.Allowed
	}
	switch connect.CodeOf(err) {
	case connect.CodePermissionDenied, connect.CodeUnauthenticated:
		return audit.Denied
	default:
		return audit.Failed
	}
}

// audit records the decision about a call, if the call is audited. The function `about` says what it is
// about, and what it changes.
func (s *server) audit(by *asking, address, procedure string, about func() (object, change string), err error) {
	outcome, right := outcomeOf(err), rightTo(procedure)
	always := audited[procedure] != ""
	if outcome != audit.Denied && (!always || outcome == audit.Failed && right == string(access.Read)) {
		return
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		// Each connection has a port of its own.
		address = host
	}
	if _, known := s.procedures[procedure]; !known {
		procedure = "unknown"
	}
	object, change := about()
	line := audit.Line{
		Time: time.Now().UTC(), User: by.Name, Groups: strings.Join(by.groups, ","), Gateway: by.gateway, Address: address,
		Method: strings.TrimPrefix(procedure, servicePrefix), Object: object, Change: change, Right: right, Outcome: outcome, Request: by.request,
	}
	if by.Role != 0 {
		line.Role = by.Role.String()
	}
	if err != nil {
		var known *connect.Error
		if errors.As(err, &known) {
			line.Code, line.Why = known.Meta().Get(apipb.HeaderCode), known.Message()
		}
		line.Code = cmp.Or(line.Code, connect.CodeOf(err).String())
	}
	var missing *access.Denied
	if errors.As(err, &missing) {
		line.Right = cmp.Or(string(missing.Right), byOperator)
	}
	s.cfg.Audit.Record(line)
}

// servicePrefix is in front of the names of all services in procedures.
const servicePrefix = "/weir.api.v1."

// requestID returns the id that a client gave to a request, or a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get(apipb.HeaderRequest)
	if id == "" || len(id) > maxRequestID || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return fmt.Sprintf("%016x", rand.Uint64())
	}
	return id
}

// maxRequestID is the length of the longest id that a client can give to a request.
const maxRequestID = 64

// objectOf says what a call is about, out of its request and its answer, which may be nil.
func objectOf(asked, said any) string {
	text := ""
	switch m := asked.(type) {
	case *apipb.StartRequest:
		text = "pool " + cmp.Or(m.GetSpec().GetFields()["pool"].GetStringValue(), "of the user")
		if trees := m.GetSpec().GetFields()["trees"].GetStructValue().GetFields(); len(trees) > 0 {
			text = "pools of several trees"
		}
	case *apipb.EditTreeRequest:
		text = editedPools(m)
	case *apipb.ForgetMemoryProfilesRequest:
		text = "memory profiles " + cmp.Or(strings.Join(m.GetKeys(), ", "), "of all operations")
	case *apipb.TransferRequest:
		text = put("replica ", m.GetTo())
	case interface{ GetOperation() string }:
		text = put("operation ", m.GetOperation())
	case interface{ GetJobId() string }:
		text = put("job ", m.GetJobId())
	case interface{ GetNode() string }:
		text = put("node ", m.GetNode())
	case interface{ GetGroup() string }:
		text = put("group ", m.GetGroup())
	case *apipb.EditNodeGrantRequest:
		text = put("nodes ", m.GetGrant().GetPattern())
	case *apipb.EditAccountsRequest:
		text = put("accounts of ", m.GetSubject())
	case *apipb.EditStoreRequest:
		text = put("store ", m.GetStore().GetName())
	case interface{ GetTree() string }:
		text = "tree " + cmp.Or(m.GetTree(), "by default")
	case interface{ GetId() string }:
		text = put("replica ", m.GetId())
	}
	if made, ok := said.(interface{ GetOperationId() string }); ok {
		text = strings.TrimSpace("operation " + made.GetOperationId() + " " + text)
	}
	return text
}

// editedPools names the pools that a request changes.
func editedPools(m *apipb.EditTreeRequest) string {
	var names []string
	for _, edit := range m.GetEdits() {
		name := cmp.Or(edit.GetCreate().GetName(), edit.GetChange().GetName(), edit.GetRename().GetFrom(), edit.GetRemove(), "<Root>")
		names = append(names, name)
	}
	return strings.TrimSpace(put("tree ", m.GetTree()) + " pool " + strings.Join(names, ", "))
}

// mostLatest is how many of the latest lines one call may ask for.
const mostLatest = 1000

// auditLog implements AuditService.
type auditLog struct{ *server }

// Read streams lines of the audit log.
func (s auditLog) Read(ctx context.Context, req *connect.Request[apipb.ReadAuditRequest], stream *connect.ServerStream[apipb.ReadAuditResponse]) error {
	m := req.Msg
	switch latest := m.GetLatest(); {
	case latest < 0 || latest > mostLatest:
		return invalid("read audit log: latest %d: must be 1 to %d", latest, mostLatest)
	case latest > 0 && m.GetFollow():
		return invalid("read audit log: give only one of latest and follow")
	case latest == 0 && m.GetBefore() > 0:
		return invalid("read audit log: before %d: needs latest", m.GetBefore())
	}
	// The first message says that the call is allowed, before there may be a line.
	if err := stream.Send(&apipb.ReadAuditResponse{After: req.Msg.GetAfter()}); err != nil {
		return err
	}
	send := func(lines []string, after uint64) error {
		return stream.Send(&apipb.ReadAuditResponse{Lines: lines, After: after})
	}
	var err error
	if m.GetLatest() > 0 {
		err = s.cfg.Audit.Latest(ctx, m.GetAfter(), m.GetBefore(), int(m.GetLatest()), send)
	} else {
		err = s.cfg.Audit.Read(ctx, m.GetAfter(), m.GetFollow(), send)
	}
	if err != nil {
		return s.unavailable("read audit log", err)
	}
	return nil
}
