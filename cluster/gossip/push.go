package gossip

import (
	"context"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// maxPushed is to how many other members a message is sent at once. Where there are
	// more of them, rounds of gossip take less of each.
	maxPushed = 15
	// maxPushes is how many messages are sent in a pushInterval: so many packets fit into
	// the socket of a member that does not get a processor meanwhile.
	maxPushes    = 64
	pushInterval = 20 * time.Millisecond
)

// pusher sends messages of our own to all other members in one hop, while gossip waits for
// its next round, tells some of them, by chance, and takes seconds for hundreds of messages.
// It spares no round: what a push loses gossip repairs.
type pusher struct {
	// send sends a message to all others, if these are few.
	send  func(encoded []byte)
	queue chan []byte
}

func newPusher(send func(encoded []byte)) *pusher {
	return &pusher{send: send, queue: make(chan []byte, maxQueued)}
}

// push has an encoded message sent soon. Where too many wait, it goes by gossip alone.
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

// pace is that of maxPushes in each pushInterval.
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

// sendToAll sends a message to all other members, if they are few. Errors are those of the
// socket, of which gossip tells too.
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
