package events

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/eventpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// Teller turns commands into events. Between commands it keeps only the previous pool trees, the
// tree of each node, and the name of the default tree.
type Teller struct {
	trees       map[string]*statepb.PoolTree
	nodes       map[string]string
	defaultTree string
}

// NewTeller returns a teller that starts from the state s.
func NewTeller(s *state.State) *Teller {
	t := &Teller{trees: map[string]*statepb.PoolTree{}, nodes: map[string]string{}, defaultTree: string(s.DefaultTree())}
	for _, tree := range s.Trees() {
		t.trees[tree.GetName()] = tree
	}
	for _, node := range s.Nodes() {
		t.nodes[node.GetId()] = node.GetTree()
	}
	return t
}

// Tell appends the events of one command to the slice told, which holds the events of earlier
// commands of the same log entry. The slice caused holds the changes that the command made. The
// parameter s is the state after the command. Equal commands on equal states give equal events.
func (t *Teller) Tell(told []*eventpb.Event, index uint64, msg proto.Message, caused []state.Event, s *state.State) []*eventpb.Event {
	c := telling{Teller: t, state: s, command: msg, index: index, time: timestamppb.New(s.LastTime()), events: told}
	for _, event := range caused {
		c.tell(event)
	}
	if m, ok := msg.(*commandpb.SetDefaultTree); ok && string(s.DefaultTree()) != t.defaultTree {
		c.add(&eventpb.Event{Kind: TreeDefault, Tree: m.GetTree(), User: m.GetUser(), From: t.defaultTree, To: m.GetTree()})
	}
	t.defaultTree = string(s.DefaultTree())
	return c.events
}

// telling is the conversion of one command.
type telling struct {
	*Teller
	state   *state.State
	command proto.Message
	index   uint64
	time    *timestamppb.Timestamp
	events  []*eventpb.Event
}

// user returns the user whom the command names, or "" if it names none.
func (c *telling) user() string {
	if m, ok := c.command.(interface{ GetUser() string }); ok {
		return m.GetUser()
	}
	return ""
}

// add sets an event's index, position and time, and appends it.
func (c *telling) add(e *eventpb.Event) {
	e.Index, e.Position, e.Time = c.index, uint32(len(c.events)), c.time
	c.events = append(c.events, e)
}

func (c *telling) tell(event state.Event) {
	switch e := event.(type) {
	case state.TermBegan:
		c.add(&eventpb.Event{Kind: LeaderChanged, Term: e.Term, Replica: string(e.Replica)})
	case state.OperationAccepted:
		c.accepted(e)
	case state.OperationChanged:
		c.operationChanged(e)
	case state.ControllerAssigned:
		o := c.ofOperation(OperationController, e.ID)
		o.Replica, o.Epoch = string(e.Replica), e.Epoch
		c.add(o)
	case state.OperationArchived:
		c.add(&eventpb.Event{Kind: OperationArchived, Operation: string(e.ID)})
	case state.AllocationsStarted:
		c.events = slices.Grow(c.events, len(e.Allocations))
		for _, a := range e.Allocations {
			c.started(a)
		}
	case state.StopsOrdered:
		for _, a := range e.Allocations {
			c.stopping(a)
		}
	case state.AllocationsEnded:
		for _, ended := range e.Ended {
			c.ended(ended)
		}
	case state.TreeChanged:
		c.treeChanged(e)
	case state.NodeChanged:
		c.nodeChanged(e)
	case state.NodeRemoved:
		c.nodeRemoved(e)
	case state.NodeRefused:
		c.add(&eventpb.Event{Kind: NodeRefused, Node: string(e.ID), Tree: c.nodes[string(e.ID)], User: c.user(), Message: e.Reason})
	default:
		c.tellWork(event)
	}
}

// ofOperation returns an event with an operation's trees and pools. If the operation's record is
// gone, the event has only its id.
func (c *telling) ofOperation(kind string, id scheduling.OperationID) *eventpb.Event {
	e := &eventpb.Event{Kind: kind, Operation: string(id)}
	o, ok := c.state.Operation(id)
	if !ok {
		return e
	}
	for i, in := range o.GetTrees() {
		if i == 0 {
			e.Tree, e.Pool = in.GetTree(), in.GetPool()
		}
		if len(o.GetTrees()) > 1 {
			e.Places = append(e.Places, &eventpb.Place{Tree: in.GetTree(), Pool: in.GetPool()})
		}
	}
	return e
}

