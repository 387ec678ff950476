package state

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/bounds"
	"weir/messages/commandpb"
	"weir/messages/versions"
	"weir/scheduling/access"
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

// handlers lists, for each command, the function that carries it out and which part of the system
// may propose it: any, the leader of the term, or, for an operation, its controller. Commands that
// subjects may ask for are marked by asked, with the right that they need. A handler checks
// everything before it changes anything.
var handlers = byMessage(
	anyone(func(c *change) *change { return c }, (*change).beginTerm),
	asked(operators[*commandpb.RaiseVersion]("raise the version of the cluster"), anyone(func(c *change) *change { return c }, raiseVersion)),
	anyone(func(c *change) *change { return c }, checkState),
	asked(mayStart, anyone(ofOperations, operationChange.startOperation)),
	anyone(ofOperations, operationChange.advanceOperation),
	anyone(ofOperations, operationChange.setPendingReason),
	leader(ofOperations, "assign controller", operationChange.assignController),
	about(ofOperations, "prepare operation", byController, operationChange.prepareOperation),
	about(ofOperations, "define tasks of operation", byController, operationChange.defineTasks),
	asked(mayUpdate, about(ofOperations, "update operation", unended, operationChange.updateOperation)),
	asked(managers[*commandpb.SuspendOperation]("suspend"), about(ofOperations, "suspend operation", unended, operationChange.suspendOperation)),
	asked(managers[*commandpb.ResumeOperation]("resume"), about(ofOperations, "resume operation", unended, operationChange.resumeOperation)),
	asked(managers[*commandpb.AbortOperation]("abort"), anyone(ofOperations, operationChange.abortOperation)),
	asked(managers[*commandpb.CompleteOperation]("complete"), about(ofOperations, "complete operation", unended, operationChange.completeOperation)),
	about(ofOperations, "publish output of operation", byController, operationChange.publishOutput),

	leader(ofJobs, "start allocations", jobChange.startAllocations),
	about(ofJobs, "finish jobs of operation", byController, jobChange.finishJobs),
	leader(ofJobs, "abort allocations", jobChange.abortAllocations),
	asked(managers[*commandpb.StopJobs]("stop jobs of"), anyone(ofJobs, jobChange.stopJobs)),
	leader(ofJobs, "preempt allocations", jobChange.preemptAllocations),
	about(ofJobs, "hand over jobs of operation", byLeader, jobChange.handOver),

	bounded(leader(ofNodes, "register node", nodeChange.registerNode)),
	leader(ofNodes, "set node offline", nodeChange.setNodeOffline),
	leader(ofNodes, "set pace", nodeChange.setPace),
	asked(operators[*commandpb.DrainNode]("drain nodes"), anyone(ofNodes, nodeChange.drainNode)),
	asked(operators[*commandpb.UndrainNode]("undrain nodes"), anyone(ofNodes, nodeChange.undrainNode)),
	asked(operators[*commandpb.RemoveNode]("remove nodes"), anyone(ofNodes, nodeChange.removeNode)),

	about(ofMemory, "update reserves of operation", byController, memoryChange.updateReserves),
	about(ofMemory, "save memory profiles of operation", byController, memoryChange.saveMemoryProfiles),
	asked(operators[*commandpb.RemoveMemoryProfiles]("forget memory profiles"), anyone(ofMemory, memoryChange.removeMemoryProfiles)),

	asked(mayEdit, anyone(ofTrees, treeChange.editTree)),
	asked(operators[*commandpb.CreateTree]("create pool trees"), anyone(ofTrees, treeChange.createTree)),
	asked(operators[*commandpb.RemoveTree]("remove pool trees"), anyone(ofTrees, treeChange.removeTree)),
	asked(operators[*commandpb.SetDefaultTree]("set the default pool tree"), anyone(ofTrees, treeChange.setDefaultTree)),
	anyone(ofTrees, treeChange.checkpointVolumes),
	about(ofTrees, "admit operation", byLeader, treeChange.admitOperation),

	asked(operators[*commandpb.EditGroup]("change groups"), anyone(ofAccess, accessChange.editGroup)),
	asked(operators[*commandpb.Revoke]("revoke certificates"), anyone(ofAccess, accessChange.revoke)),
	asked(operators[*commandpb.EditAccounts]("give accounts"), anyone(ofAccess, accessChange.editAccounts)),
	asked(operators[*commandpb.EditNodeGrant]("change what nodes may claim"), anyone(ofAccess, accessChange.editNodeGrant)),
	asked(operators[*commandpb.EditStore]("change object stores"), anyone(ofAccess, accessChange.editStore)),
)

// handler carries out one kind of command.
type handler struct {
	message reflect.Type
	handle  func(*change, proto.Message) *refusal
	// allow returns an error unless who may ask for the command. If it is nil, the command is for
	// the system alone.
	allow func(r Rights, who access.Who, msg proto.Message) error
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

// asked handles a command that subjects may ask for, if the function allow returns nil. Its fields are
// bounded.
func asked[M proto.Message](allow func(Rights, access.Who, M) error, h handler) handler {
	h.allow = func(r Rights, who access.Who, msg proto.Message) error { return allow(r, who, msg.(M)) }
	return bounded(h)
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

// unended returns an operation that can still be changed: one that has not ended and is not about to
// end.
func unended[M operations](c *change, what string, m M) (*operation, *refusal) {
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
	if name := versions.Newer(msg, c.version); name != "" {
		return refuse(CodeNewerVersion, "%s: %s needs a newer version of the cluster than %d: raise it first: weir cluster upgrade finish", spoken(msg), name, c.version)
	}
	if c.by != nil {
		if named, ok := msg.(interface{ GetUser() string }); ok && named.GetUser() != c.by.GetUser() && named.GetUser() != "" {
			return refuse(CodeInvalidCommand, "the command of user %q is in the name of user %q", c.by.GetUser(), named.GetUser())
		}
		if err := RightsIn(c.State).Command(c.by, msg); err != nil && !unchecked() {
			return refuse(CodeDenied, "%v", err)
		}
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
