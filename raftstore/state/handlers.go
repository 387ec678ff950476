package state

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/bounds"
)

// Each kind of record that commands change has its own type for its handlers. Methods that several
// of these types need belong to the type change.
type (
	// treeChange changes pool trees, pools, and the pools that operations are in.
	treeChange struct{ *change }
	// jobChange grants, ends, stops and preempts jobs.
	jobChange struct{ *change }
	// nodeChange changes nodes, and may end their jobs.
	nodeChange struct{ jobChange }
	// operationChange changes operations, which are in pools of trees.
	operationChange struct{ treeChange }
	// memoryChange changes learned reserves and memory profiles.
	memoryChange struct{ *change }
)

func ofTrees(c *change) treeChange           { return treeChange{c} }
func ofJobs(c *change) jobChange             { return jobChange{c} }
func ofNodes(c *change) nodeChange           { return nodeChange{jobChange{c}} }
func ofOperations(c *change) operationChange { return operationChange{treeChange{c}} }
func ofMemory(c *change) memoryChange        { return memoryChange{c} }

// handlers lists, for each command, the function that carries it out and who may propose it:
// anyone, the leader of the term, or, for an operation, its controller or its users. A handler
// checks everything before it changes anything. Commands with texts that users and agents make are
// bounded.
var handlers = byMessage(
	anyone(func(c *change) *change { return c }, (*change).beginTerm),
	bounded(anyone(ofOperations, operationChange.startOperation)),
	anyone(ofOperations, operationChange.advanceOperation),
	anyone(ofOperations, operationChange.setPendingReason),
	leader(ofOperations, "assign controller", operationChange.assignController),
	about(ofOperations, "prepare operation", byController, operationChange.prepareOperation),
	about(ofOperations, "define tasks of operation", byController, operationChange.defineTasks),
	bounded(about(ofOperations, "update operation", byUser, operationChange.updateOperation)),
	bounded(about(ofOperations, "suspend operation", byUser, operationChange.suspendOperation)),
	bounded(about(ofOperations, "resume operation", byUser, operationChange.resumeOperation)),
	bounded(anyone(ofOperations, operationChange.abortOperation)),
	bounded(about(ofOperations, "complete operation", byUser, operationChange.completeOperation)),
	about(ofOperations, "publish output of operation", byController, operationChange.publishOutput),

	leader(ofJobs, "start allocations", jobChange.startAllocations),
	about(ofJobs, "finish jobs of operation", byController, jobChange.finishJobs),
	leader(ofJobs, "abort allocations", jobChange.abortAllocations),
	bounded(anyone(ofJobs, jobChange.stopJobs)),
	leader(ofJobs, "preempt allocations", jobChange.preemptAllocations),
	about(ofJobs, "hand over jobs of operation", byLeader, jobChange.handOver),

	bounded(leader(ofNodes, "register node", nodeChange.registerNode)),
	leader(ofNodes, "set node offline", nodeChange.setNodeOffline),
	bounded(anyone(ofNodes, nodeChange.drainNode)),
	bounded(anyone(ofNodes, nodeChange.undrainNode)),
	bounded(anyone(ofNodes, nodeChange.removeNode)),

	about(ofMemory, "update reserves of operation", byController, memoryChange.updateReserves),
	about(ofMemory, "save memory profiles of operation", byController, memoryChange.saveMemoryProfiles),
	bounded(anyone(ofMemory, memoryChange.removeMemoryProfiles)),

	bounded(anyone(ofTrees, treeChange.editTree)),
	bounded(anyone(ofTrees, treeChange.createTree)),
	bounded(anyone(ofTrees, treeChange.removeTree)),
	bounded(anyone(ofTrees, treeChange.setDefaultTree)),
	anyone(ofTrees, treeChange.checkpointVolumes),
	about(ofTrees, "admit operation", byLeader, treeChange.admitOperation),
)

// handler carries out one kind of command.
type handler struct {
	message reflect.Type
	handle  func(*change, proto.Message) *refusal
	// bounded is set if package bounds bounds the fields of the command.
	bounded bool
}

