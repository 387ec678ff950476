package actors

import (
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/node"
	"weir/actors/reconcile"
)

// mailbox holds at most one Look at a time: an actor that handles a Look sees all earlier changes,
// so a second waiting Look would be redundant. It holds only the latest heartbeat, which includes
// all that an older one reported. The mailbox does not bound other messages, because their senders
// do: the gateway by its limits, followers of the log by maxAhead.
type mailbox struct {
	actor.Mailbox
	// looking means that a Look is queued.
	looking atomic.Bool
	// latest is the queued heartbeat, or nil.
	latest atomic.Pointer[node.FromAgent]
}

// latest marks the place of the heartbeat in the queue.
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

// InvokeUserMessage implements actor.MessageInvoker. It first clears `looking`: the current Look
// may miss later changes, so the next Look has to be queued.
func (t taker) InvokeUserMessage(message any) {
	switch message.(type) {
	case reconcile.Look:
		t.from.looking.Store(false)
	case latest:
		message = *t.from.latest.Swap(nil)
	}
	t.MessageInvoker.InvokeUserMessage(message)
}
