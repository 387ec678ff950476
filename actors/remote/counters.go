package remote

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// dropped is the reason why a message or frame was dropped.
type dropped uint8

const (
	notConnected dropped = iota
	queueFull
	inboxFull
	tooLarge
	notSendable
	notFound
	roleRefused
	unknownType
	malformed
	late
	peerGone
	unasked
	undelivered
	unknownFrame
	droppedReasons
)

var droppedNames = [droppedReasons]string{
	notConnected: "not_connected",
	queueFull:    "queue_full",
	inboxFull:    "inbox_full",
	tooLarge:     "too_large",
	notSendable:  "not_sendable",
	notFound:     "not_found",
	roleRefused:  "role_refused",
	unknownType:  "unknown_type",
	malformed:    "malformed",
	late:         "late",
	peerGone:     "peer_gone",
	unasked:      "unasked_reply",
	undelivered:  "undelivered",
	unknownFrame: "unknown_frame",
}

// counters count what a Remote has done since Start.
type counters struct {
	sentMessages, sentBytes         atomic.Uint64
	receivedMessages, receivedBytes atomic.Uint64
	connects, refusals              atomic.Uint64
	dropped                         [droppedReasons]atomic.Uint64
}

func (c *counters) drop(why dropped, n int) {
	if n > 0 {
		c.dropped[why].Add(uint64(n))
	}
}

// Stats counts what a Remote has done since Start, and lists its current peers.
type Stats struct {
	// SentMessages counts messages, requests and replies that were queued for a peer. SentBytes is
	// the size of their encoded payloads.
	SentMessages, SentBytes uint64
	// ReceivedMessages counts messages, requests and replies from peers. ReceivedBytes is the size
	// of their encoded payloads.
	ReceivedMessages, ReceivedBytes uint64
	// Connects counts streams that were established. Refusals counts streams that this side
	// refused.
	Connects, Refusals uint64
	// Dropped counts the messages that this side dropped, by reason. It contains every reason, even
	// those with count 0.
	Dropped map[string]uint64
	// Peers are the connected peers, by name.
	Peers []PeerStats
}

// PeerStats is the current state of the stream with one peer.
type PeerStats struct {
	Peer        string
	Incarnation uint64
	Version     string
	// Dialed says that this side opened the stream.
	Dialed bool
	// Since is when the stream came up.
	Since time.Time
	// QueuedMessages and QueuedBytes are the number and the total size of the messages that wait to be
	// sent.
	QueuedMessages, QueuedBytes int
	// OpenRequests is the number of requests that wait for the peer's reply.
	OpenRequests int
}

// Stats returns a snapshot.
func (r *Remote) Stats() Stats {
	c := &r.counters
	stats := Stats{
		SentMessages:     c.sentMessages.Load(),
		SentBytes:        c.sentBytes.Load(),
		ReceivedMessages: c.receivedMessages.Load(),
		ReceivedBytes:    c.receivedBytes.Load(),
		Connects:         c.connects.Load(),
		Refusals:         c.refusals.Load(),
		Dropped:          make(map[string]uint64, droppedReasons),
	}
	for why, name := range droppedNames {
		stats.Dropped[name] = c.dropped[why].Load()
	}
	for _, s := range r.allSessions() {
		stats.Peers = append(stats.Peers, s.stats())
	}
	slices.SortFunc(stats.Peers, func(a, b PeerStats) int { return cmp.Compare(a.Peer, b.Peer) })
	return stats
}