// bounded has the fields of a command checked before it is handled.
func bounded(h handler) handler {
	h.bounded = true
	return h
}

func byMessage(all ...handler) map[reflect.Type]handler {
	found := make(map[reflect.Type]handler, len(all))
	for _, h := range all {
		found[h.message] = h
	}
	return found
}

// anyone handles a command that anyone may propose, or whose function checks the proposer itself.
func anyone[C any, M proto.Message](of func(*change) C, do func(C, M) *refusal) handler {
	return handler{message: reflect.TypeFor[M](), handle: func(c *change, msg proto.Message) *refusal { return do(of(c), msg.(M)) }}
}

// leader handles a command that only the leader may propose.
func leader[C any, M leaders](of func(*change) C, what string, do func(C, M) *refusal) handler {
	return handler{message: reflect.TypeFor[M](), handle: func(c *change, msg proto.Message) *refusal {
		m := msg.(M)
		if refused := c.fence(what, m.GetTerm()); refused != nil {
			return refused
		}
		return do(of(c), m)
	}}
}

// about handles a command about an operation. The function `find` returns the operation if the
// proposer may change it. The parameter verb describes the command in refusals.
func about[C any, M operations](of func(*change) C, verb string, find func(*change, string, M) (*operation, *refusal),
	do func(C, string, *operation, M) *refusal) handler {
	return handler{message: reflect.TypeFor[M](), handle: func(c *change, msg proto.Message) *refusal {
		m := msg.(M)
		what := fmt.Sprintf("%s %q", verb, m.GetOperationId())
		o, refused := find(c, what, m)
		if refused != nil {
			return refused
		}
		return do(of(c), what, o, m)
	}}
}

// Methods that commands have.
type (
	leaders interface {
		proto.Message
		GetTerm() uint64
	}
	operations interface {
		proto.Message
		GetOperationId() string
	}
)

// byLeader returns the operation of a command that only the leader may propose.
func byLeader[M interface {
	operations
	leaders
}](c *change, what string, m M) (*operation, *refusal) {
	if refused := c.fence(what, m.GetTerm()); refused != nil {
		return nil, refused
	}
	return c.find(what, m.GetOperationId())
}

// byController returns the operation of a command that only its controller may propose.
func byController[M interface {
	operations
	GetEpoch() uint64
}](c *change, what string, m M) (*operation, *refusal) {
	return c.controlled(what, m.GetOperationId(), m.GetEpoch())
}

// byUser returns an operation that any user can still change: one that has not ended and is not
// about to end.
func byUser[M operations](c *change, what string, m M) (*operation, *refusal) {
	o, refused := c.find(what, m.GetOperationId())
	if refused == nil && (o.state.Finishing() || o.state.Terminal()) {
		return nil, refuse(CodeInvalidOperationState, "%s: it is %s already", what, o.state)
	}
	return o, refused
}

// timed is a command with a time.
type timed interface {
	GetTime() *timestamppb.Timestamp
}

// apply checks the command's time and passes it to its handler.
func (c *change) apply(msg proto.Message) *refusal {
	if t, ok := msg.(timed); ok {
		if err := c.setTime(t.GetTime()); err != nil {
			return err
		}
	}
	h, ok := handlers[reflect.TypeOf(msg)]
	if !ok {
		panic(fmt.Sprintf("apply %T at index %d: this version does not know the command: start a newer one", msg, c.index))
	}
	if h.bounded && c.limits.GetByBytes() {
		if err := bounds.Check(msg); err != nil {
			return refuse(CodeInvalidCommand, "%s: %v", spoken(msg), err)
		}
	}
	return h.handle(c, msg)
}

// spoken returns the name of a command in words, for errors: abort operation.
func spoken(msg proto.Message) string {
	var words strings.Builder
	for i, r := range string(msg.ProtoReflect().Descriptor().Name()) {
		if i > 0 && unicode.IsUpper(r) {
			words.WriteByte(' ')
		}
		words.WriteRune(unicode.ToLower(r))
	}
	return words.String()
}
