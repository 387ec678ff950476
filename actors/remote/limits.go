package remote

import (
	"errors"
	"fmt"
	"time"
)

// Limits bounds what one Remote holds and how long it waits. Start from
// DefaultLimits.
type Limits struct {
	// QueueMessages is how many messages wait to be sent to one peer. Default
	// 16,384: about 50 ms of a stream's throughput; more would be late anyway.
	QueueMessages int
	// QueueBytes is how many bytes of messages wait to be sent to one peer.
	// Default 16 MiB: four of the largest messages.
	QueueBytes int
	// InboxMessages and InboxBytes are how many messages from peers, and how many
	// bytes of them, wait for one actor that is published. Default 16,384 and
	// 64 MiB: an actor that is so far behind answers nobody in time.
	InboxMessages, InboxBytes int
	// MaxMessageBytes is the largest message that is sent or accepted, encoded.
	// Default 4 MiB: a plan for a large node is below 1 MiB.
	MaxMessageBytes int
	// BatchBytes is how many bytes of messages are written at once. Default
	// 64 KiB: enough to make the cost of a write small, and not so much that a
	// ping waits. A larger message is written alone.
	BatchBytes int
	// OpenRequests is how many requests to one peer may be unanswered. Default
	// 16,384, as QueueMessages.
	OpenRequests int
	// RequestTimeout ends requests whose sender states no deadline. Default
	// 30 s: longer than an election, so that nobody gives up during one.
	RequestTimeout time.Duration
	// KeepAlivePeriod is how often a peer is asked whether it is there. Default
	// 1 s.
	KeepAlivePeriod time.Duration
	// KeepAliveTimeout is after how much silence a peer is lost. Default 3 s:
	// three questions, and shorter than a node's lease.
	KeepAliveTimeout time.Duration
	// ConnectTimeout bounds dialing and the handshake. Default 5 s: a slow
	// network's retransmitted SYN fits.
	ConnectTimeout time.Duration
	// FarewellTimeout bounds the end of a stream, in which the peer is told why.
	// Default 1 s: a courtesy that should not hold up a restart.
	FarewellTimeout time.Duration
	// RedialMin and RedialMax bound the pause between attempts to connect,
	// which doubles and has jitter. Default 100 ms and 5 s: a restarted peer is
	// found soon and a dead one costs little.
	RedialMin, RedialMax time.Duration
}

// DefaultLimits returns the limits that fit unless measured otherwise.
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
		{"MaxMessageBytes", l.MaxMessageBytes}, {"BatchBytes", l.BatchBytes}, {"OpenRequests", l.OpenRequests},
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

// maxReadBytes bounds one message of the stream: a batch, or one message of a
// peer that takes no notice of our MaxMessageBytes and is answered so; beyond
// this the stream breaks. A hello fits, however small MaxMessageBytes is.
func (l Limits) maxReadBytes() int {
	return 4*l.MaxMessageBytes + 16<<10
}
