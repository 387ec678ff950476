package api

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// nodes implements NodeService.
type nodes struct{ *server }

// List shows nodes by name, as many as the request asks for, of those after one. Nodes beyond that, or beyond answerBytes,
// are left out; the answer says how many, and after which one they are. If the request asks for cells, it has those of
// all nodes instead.
func (s nodes) List(ctx context.Context, req *connect.Request[apipb.ListNodesRequest]) (*connect.Response[apipb.ListNodesResponse], error) {
	const what = "list nodes"
	wanted, err := nodeFilterOf(req.Msg)
	if err != nil {
		return nil, invalid("%s: %v", what, err)
	}
	var ids []string
	err = s.read(ctx, what, func(st *state.State) error {
		ids = mapped(st.Nodes(), (*statepb.Node).GetId)
		return nil
	})
	of := nodeListing{nodeFilter: wanted, left: s.cfg.Limits.AnswerBytes, out: &apipb.ListNodesResponse{Sums: &apipb.NodeSums{}}}
	if wanted.GetCells() != "" {
		of.out.Cells = &apipb.NodeCells{}
	}
	for some := range slices.Chunk(ids, nodesShown) {
		s.cfg.Store.View(func(st *state.State) {
			for _, id := range some {
				of.add(st, scheduling.NodeID(id))
			}
		})
	}
	of.out.Sums.Resources, of.out.Sums.Usage = resourcesOf(of.resources), resourcesOf(of.usage)
	if err == nil {
		err = s.addLive(ctx, what, of.out.Nodes...)
	}
	if err == nil && of.out.Cells != nil {
		err = s.finishCells(ctx, what, &of)
	}
	if err == nil && req.Msg.GetAfter() == "" {
		of.out.Refused, err = s.refusedAgents(ctx, what)
	}
	return answer(of.out, err)
}

// nodeFilter is what a list request selects.
type nodeFilter struct {
	*apipb.ListNodesRequest
	tags pooltree.Filter
	free resource.Amounts
	text string
	// part is the resource of cells, unless they are of what is measured.
	part resource.Kind
}

// nodeFilterOf returns the filter of a request, or what is wrong with it.
func nodeFilterOf(m *apipb.ListNodesRequest) (f nodeFilter, err error) {
	f.ListNodesRequest, f.text = m, strings.ToLower(m.GetFilter())
	switch state := m.GetState(); {
	case state != "" && state != statepb.NodeOnline && state != statepb.NodeOffline:
		return f, fmt.Errorf("state %q: must be %s or %s", state, statepb.NodeOnline, statepb.NodeOffline)
	case m.GetLimit() < 0:
		return f, fmt.Errorf("limit %d: must be at least 0", m.GetLimit())
	}
	if f.tags, err = pooltree.ParseFilter(m.GetTags()); err != nil {
		return f, fmt.Errorf("tags: %w", err)
	}
	if f.free, err = resource.FromMap(m.GetFree()); err != nil {
		return f, fmt.Errorf("free: %w", err)
	}
	if name := m.GetCells(); name != "" && name != cellsOfUsed {
		if f.part, err = resource.ParseKind(name); err != nil {
			return f, fmt.Errorf("cells: %w, or %s", err, cellsOfUsed)
		}
	}
	return f, nil
}

// selects reports whether a node matches the filter.
func (f nodeFilter) selects(st *state.State, n *statepb.Node) bool {
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), f.text) }
	switch {
	case f.GetState() != "" && f.GetState() != n.GetState(),
		f.GetDrained() && n.GetDrain() == nil,
		!strings.HasPrefix(n.GetId(), f.GetPrefix()),
		f.text != "" && !has(n.GetId()) && !slices.ContainsFunc(n.GetTags(), has),
		!f.tags.Match(n.GetTags()):
		return false
	case len(f.GetFree()) == 0:
		return true
	}
	takes := n.GetState() == statepb.NodeOnline && n.GetDrain() == nil && n.GetTree() != ""
	return takes && f.free.Fits(n.GetResources().Amounts().Sub(st.NodeUsage(scheduling.NodeID(n.GetId()))).Max(resource.Amounts{}))
}

// nodeListing is an answer to a list request in the making.
type nodeListing struct {
	nodeFilter
	// left is how many bytes more it may have.
	left int
	out  *apipb.ListNodesResponse
	// resources and usage are those of the nodes that are online.
	resources, usage resource.Amounts
	// memories are of the nodes that have cells.
	memories []int64
}

