package gossip

import (
	"context"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// maxPushed is the largest number of other members to which messages are pushed. With
	// more members, rounds of gossip cost each of them less.
	maxPushed = 15
	// maxPushes is the maximum number of messages pushed in a pushInterval. That many packets fit
	// into the socket buffer of a member that does not run meanwhile.
	maxPushes    = 64
	pushInterval = 20 * time.Millisecond
)

// pusher sends this replica's messages directly to all other members. Gossip alone waits for
// its next round, sends to a few random members, and takes seconds for hundreds of messages.
// Pushed messages are gossiped too, which repairs lost packets.
type pusher struct {
	// send sends a message to all other members, if there are at most maxPushed.
	send  func(encoded []byte)
	queue chan []byte
}

func newPusher(send func(encoded []byte)) *pusher {
	return &pusher{send: send, queue: make(chan []byte, maxQueued)}
}

// push queues an encoded message for sending. If the queue is full, only gossip sends it.
func (p *pusher) push(encoded []byte) {
	select {
	case p.queue <- encoded:
	default:
	}
}

// run sends messages until ctx ends.
func (p *pusher) run(ctx context.Context) {
	var pace pace
	for {
		select {
		case <-ctx.Done():
			return
		case encoded := <-p.queue:
			select {
			case <-ctx.Done():
				return
			case <-time.After(pace.next(time.Now())):
			}
			p.send(encoded)
		}
	}
}

// pace limits the rate to maxPushes in each pushInterval.
type pace struct {
	began time.Time
	taken int
}

// next returns how long the next message has to wait.
func (p *pace) next(now time.Time) time.Duration {
	if now.Sub(p.began) >= pushInterval {
		p.began, p.taken = now, 0
	}
	if p.taken == maxPushes {
		p.began, p.taken = p.began.Add(pushInterval), 0
	}
	p.taken++
	return max(p.began.Sub(now), 0)
}

// sendToAll sends a message to all other members, if there are at most maxPushed. It ignores errors
// of the socket, which gossip reports too.
func sendToAll(list *memberlist.Memberlist, encoded []byte) {
	members := list.Members()
	if len(members) > maxPushed+1 {
		return
	}
	self := list.LocalNode().Name
	for _, member := range members {
		if member.Name != self {
			_ = list.SendBestEffort(member, encoded)
		}
	}
}
