package api

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// Drain keeps new jobs away from a node. If the request sets a timeout, it also asks the
// jobs on the node to stop.
func (s nodes) Drain(ctx context.Context, req *connect.Request[apipb.DrainNodeRequest]) (*connect.Response[apipb.DrainNodeResponse], error) {
	if err := interruptTimeout("drain node", req.Msg.GetInterruptTimeoutMillis()); err != nil {
		return nil, err
	}
	_, err := s.propose(ctx, "drain node", &commandpb.DrainNode{
		Node: req.Msg.GetNode(), User: userOf(ctx), Reason: req.Msg.GetReason(), Time: timestamppb.New(s.cfg.Now()),
		InterruptMillis: req.Msg.GetInterruptTimeoutMillis(),
	})
	return answer(&apipb.DrainNodeResponse{}, err)
}

// Undrain allows new jobs on a node again.
func (s nodes) Undrain(ctx context.Context, req *connect.Request[apipb.UndrainNodeRequest]) (*connect.Response[apipb.UndrainNodeResponse], error) {
	_, err := s.propose(ctx, "undrain node", &commandpb.UndrainNode{Node: req.Msg.GetNode(), User: userOf(ctx), Time: timestamppb.New(s.cfg.Now())})
	return answer(&apipb.UndrainNodeResponse{}, err)
}

// Remove deletes the record of a node that will not return.
func (s nodes) Remove(ctx context.Context, req *connect.Request[apipb.RemoveNodeRequest]) (*connect.Response[apipb.RemoveNodeResponse], error) {
	_, err := s.propose(ctx, "remove node", &commandpb.RemoveNode{
		Node: req.Msg.GetNode(), User: userOf(ctx), Force: req.Msg.GetForce(), Time: timestamppb.New(s.cfg.Now()),
	})
	return answer(&apipb.RemoveNodeResponse{}, err)
}

// drainOf shows who drained a node, when and why; nil if it is not drained.
func drainOf(n *statepb.Node) *apipb.Drain {
	d := n.GetDrain()
	if d == nil {
		return nil
	}
	return &apipb.Drain{User: d.GetUser(), Time: d.GetTime(), Reason: d.GetReason()}
}
