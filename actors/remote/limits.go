package remote

import (
	"errors"
	"fmt"
	"time"

	"weir/cluster/identity"
)

// Limits bounds the queues of a Remote and how long it waits. Start from
// DefaultLimits.
type Limits struct {
	// QueueMessages is how many messages may wait to be sent to one peer. Default 16,384: about 50
	// ms of a stream's throughput; messages behind more than that would be late anyway.
	QueueMessages int
	// QueueBytes is how many bytes of messages may wait to be sent to one peer.
	// Default 16 MiB: four of the largest messages.
	QueueBytes int
	// InboxMessages and InboxBytes bound the messages from peers that wait for one published actor,
	// by number and by size. Default 16,384 and 64 MiB: an actor that far behind does not answer in
	// time.
	InboxMessages, InboxBytes int
	// MaxMessageBytes is the size of the largest encoded message that is sent or accepted. Default
	// 4 MiB: a plan for a large node is below 1 MiB.
	MaxMessageBytes int
	// BatchBytes is how many bytes of messages are written at once. Default 64 KiB: large enough to
	// make the cost per message small, but small enough not to delay a ping much. A larger message
	// is written alone.
	BatchBytes int
	// OpenRequests is how many requests to one peer may be unanswered. Default 16,384, like
	// QueueMessages.
	OpenRequests int
	// RequestTimeout is the timeout of a Request without a deadline. Default
	// 30 s: longer than an election, so that requests survive one.
	RequestTimeout time.Duration
	// KeepAlivePeriod is after what silence a peer is pinged. Default 1 s.
	KeepAlivePeriod time.Duration
	// KeepAliveTimeout is how long a peer may be silent before its stream ends.
	// Default 3 s: three pings, and shorter than a node's lease. An agent that falls silent is pinged once.
	KeepAliveTimeout time.Duration
	// AgentPatience multiplies both if one of the sides is an agent. Default 10: whether an agent is alive is told
	// by its heartbeats, which come every 5 s in a large cluster, before a ping is due. A busy machine with thousands of
	// streams would only make more work for itself if it took slow ones for dead: their handshakes come next.
	// The agent pings first: a replica waits half as long again.
	AgentPatience int
	// ConnectTimeout bounds dialing and the handshake. Default 5 s: enough for a retransmitted SYN on a slow network.
	// Streams with agents have four times as long: thousands of agents connect with a replica that comes back, and
	// whoever gave up before its turn would only come again.
	ConnectTimeout time.Duration
	// FarewellTimeout bounds the end of a stream, when the reason is sent to the peer. Default 1 s:
	// the reason is not essential, and should not delay a restart.
	FarewellTimeout time.Duration
	// RedialMin and RedialMax bound the pause between attempts to connect, which doubles and has
	// jitter. Default 100 ms and 5 s: a restarted peer is reconnected soon, and a dead one costs
	// little.
	RedialMin, RedialMax time.Duration
}

// DefaultLimits returns the default limits.
func DefaultLimits() Limits {
	return Limits{
		QueueMessages:    16_384,
		QueueBytes:       16 << 20,
		InboxMessages:    16_384,
		InboxBytes:       64 << 20,
		MaxMessageBytes:  4 << 20,
		BatchBytes:       64 << 10,
		OpenRequests:     16_384,
		RequestTimeout:   30 * time.Second,
		KeepAlivePeriod:  time.Second,
		KeepAliveTimeout: 3 * time.Second,
		AgentPatience:    10,
		ConnectTimeout:   5 * time.Second,
		FarewellTimeout:  time.Second,
		RedialMin:        100 * time.Millisecond,
		RedialMax:        5 * time.Second,
	}
}

// Validate returns an error that names the first limit that cannot work.
func (l Limits) Validate() error {
	counts := []struct {
		name  string
		value int
	}{
		{"QueueMessages", l.QueueMessages}, {"QueueBytes", l.QueueBytes}, {"InboxMessages", l.InboxMessages}, {"InboxBytes", l.InboxBytes},
		{"MaxMessageBytes", l.MaxMessageBytes}, {"BatchBytes", l.BatchBytes}, {"OpenRequests", l.OpenRequests}, {"AgentPatience", l.AgentPatience},
	}
	for _, c := range counts {
		if c.value <= 0 {
			return fmt.Errorf("limits: %s is %d: must be positive", c.name, c.value)
		}
	}
	waits := []struct {
		name  string
		value time.Duration
	}{
		{"RequestTimeout", l.RequestTimeout}, {"KeepAlivePeriod", l.KeepAlivePeriod}, {"KeepAliveTimeout", l.KeepAliveTimeout},
		{"ConnectTimeout", l.ConnectTimeout}, {"FarewellTimeout", l.FarewellTimeout}, {"RedialMin", l.RedialMin}, {"RedialMax", l.RedialMax},
	}
	for _, w := range waits {
		if w.value < time.Millisecond {
			return fmt.Errorf("limits: %s is %v: must be at least 1ms", w.name, w.value)
		}
	}
	switch {
	case l.QueueBytes < l.MaxMessageBytes:
		return errors.New("limits: QueueBytes is below MaxMessageBytes: the largest message could not be sent")
	case l.InboxBytes < l.MaxMessageBytes:
		return errors.New("limits: InboxBytes is below MaxMessageBytes: the largest message could not be received")
	case l.KeepAliveTimeout <= l.KeepAlivePeriod:
		return errors.New("limits: KeepAliveTimeout must be longer than KeepAlivePeriod")
	case l.RedialMax < l.RedialMin:
		return errors.New("limits: RedialMax is below RedialMin")
	}
	return nil
}

// keepAlive returns after what silence a peer is pinged, and after what silence it is lost.
func (l Limits) keepAlive(self, peer identity.Role) (period, timeout time.Duration) {
	factor := time.Duration(1)
	if self == identity.Agent || peer == identity.Agent {
		factor = time.Duration(l.AgentPatience)
	}
	period, timeout = factor*l.KeepAlivePeriod, factor*l.KeepAliveTimeout
	if self != identity.Agent && peer == identity.Agent {
		period = min(3*period/2, timeout)
	}
	return period, timeout
}

// connect bounds dialing and the handshake of a stream.
func (l Limits) connect(self, peer identity.Role) time.Duration {
	if self == identity.Agent || peer == identity.Agent {
		return 4 * l.ConnectTimeout
	}
	return l.ConnectTimeout
}

// maxReadBytes bounds one read from the stream, in bytes. A peer that ignores this side's
// MaxMessageBytes gets ErrTooLarge for a message of up to this size; a larger message breaks the
// stream. A hello fits, however small MaxMessageBytes is.
func (l Limits) maxReadBytes() int {
	return 4*l.MaxMessageBytes + 16<<10
}
