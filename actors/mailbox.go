package actors

import (
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/node"
	"weir/actors/reconcile"
)

// mailbox holds no more than one Look at a time: an actor that looks sees all that
// has changed by then, so a second one that waits would say nothing. Of heartbeats it
// holds the latest, for that says all that an older one did. A mailbox is
// bounded, then, by who else may write to its actor: the gateway by its limits,
// followers of the log by maxAhead.
type mailbox struct {
	actor.Mailbox
	// looking: a Look waits.
	looking atomic.Bool
	// latest is the heartbeat that waits; nil: none does.
	latest atomic.Pointer[node.FromAgent]
}

// latest has the place of the heartbeat that waits.
type latest struct{}

func newMailbox() actor.Mailbox { return &mailbox{Mailbox: actor.Unbounded()()} }

// PostUserMessage implements actor.Mailbox.
func (m *mailbox) PostUserMessage(message any) {
	switch said := message.(type) {
	case reconcile.Look:
		if m.looking.Swap(true) {
			return
		}
	case node.FromAgent:
		if said.Replaced == nil {
			break
		}
		if older := m.latest.Swap(&said); older != nil {
			older.Replaced()
			return
		}
		message = latest{}
	}
	m.Mailbox.PostUserMessage(message)
}

// RegisterHandlers implements actor.Mailbox.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(taker{invoker, m}, dispatcher)
}

type taker struct {
	actor.MessageInvoker
	from *mailbox
}

// InvokeUserMessage implements actor.MessageInvoker. What changes from now on may
// be missed by this Look, so that the next one has to wait its turn.
func (t taker) InvokeUserMessage(message any) {
	switch message.(type) {
	case reconcile.Look:
		t.from.looking.Store(false)
	case latest:
		message = *t.from.latest.Swap(nil)
	}
	t.MessageInvoker.InvokeUserMessage(message)
}
