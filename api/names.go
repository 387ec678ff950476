package api

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// Names says what people call operations.
func (s operations) Names(ctx context.Context, req *connect.Request[apipb.OperationNamesRequest]) (*connect.Response[apipb.OperationNamesResponse], error) {
	if _, err := page(int32(len(req.Msg.GetIds())), "name operations"); err != nil {
		return nil, err
	}
	out := &apipb.OperationNamesResponse{}
	err := s.read(ctx, "name operations", func(st *state.State) error {
		seen := askerOf(ctx).sight(st)
		for _, id := range req.Msg.GetIds() {
			op, known := state.Head(st, scheduling.OperationID(id))
			if !known {
				continue
			}
			name := &apipb.OperationName{Id: id, User: op.GetUser(), Pool: op.GetTrees()[0].GetPool()}
			if seen.reads(op) {
				name.Title, name.Alias = op.GetSpec().GetTitle(), op.GetSpec().GetAlias()
			}
			out.Operations = append(out.Operations, name)
		}
		return nil
	})
	return answer(out, err)
}

// find returns an operation by id or alias.
func find(st *state.State, name string) (*statepb.Operation, error) {
	if op, ok := st.Operation(scheduling.OperationID(name)); ok {
		return op, nil
	}
	if op, ok := st.OperationByAlias(name); ok {
		return op, nil
	}
	if name == "" {
		return nil, invalid("an operation's id or alias is needed")
	}
	short := ""
	if len(name) < scheduling.MinPart {
		short = fmt.Sprintf("; of an id, its first or last %d characters are needed at least", scheduling.MinPart)
	}
	return nil, fail(connect.CodeNotFound, state.CodeUnknownOperation, "operation %q not found: never submitted, or no longer archived%s", name, short)
}

// names is an interceptor that lets requests name operations and jobs by parts of their ids: the first or the
// last digits. It puts the whole id in their place. A part that fits nothing stays as it is: what is answered to
// that is up to the call.
type names struct{ *server }

// WrapUnary implements connect.Interceptor.
func (s names) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := s.complete(ctx, req.Any()); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (s names) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (s names) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, namedConn{conn, ctx, s})
	}
}

type namedConn struct {
	connect.StreamingHandlerConn
	ctx   context.Context
	names names
}

// Receive implements connect.StreamingHandlerConn.
func (c namedConn) Receive(msg any) error {
	if err := c.StreamingHandlerConn.Receive(msg); err != nil {
		return err
	}
	return c.names.complete(c.ctx, msg)
}

// complete completes the ids that a request names.
func (s names) complete(ctx context.Context, request any) error {
	message, ok := request.(proto.Message)
	if !ok {
		return nil
	}
	m := message.ProtoReflect()
	for field, find := range map[protoreflect.Name]func(context.Context, string) ([]candidate, error){
		"operation": s.operationsWith, "job": s.jobsWith, "job_id": s.jobsWith,
	} {
		d := m.Descriptor().Fields().ByName(field)
		if d == nil || d.Kind() != protoreflect.StringKind || d.IsList() || !scheduling.IsPart(m.Get(d).String()) {
			continue
		}
		part := m.Get(d).String()
		found, err := find(ctx, part)
		if err != nil {
			return err
		}
		if len(found) > 1 {
			return ambiguous(strings.TrimSuffix(string(field), "_id"), part, found)
		}
		if len(found) == 1 {
			m.Set(d, protoreflect.ValueOfString(found[0].id))
		}
	}
	return nil
}

// candidate is an operation or a job whose id has a part.
type candidate struct{ id, about string }

// candidatesShown is how many candidates an error lists.
const candidatesShown = 10

// ambiguous returns the error for a part of several ids.
func ambiguous(what, part string, of []candidate) error {
	var b strings.Builder
	for _, c := range of[:min(len(of), candidatesShown)] {
		b.WriteString("\n  " + c.id + "  " + c.about)
	}
	if more := len(of) - candidatesShown; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return invalid("%s %q: %d ids begin or end so: give more of the one that you mean:%s", what, part, len(of), b.String())
}

// operationsWith returns the operations whose ids have a part, latest start first. Everybody may know that
// they exist; their titles are for those who may read them.
func (s names) operationsWith(ctx context.Context, part string) (found []candidate, err error) {
	if err := operations(s).barrier(ctx, "find operation"); err != nil {
		return nil, err
	}
	s.latestFirst(0, operationsCounted, false, func(st *state.State, some []*statepb.Operation) bool {
		seen := askerOf(ctx).sight(st)
		for _, op := range some {
			if !scheduling.HasPart(op.GetId(), part) {
				continue
			}
			title := ""
			if seen.reads(op) && op.GetSpec().GetTitle() != "" {
				title = fmt.Sprintf("%q ", op.GetSpec().GetTitle())
			}
			found = append(found, candidate{op.GetId(), fmt.Sprintf("%sof user %s, %s, started %s", title, op.GetUser(), op.GetState(), clock(op.GetStartTime()))})
		}
		return true
	})
	return found, nil
}
