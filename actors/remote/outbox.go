package remote

import (
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/remotepb"
)

const (
	// frameOverhead is what a frame takes beyond its payload, at most: the
	// actor's name, numbers, lengths.
	frameOverhead = maxName + 64
	// reserve is the part of the bound on messages that answers about failures
	// may have on top of it.
	reserve = 4
)

// outbox is the bounded queue of frames to one life of one peer. It is not
// safe for concurrent use.
//
// Invariant: messages and bytes are the sums over queue[head:].
type outbox struct {
	maxMessages, maxBytes int

	queue           []outgoing
	head            int
	messages, bytes int

	ping, pong bool
}

// outgoing is a frame that waits.
type outgoing struct {
	frame *remotepb.Frame
	bytes int
	// deadline is when a request need not be sent any more.
	deadline time.Time
}

// push queues a frame that carries a message, and says whether there was room.
// There always is for one message.
func (o *outbox) push(out outgoing) bool {
	if o.messages > 0 && (o.messages+1 > o.maxMessages || o.bytes+out.bytes > o.maxBytes) {
		return false
	}
	o.append(out)
	return true
}

// pushNotice queues a frame without a message. Notices have some room that
// messages have not.
func (o *outbox) pushNotice(frame *remotepb.Frame) bool {
	if o.messages+1 > o.maxMessages+o.maxMessages/reserve+reserve {
		return false
	}
	o.append(outgoing{frame: frame, bytes: proto.Size(frame) + frameOverhead})
	return true
}

func (o *outbox) append(out outgoing) {
	o.queue = append(o.queue, out)
	o.messages++
	o.bytes += out.bytes
}

// take appends the next frames to batch, at least one message and otherwise up
// to maxBytes. Pings and pongs go first. Requests are told how much time is
// left; those that have none are left out and counted.
func (o *outbox) take(batch []*remotepb.Frame, maxBytes int, now time.Time) (_ []*remotepb.Frame, late int) {
	if o.ping {
		batch = append(batch, &remotepb.Frame{Kind: &remotepb.Frame_Ping{Ping: &remotepb.Ping{}}})
	}
	if o.pong {
		batch = append(batch, &remotepb.Frame{Kind: &remotepb.Frame_Pong{Pong: &remotepb.Pong{}}})
	}
	o.ping, o.pong = false, false
	taken := 0
	for o.messages > 0 {
		next := &o.queue[o.head]
		if taken > 0 && taken+next.bytes > maxBytes {
			break
		}
		out := *next
		*next = outgoing{}
		o.head++
		o.messages--
		o.bytes -= out.bytes
		if request := out.frame.GetRequest(); request != nil {
			left := out.deadline.Sub(now)
			if left <= 0 {
				late++
				continue
			}
			request.TimeoutMillis = millis(left)
		}
		taken += out.bytes
		batch = append(batch, out.frame)
	}
	o.compact()
	return batch, late
}

// compact keeps the part of queue that has been taken small.
func (o *outbox) compact() {
	switch {
	case o.messages == 0:
		o.queue, o.head = o.queue[:0], 0
		if cap(o.queue) > 4096 {
			o.queue = nil
		}
	case o.head > len(o.queue)/2:
		n := copy(o.queue, o.queue[o.head:])
		clear(o.queue[n:])
		o.queue, o.head = o.queue[:n], 0
	}
}

// millis rounds up, so that what has time left does not say that it has none.
func millis(d time.Duration) uint32 {
	ms := (d + time.Millisecond - 1) / time.Millisecond
	return uint32(min(ms, 1<<32-1))
}
