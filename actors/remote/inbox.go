package remote

import (
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
)

// Inbox bounds what waits for one actor that is published: messages from peers
// that lie in its mailbox. The actor is spawned with Mailbox, so that the Inbox
// sees what it takes up; no other actor is.
type Inbox struct {
	maxMessages, maxBytes int
	full                  proto.Message

	mu              sync.Mutex
	attached        bool
	messages, bytes int
}

// NewInbox returns an Inbox with the limits of r. full answers requests that
// find no room; nil: they fail with ErrQueueFull. A message that nobody waits on
// is dropped and counted instead.
func (r *Remote) NewInbox(full proto.Message) *Inbox {
	return &Inbox{maxMessages: r.limits.InboxMessages, maxBytes: r.limits.InboxBytes, full: full}
}

// Mailbox makes an actor one whose messages the Inbox bounds.
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

// reserve takes the place of a message, or returns ErrQueueFull.
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

// release gives back the place of a message that its actor takes up.
func (i *Inbox) release(size int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.messages--
	i.bytes -= size
}

// inboxMailbox is a mailbox that tells its inbox of what leaves it.
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
