package remote

import (
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/remotepb"
)

const (
	// frameOverhead bounds the size of a frame without its payload, in bytes: the
	// actor's name, numbers, lengths.
	frameOverhead = maxName + 64
	// reserve sets the extra room for notices, in messages: maxMessages/reserve + reserve.
	reserve = 4
)

// outbox is the bounded queue of frames to one incarnation of a peer. It is
// not safe for concurrent use.
//
// Invariant: messages and bytes are the sums over queue[head:].
type outbox struct {
	maxMessages, maxBytes int

	queue           []outgoing
	head            int
	messages, bytes int

	ping, pong bool
}

// outgoing is a queued frame.
type outgoing struct {
	frame *remotepb.Frame
	bytes int
	// deadline is the time after which a request is no longer sent; unused for other frames.
	deadline time.Time
}

// push queues a frame with a message, and returns whether there was room. An
// empty queue has room for any message.
func (o *outbox) push(out outgoing) bool {
	if o.messages > 0 && (o.messages+1 > o.maxMessages || o.bytes+out.bytes > o.maxBytes) {
		return false
	}
	o.append(out)
	return true
}

// pushNotice queues a frame without a message, and returns whether there was
// room. Notices have some extra room.
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

// take moves the next frames to `batch`, up to maxBytes but at least one message. Pings and pongs
// go first. take writes into each request the time left to it. Requests with no time left are
// dropped; `late` is their number.
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

// compact keeps the part of queue before head small.
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

// millis rounds up, so that a request with time left does not get 0.
func millis(d time.Duration) uint32 {
	ms := (d + time.Millisecond - 1) / time.Millisecond
	return uint32(min(ms, 1<<32-1))
}
