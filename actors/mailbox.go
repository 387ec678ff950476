package actors

import (
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/controller"
	"weir/actors/node"
	"weir/actors/reconcile"
)

// mailbox holds no more than one Look at a time: an actor that looks sees all that
// has changed by then, so a second one that waits would say nothing. A mailbox is
// bounded, then, by who else may write to its actor: the gateway by its limits,
// followers of the log by maxAhead.
type mailbox struct {
	actor.Mailbox
	// looking: a Look waits.
	looking *atomic.Bool
}

func newMailbox() actor.Mailbox { return &mailbox{actor.Unbounded()(), new(atomic.Bool)} }

// PostUserMessage implements actor.Mailbox.
func (m *mailbox) PostUserMessage(message any) {
	if isLook(message) && m.looking.Swap(true) {
		return
	}
	m.Mailbox.PostUserMessage(message)
}

// RegisterHandlers implements actor.Mailbox.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(lookInvoker{invoker, m.looking}, dispatcher)
}

type lookInvoker struct {
	actor.MessageInvoker
	looking *atomic.Bool
}

// InvokeUserMessage implements actor.MessageInvoker. What changes from now on may
// be missed by this Look, so that the next one has to wait its turn.
func (v lookInvoker) InvokeUserMessage(message any) {
	if isLook(message) {
		v.looking.Store(false)
	}
	v.MessageInvoker.InvokeUserMessage(message)
}

func isLook(message any) bool {
	switch message.(type) {
	case controller.Look, node.Look, reconcile.Look:
		return true
	default:
		return false
	}
}
