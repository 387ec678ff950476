package api

import (
	"context"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/resource"
)

// nodes implements NodeService.
type nodes struct{ *server }

// List shows nodes by name, all of them or those after one. Nodes beyond answerBytes are left out; the
// answer says how many, and after which one they are.
func (s nodes) List(ctx context.Context, req *connect.Request[apipb.ListNodesRequest]) (*connect.Response[apipb.ListNodesResponse], error) {
	wanted := req.Msg.GetState()
	if wanted != "" && wanted != statepb.NodeOnline && wanted != statepb.NodeOffline {
		return nil, invalid("list nodes: state %q: must be %s or %s", wanted, statepb.NodeOnline, statepb.NodeOffline)
	}
	out := &apipb.ListNodesResponse{}
	var ids []string
	err := s.read(ctx, "list nodes", func(st *state.State) error {
		ids = mapped(st.Nodes(), (*statepb.Node).GetId)
		return nil
	})
	left := s.cfg.Limits.AnswerBytes
	for some := range slices.Chunk(ids, nodesShown) {
		s.cfg.Store.View(func(st *state.State) {
			for _, id := range some {
				n, ok := st.Node(scheduling.NodeID(id))
				switch {
				case !ok || wanted != "" && n.GetState() != wanted || id <= req.Msg.GetAfter():
				case out.GetNext() != "":
					out.LeftOut++
				default:
					shown := nodeOf(st, n)
					if left -= proto.Size(shown) + nodeLiveBytes; left < 0 && len(out.GetNodes()) > 0 {
						out.Next, out.LeftOut = out.GetNodes()[len(out.GetNodes())-1].GetId(), 1
						continue
					}
					out.Nodes = append(out.Nodes, shown)
				}
			}
		})
	}
	if err == nil {
		err = s.addLive(ctx, "list nodes", out.Nodes...)
	}
	if err == nil {
		out.Refused, err = s.refusedAgents(ctx, "list nodes")
	}
	return answer(out, err)
}

const (
	// nodesShown is how many nodes one View shows.
	nodesShown = 512
	// nodeLiveBytes is about what addLive adds to a node.
	nodeLiveBytes = 50
)

// refusedAgents returns the agents that the leader remembers as refused, and that would be refused now. It is empty
// if the leader cannot be reached.
func (s *server) refusedAgents(ctx context.Context, what string) (out []*apipb.RefusedAgent, err error) {
	granted := false
	s.cfg.Store.View(func(st *state.State) { granted = len(state.RightsIn(st).NodeGrants()) > 0 })
	if !granted {
		return nil, nil
	}
	view, _, err := s.seen(ctx, what, &actorpb.SchedulerViewRequest{Refused: true})
	s.cfg.Store.View(func(st *state.State) {
		rights := state.RightsIn(st)
		for _, agent := range view.GetRefused() {
			claimed := &statepb.Node{Id: agent.GetNode(), Tags: agent.GetTags(), Resources: agent.GetResources()}
			why := rights.NodeRefusal(claimed)
			if why == "" {
				continue
			}
			var given *apipb.NodeGrant
			if gives := rights.GivenTo(claimed); gives != nil {
				given = nodeGrantOf(gives)
			}
			out = append(out, &apipb.RefusedAgent{
				Node: agent.GetNode(), Host: agent.GetHost(), Tags: agent.GetTags(), Resources: resourcesOf(agent.GetResources().Amounts()), Time: agent.GetTime(),
				Given: given, Reason: why,
			})
		}
	})
	return out, err
}

