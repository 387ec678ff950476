package remote

import (
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
)

// Inbox bounds the messages from peers that wait in the mailbox of one published
// actor. Spawn that actor, and no other, with Mailbox, so that the Inbox sees
// which messages it processes.
type Inbox struct {
	maxMessages, maxBytes int
	full                  proto.Message

	mu              sync.Mutex
	attached        bool
	messages, bytes int
}

// NewInbox returns an Inbox with the limits of r. `full` is the reply to requests for which there
// is no room; if it is nil, such requests fail with ErrQueueFull. A message that is not a request
// is dropped and counted.
func (r *Remote) NewInbox(full proto.Message) *Inbox {
	return &Inbox{maxMessages: r.limits.InboxMessages, maxBytes: r.limits.InboxBytes, full: full}
}

// Mailbox returns the Props option that gives an actor this Inbox. Spawn the Inbox's actor with it.
func (i *Inbox) Mailbox() actor.PropsOption {
	return actor.WithMailbox(func() actor.Mailbox {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.attached = true
		return &inboxMailbox{Mailbox: actor.Unbounded()(), inbox: i}
	})
}

func (i *Inbox) spawned() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.attached
}

// reserve counts a message of size bytes as waiting, or returns ErrQueueFull.
func (i *Inbox) reserve(size int) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.messages >= i.maxMessages || i.bytes+size > i.maxBytes {
		return fmt.Errorf("%w: %d messages of %d bytes waiting, limits %d and %d (InboxMessages, InboxBytes)",
			ErrQueueFull, i.messages, i.bytes, i.maxMessages, i.maxBytes)
	}
	i.messages++
	i.bytes += size
	return nil
}

// release undoes reserve when the actor begins to process the message.
func (i *Inbox) release(size int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.messages--
	i.bytes -= size
}

// inboxMailbox is the mailbox of an Inbox's actor. A message that the actor begins to process no
// longer counts towards the Inbox's limits.
type inboxMailbox struct {
	actor.Mailbox
	inbox *Inbox
}

// RegisterHandlers implements actor.Mailbox.
func (m *inboxMailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(inboxInvoker{invoker, m.inbox}, dispatcher)
}

type inboxInvoker struct {
	actor.MessageInvoker
	inbox *Inbox
}

// InvokeUserMessage implements actor.MessageInvoker.
func (v inboxInvoker) InvokeUserMessage(message any) {
	if in, ok := actor.UnwrapEnvelopeMessage(message).(*Inbound); ok && in.inbox == v.inbox {
		v.inbox.release(in.size)
	}
	v.MessageInvoker.InvokeUserMessage(message)
}