// add adds a node if the request selects it and there is room for it.
func (l *nodeListing) add(st *state.State, id scheduling.NodeID) {
	n, ok := st.Node(id)
	if !ok || !l.selects(st, n) {
		return
	}
	l.sum(st, n)
	switch {
	case l.out.Cells != nil:
		l.addCell(st, n)
		return
	case n.GetId() <= l.GetAfter():
		return
	case l.out.GetNext() != "":
		l.out.LeftOut++
		return
	}
	shown := nodeOf(st, n)
	l.left -= proto.Size(shown) + nodeLiveBytes
	if have := l.out.GetNodes(); len(have) > 0 && (l.left < 0 || len(have) == int(l.GetLimit())) {
		l.out.Next, l.out.LeftOut = have[len(have)-1].GetId(), 1
		return
	}
	l.out.Nodes = append(l.out.Nodes, shown)
}

// sum counts a node.
func (l *nodeListing) sum(st *state.State, n *statepb.Node) {
	l.out.Sums.Nodes++
	if n.GetDrain() != nil {
		l.out.Sums.Drained++
	}
	if n.GetState() != statepb.NodeOnline {
		l.out.Sums.Offline++
		return
	}
	id := scheduling.NodeID(n.GetId())
	l.out.Sums.Jobs += int64(state.JobsOnNode(st, id))
	l.resources, l.usage = l.resources.Add(n.GetResources().Amounts()), l.usage.Add(st.NodeUsage(id))
}

// cellsOfUsed are cells of the memory that nodes measure.
const cellsOfUsed = "memory_used"

// addCell adds the cell of a node. Those that there is no room for are counted.
func (l *nodeListing) addCell(st *state.State, n *statepb.Node) {
	if l.left -= len(n.GetId()) + cellBytes; l.left < 0 {
		l.out.LeftOut++
		return
	}
	const offline, online, drained = 0, 1, 2
	state := byte(online)
	switch {
	case n.GetState() != statepb.NodeOnline:
		state = offline
	case n.GetDrain() != nil:
		state = drained
	}
	has := n.GetResources().Amounts()
	cells := l.out.Cells
	cells.Names, cells.States, l.memories = append(cells.Names, n.GetId()), append(cells.States, state), append(l.memories, has.Memory)
	part := byte(0)
	if l.GetCells() != cellsOfUsed {
		part = hundredths(st.NodeUsage(scheduling.NodeID(n.GetId())).Of(l.part), has.Of(l.part))
	}
	cells.Parts = append(cells.Parts, part)
}

func hundredths(part, whole int64) byte {
	if whole <= 0 {
		return 0
	}
	return byte(min(100*float64(max(part, 0))/float64(whole), math.MaxUint8))
}

// finishCells adds what only the leader knows, if it can be reached, and leaves out names that are known.
func (s nodes) finishCells(ctx context.Context, what string, l *nodeListing) error {
	cells := l.out.Cells
	if l.GetCells() == cellsOfUsed {
		err := s.reports(ctx, what, cells.Names, func(i int, live *actorpb.NodeView) {
			cells.Parts[i] = hundredths(live.GetMemoryUsed(), l.memories[i])
			if cells.States[i] > 0 {
				l.out.Sums.MemoryUsed += live.GetMemoryUsed()
			}
		})
		if err != nil {
			return err
		}
	}
	names := fnv.New64a()
	for _, name := range cells.Names {
		_, _ = io.WriteString(names, name+"\n")
	}
	if cells.Version = names.Sum64(); cells.Version == l.GetKnown() {
		cells.Names = nil
	}
	return nil
}

const (
	// nodesShown is how many nodes one View shows.
	nodesShown = 512
	// nodesAsked is for how many nodes the leader is asked at once.
	nodesAsked = 4096
	// nodeLiveBytes is about what addLive adds to a node.
	nodeLiveBytes = 50
	// cellBytes is what a cell has beside its name.
	cellBytes = 4
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
	return s.reports(ctx, what, mapped(shown, (*apipb.Node).GetId), func(i int, live *actorpb.NodeView) {
		n := shown[i]
		n.LastHeartbeat, n.MemoryUsed = live.GetLastHeartbeat(), live.GetMemoryUsed()
		if files := live.GetFiles(); files != nil {
			n.FileCache = &apipb.FileCache{Files: files.GetFiles(), Bytes: files.GetBytes(), Limit: files.GetLimit()}
		}
	})
}

// reports calls a function with what each node last reported, and its place among the names, if the leader can be
// reached.
func (s nodes) reports(ctx context.Context, what string, names []string, each func(i int, live *actorpb.NodeView)) error {
	places := make(map[string]int, len(names))
	for i, name := range names {
		places[name] = i
	}
	for some := range slices.Chunk(names, nodesAsked) {
		view, _, err := s.seen(ctx, what, &actorpb.SchedulerViewRequest{Reports: some})
		if err != nil {
			return err
		}
		for _, live := range view.GetNodes() {
			if i, ok := places[live.GetId()]; ok {
				each(i, live)
			}
		}
	}
	return nil
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