// Get shows one node, and those of its jobs whose operations the caller may read.
func (s nodes) Get(ctx context.Context, req *connect.Request[apipb.GetNodeRequest]) (*connect.Response[apipb.GetNodeResponse], error) {
	id := scheduling.NodeID(req.Msg.GetNode())
	out := &apipb.GetNodeResponse{}
	err := s.read(ctx, "get node", func(st *state.State) error {
		n, ok := st.Node(id)
		if !ok {
			return fail(connect.CodeNotFound, state.CodeUnknownNode, "get node: node %q not found: never registered, or removed: see weir node list", id)
		}
		out.Node = nodeOf(st, n)
		seen := askerOf(ctx).sight(st)
		for _, a := range st.AllocationsOfNode(id) {
			op, _ := st.Operation(scheduling.OperationID(a.GetOperationId()))
			if seen.reads(op) {
				out.Jobs = append(out.Jobs, jobs(s).running(st, op, a))
			} else {
				out.Hidden++
			}
			out.Node.MemoryLimits += describedTask(op, a.GetTask()).GetMemoryLimit()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.addLive(ctx, "get node", out.Node); err != nil {
		return nil, err
	}
	if err := jobs(s).addLive(ctx, "get node", out.Jobs); err != nil {
		return nil, err
	}
	return connect.NewResponse(out), nil
}

func nodeOf(st *state.State, n *statepb.Node) *apipb.Node {
	return &apipb.Node{
		Id: n.GetId(), State: n.GetState(), Resources: resourcesOf(n.GetResources().Amounts()),
		Usage: resourcesOf(st.NodeUsage(scheduling.NodeID(n.GetId()))), Tags: n.GetTags(), Version: n.GetVersion(), Host: n.GetHost(),
		Caveat: caveatOf(n), Tree: n.GetTree(), Drain: drainOf(n), RegisteredTime: n.GetRegisteredTime(), Jobs: int64(state.JobsOnNode(st, scheduling.NodeID(n.GetId()))),
	}
}

// caveatOf returns the caveat that the agent of a node reports. It adds one if the node is
// in no pool tree, and so gets no jobs.
func caveatOf(n *statepb.Node) string {
	if n.GetTree() != "" {
		return n.GetCaveat()
	}
	const none = "it gets no jobs: its tags match no pool tree's nodes_filter"
	if n.GetCaveat() == "" {
		return none
	}
	return none + "; " + n.GetCaveat()
}

// addLive adds what nodes last reported, if the leader can be reached.
func (s nodes) addLive(ctx context.Context, what string, shown ...*apipb.Node) error {
	view, _, err := s.seen(ctx, what, &actorpb.SchedulerViewRequest{})
	byID := map[string]*actorpb.NodeView{}
	for _, n := range view.GetNodes() {
		byID[n.GetId()] = n
	}
	for _, n := range shown {
		if live, ok := byID[n.GetId()]; ok {
			n.LastHeartbeat, n.MemoryUsed = live.GetLastHeartbeat(), live.GetMemoryUsed()
			if files := live.GetFiles(); files != nil {
				n.FileCache = &apipb.FileCache{Files: files.GetFiles(), Bytes: files.GetBytes(), Limit: files.GetLimit()}
			}
		}
	}
	return err
}

// Grants shows what agents of nodes may claim.
func (s nodes) Grants(ctx context.Context, _ *connect.Request[apipb.NodeGrantsRequest]) (*connect.Response[apipb.NodeGrantsResponse], error) {
	out := &apipb.NodeGrantsResponse{}
	err := s.read(ctx, "show grants of nodes", func(st *state.State) error {
		out.Grants = mapped(state.RightsIn(st).NodeGrants(), nodeGrantOf)
		return nil
	})
	return answer(out, err)
}

func nodeGrantOf(g *statepb.NodeGrant) *apipb.NodeGrant {
	out := &apipb.NodeGrant{Pattern: g.GetPattern(), Tags: g.GetTags(), ModifiedTime: g.GetModifiedTime()}
	for name, most := range g.GetMax() {
		if kind, err := resource.ParseKind(name); err == nil {
			if out.Max == nil {
				out.Max = map[string]float64{}
			}
			out.Max[name] = resource.Amounts{}.With(kind, most).Map()[name]
		}
	}
	return out
}

// EditGrant sets what agents of nodes may claim, or takes it away.
func (s nodes) EditGrant(ctx context.Context, req *connect.Request[apipb.EditNodeGrantRequest]) (*connect.Response[apipb.EditNodeGrantResponse], error) {
	const what = "change grant of nodes"
	m := req.Msg
	grant := &statepb.NodeGrant{Pattern: m.GetGrant().GetPattern(), Tags: m.GetGrant().GetTags()}
	for name, most := range m.GetGrant().GetMax() {
		kind, err := resource.ParseKind(name)
		if err != nil {
			return nil, invalid("%s: max: %v", what, err)
		}
		amounts, err := resource.FromMap(map[string]float64{name: most})
		if err != nil {
			return nil, invalid("%s: max: %v", what, err)
		}
		if grant.Max == nil {
			grant.Max = map[string]int64{}
		}
		grant.Max[name] = amounts.Of(kind)
	}
	_, err := s.propose(ctx, what, &commandpb.EditNodeGrant{
		Grant: grant, Disallow: m.GetDisallow(), Force: m.GetForce(), User: userOf(ctx),
	})
	return answer(&apipb.EditNodeGrantResponse{}, err)
}

// Drain keeps new jobs away from a node. If the request sets a timeout, it also asks the
// jobs on the node to stop.
func (s nodes) Drain(ctx context.Context, req *connect.Request[apipb.DrainNodeRequest]) (*connect.Response[apipb.DrainNodeResponse], error) {
	if err := interruptTimeout("drain node", req.Msg.GetInterruptTimeoutMillis()); err != nil {
		return nil, err
	}
	_, err := s.propose(ctx, "drain node", &commandpb.DrainNode{
		Node: req.Msg.GetNode(), User: userOf(ctx), Reason: req.Msg.GetReason(),
		InterruptMillis: req.Msg.GetInterruptTimeoutMillis(),
	})
	return answer(&apipb.DrainNodeResponse{}, err)
}

// Undrain allows new jobs on a node again.
func (s nodes) Undrain(ctx context.Context, req *connect.Request[apipb.UndrainNodeRequest]) (*connect.Response[apipb.UndrainNodeResponse], error) {
	_, err := s.propose(ctx, "undrain node", &commandpb.UndrainNode{Node: req.Msg.GetNode(), User: userOf(ctx)})
	return answer(&apipb.UndrainNodeResponse{}, err)
}

// Remove deletes the record of a node that will not return.
func (s nodes) Remove(ctx context.Context, req *connect.Request[apipb.RemoveNodeRequest]) (*connect.Response[apipb.RemoveNodeResponse], error) {
	_, err := s.propose(ctx, "remove node", &commandpb.RemoveNode{
		Node: req.Msg.GetNode(), User: userOf(ctx), Force: req.Msg.GetForce(),
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