func (c *telling) accepted(e state.OperationAccepted) {
	out := c.ofOperation(OperationAccepted, e.ID)
	if o, ok := c.state.Operation(e.ID); ok {
		out.User, out.To, out.Attributes = o.GetUser(), "starting", nameOf(o.GetSpec())
	}
	c.add(out)
}

// nameOf returns the title and alias of an operation.
func nameOf(spec *statepb.OperationSpec) map[string]string {
	out := map[string]string{"title": spec.GetTitle(), "alias": spec.GetAlias()}
	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })
	if len(out) == 0 {
		return nil
	}
	return out
}

func (c *telling) operationChanged(e state.OperationChanged) {
	out := c.ofOperation(OperationState, e.ID)
	o, _ := c.state.Operation(e.ID)
	if e.From != e.To {
		out.From, out.To = e.From.String(), e.To.String()
		if step := stepOf(o, c.index, out.GetTo()); step != nil {
			out.Reason, out.Attributes = step.GetNote(), maps.Clone(step.GetAttributes())
			out.User = step.GetAttributes()["user"]
			delete(out.Attributes, "user")
		}
		if e.To.Finishing() || e.To.Terminal() {
			out.Message = o.GetResult().GetMessage()
		}
		c.add(out)
		return
	}
	switch m := c.command.(type) {
	case *commandpb.SuspendOperation:
		out.Kind, out.User = OperationSuspended, m.GetUser()
		if e.AbortJobs {
			out.Attributes = map[string]string{"abort_running_jobs": "true"}
		}
	case *commandpb.ResumeOperation:
		out.Kind, out.User = OperationResumed, m.GetUser()
	case *commandpb.AdmitOperation:
		out.Kind = OperationAdmitted
	case *commandpb.UpdateOperation:
		out.Kind, out.User, out.Attributes = OperationUpdated, m.GetUser(), updates(m)
	case *commandpb.EditTree:
		out.Kind, out.User, out.Reason = OperationUpdated, m.GetUser(), "pool_renamed"
	default:
		out.Kind = OperationUpdated
	}
	c.add(out)
}

// stepOf returns the event in an operation's record for the operation's change to a state.
func stepOf(o *statepb.Operation, index uint64, to string) *statepb.OperationEvent {
	steps := o.GetEvents()
	for i := len(steps) - 1; i >= 0 && steps[i].GetIndex() == index; i-- {
		if steps[i].GetState() == to {
			return steps[i]
		}
	}
	return nil
}

// updates returns the new values that a command sets, by path.
func updates(m *commandpb.UpdateOperation) map[string]string {
	out := map[string]string{}
	for _, change := range m.GetChanges() {
		prefix := ""
		if change.GetTree() != "" {
			prefix = change.GetTree() + ":"
		}
		if change.Pool != nil {
			out[prefix+"pool"] = change.GetPool()
		}
		for path, value := range change.GetOptions().GetValues() {
			out[prefix+path] = text(value.AsInterface())
		}
	}
	return out
}

func token(term, index uint64) string {
	var text [41]byte
	return string(strconv.AppendUint(append(strconv.AppendUint(text[:0], term, 10), ':'), index, 10))
}

// resourcesOf converts resources to the units of events.
func resourcesOf(r *statepb.Resources) *eventpb.Resources {
	if r == nil {
		return nil
	}
	return &eventpb.Resources{
		UserSlots: r.GetUserSlots(), Cpu: r.Amounts().CPU.Cores(), Gpu: r.GetGpu(), Memory: r.GetMemory(), Network: r.GetNetwork(),
	}
}

// secondsBetween returns the seconds between two times; 0 if one of them is unknown or the first is
// later.
func secondsBetween(from, to *timestamppb.Timestamp) float64 {
	if from == nil || to == nil {
		return 0
	}
	return max(to.AsTime().Sub(from.AsTime()), 0).Round(time.Millisecond).Seconds()
}
