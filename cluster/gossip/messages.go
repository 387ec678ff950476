package gossip

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"weir/scheduling"
)

// Bounds of messages.
const (
	// MaxMessageSize bounds topic, key and payload of a message together, in
	// bytes: with all headers it must fit one packet of 1,400.
	MaxMessageSize = 1200

	// MaxStateSize bounds the full state of one topic, in bytes.
	MaxStateSize = 4 << 20

	// maxStates bounds the full state of all topics together, in bytes.
	// memberlist refuses more than 20 MiB.
	maxStates = 16 << 20

	// maxQueued bounds the messages waiting to be sent. Beyond it the oldest are dropped, and the
	// exchange of full states repairs the loss. 1,024 messages of 100 bytes take about 3 s to drain
	// at the default profile.
	maxQueued = 1024

	// maxSeen bounds the names whose latest version is remembered, so that
	// repeated messages are recognized.
	maxSeen = 8192

	// maxInbox bounds the calls that wait for a slow Handler. Further calls are dropped.
	maxInbox = 1024
)

// Handler is the receiving end of a topic. Receive and Merge of all topics are called by one
// goroutine, so a slow call delays all others. LocalState may be called concurrently.
type Handler struct {
	// Receive is called with the payload of each new message.
	Receive func(payload []byte)
	// LocalState returns the full state of the topic, at most MaxStateSize bytes, for a member that
	// may have missed messages. If nil, the topic has no state.
	LocalState func() []byte
	// Merge is called with the result of another member's LocalState.
	Merge func(state []byte)
}

// message is one broadcast on its way.
type message struct {
	topic  string
	key    string
	origin scheduling.ReplicaID
	// version orders the messages of one origin.
	version uint64
	payload []byte
}

// name identifies the subject of a message: a newer message of the same name replaces it.
func (m *message) name() string { return m.topic + "\x00" + string(m.origin) + "\x00" + m.key }

const messageFormat = 1

func (m *message) encode() []byte {
	out := []byte{messageFormat}
	out = appendBytes(out, m.topic)
	out = appendBytes(out, m.key)
	out = appendBytes(out, m.origin)
	out = binary.BigEndian.AppendUint64(out, m.version)
	return append(out, m.payload...)
}

// decodeMessage undoes encode. The message shares no memory with data.
func decodeMessage(data []byte) (*message, error) {
	if len(data) == 0 || data[0] != messageFormat {
		return nil, fmt.Errorf("decode message: does not start with format %d", messageFormat)
	}
	names, parts := [...]string{"topic", "key", "origin"}, [3][]byte{}
	data = data[1:]
	for i := range parts {
		var err error
		if parts[i], data, err = cutBytes(data); err != nil {
			return nil, fmt.Errorf("decode message: %s: %w", names[i], err)
		}
	}
	if len(data) < 8 {
		return nil, fmt.Errorf("decode message: version: %w", errCut)
	}
	return &message{
		topic:   string(parts[0]),
		key:     string(parts[1]),
		origin:  scheduling.ReplicaID(parts[2]),
		version: binary.BigEndian.Uint64(data),
		payload: bytes.Clone(data[8:]),
	}, nil
}

// queued is a message in memberlist's queue.
type queued struct {
	name    string
	encoded []byte
}

var _ memberlist.NamedBroadcast = (*queued)(nil)

// Name implements memberlist.NamedBroadcast.
func (q *queued) Name() string { return q.name }

// Message implements memberlist.Broadcast.
func (q *queued) Message() []byte { return q.encoded }

// Finished implements memberlist.Broadcast.
func (q *queued) Finished() {}

// Invalidates implements memberlist.Broadcast.
func (q *queued) Invalidates(other memberlist.Broadcast) bool {
	o, ok := other.(*queued)
	return ok && o.name == q.name
}

// delivery is a pending call of a Handler.
type delivery struct {
	topic   string
	content []byte
	merge   bool
}

// messenger sends and receives messages and full states. Only deliver blocks.
type messenger struct {
	self  scheduling.ReplicaID
	log   *slog.Logger
	queue memberlist.TransmitLimitedQueue
	inbox chan delivery
	// accepts reports whether a replica is a member.
	accepts func(scheduling.ReplicaID) bool

	mu       sync.Mutex
	handlers map[string]Handler
	seen     seenVersions
	// version is the version of the last message sent. It starts at the current time, so that it
	// grows across restarts.
	version uint64
	dropped uint64
}

func newMessenger(self scheduling.ReplicaID, handlers map[string]Handler, members func() int, accepts func(scheduling.ReplicaID) bool, retransmit int, log *slog.Logger) *messenger {
	m := &messenger{
		self:     self,
		log:      log,
		inbox:    make(chan delivery, maxInbox),
		accepts:  accepts,
		handlers: make(map[string]Handler, len(handlers)),
		version:  uint64(time.Now().UnixNano()),
	}
	m.queue.NumNodes = members
	m.queue.RetransmitMult = retransmit
	maps.Copy(m.handlers, handlers)
	return m
}

func (m *messenger) handle(topic string, handler Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handlers[topic] = handler
}

// broadcast queues a message of our own, and returns it encoded.
func (m *messenger) broadcast(topic, key string, payload []byte) ([]byte, error) {
	if size := len(topic) + len(key) + len(payload); size > MaxMessageSize {
		return nil, fmt.Errorf("broadcast %s %q: %w: has %d bytes, the limit is %d", topic, key, ErrTooLarge, size, MaxMessageSize)
	}
	if topic == "" || strings.Contains(topic, "\x00") {
		return nil, fmt.Errorf("broadcast %q: the topic must not be empty or contain a NUL byte", topic)
	}
	m.mu.Lock()
	m.version++
	out := &message{topic: topic, key: key, origin: m.self, version: m.version, payload: payload}
	m.mu.Unlock()
	encoded := out.encode()
	m.enqueue(out.name(), encoded)
	return encoded, nil
}

func (m *messenger) enqueue(name string, encoded []byte) {
	m.queue.QueueBroadcast(&queued{name: name, encoded: encoded})
	if m.queue.NumQueued() > maxQueued {
		m.queue.Prune(maxQueued)
	}
}

// receive handles a message from the network. It does not retain the slice.
func (m *messenger) receive(data []byte) {
	in, err := decodeMessage(data)
	if err != nil {
		m.log.Warn("gossip message unreadable", "cause", err)
		return
	}
	if !m.accepts(in.origin) || !m.isNew(in) {
		return
	}
	// Pass it on: sent by its origin alone, it would reach only a few of many members.
	m.enqueue(in.name(), bytes.Clone(data))
	m.post(delivery{topic: in.topic, content: in.payload})
}

// isNew returns whether a message is newer than all that were seen with its name. Messages of this
// replica are never new, but messages of its earlier processes show which version the next ones
// must exceed.
func (m *messenger) isNew(in *message) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if in.origin == m.self {
		m.version = max(m.version, in.version)
		return false
	}
	return m.seen.advance(in.name(), in.version)
}

// post queues d for deliver, or drops it if the inbox is full.
func (m *messenger) post(d delivery) {
	select {
	case m.inbox <- d:
	default:
		m.mu.Lock()
		m.dropped++
		dropped := m.dropped
		m.mu.Unlock()
		if dropped&(dropped-1) == 0 { // Log at powers of two only.
			m.log.Warn("gossip dropped: a handler is too slow", "topic", d.topic, "waiting", maxInbox, "dropped_so_far", dropped)
		}
	}
}

// deliver calls the handlers until ctx ends.
func (m *messenger) deliver(ctx context.Context) {
	for {
		select {
		case d := <-m.inbox:
			m.mu.Lock()
			handler := m.handlers[d.topic]
			m.mu.Unlock()
			// A topic without a handler is from a newer version.
			if d.merge && handler.Merge != nil {
				handler.Merge(d.content)
			} else if !d.merge && handler.Receive != nil {
				handler.Receive(d.content)
			}
		case <-ctx.Done():
			return
		}
	}
}

const stateFormat = 1

// localState returns the latest version seen of each sender, then the full state of all topics. A
// sender that restarts with its clock set back learns from these versions which one its messages
// must exceed to count as new.
func (m *messenger) localState() []byte {
	m.mu.Lock()
	handlers := maps.Clone(m.handlers)
	latest := m.seen.latestByOrigin()
	m.mu.Unlock()
	out := []byte{stateFormat}
	out = binary.AppendUvarint(out, uint64(len(latest)))
	for _, origin := range slices.Sorted(maps.Keys(latest)) {
		out = appendBytes(out, origin)
		out = binary.BigEndian.AppendUint64(out, latest[origin])
	}
	for _, topic := range slices.Sorted(maps.Keys(handlers)) {
		if handlers[topic].LocalState == nil {
			continue
		}
		state := handlers[topic].LocalState()
		if len(state) > MaxStateSize || len(out)+len(state) > maxStates {
			m.log.Error("gossip state withheld: too large", "topic", topic, "bytes", len(state), "limit", MaxStateSize)
			continue
		}
		if len(state) > 0 {
			out = appendBytes(out, topic)
			out = appendBytes(out, state)
		}
	}
	return out
}

// mergeState queues another member's localState for the handlers.
func (m *messenger) mergeState(data []byte) {
	ours, states, err := decodeState(bytes.Clone(data), m.self)
	if err != nil {
		m.log.Warn("gossip state unreadable", "cause", err)
		return
	}
	m.mu.Lock()
	m.version = max(m.version, ours)
	m.mu.Unlock()
	for _, state := range states {
		m.post(state)
	}
}

// decodeState undoes localState. ours is the latest version seen of self, 0 if there is none.
func decodeState(data []byte, self scheduling.ReplicaID) (ours uint64, states []delivery, err error) {
	if len(data) == 0 || data[0] != stateFormat {
		return 0, nil, fmt.Errorf("decode state: does not start with format %d", stateFormat)
	}
	data = data[1:]
	count, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, nil, fmt.Errorf("decode state: senders: %w", errCut)
	}
	data = data[n:]
	for range count {
		var origin []byte
		if origin, data, err = cutBytes(data); err != nil || len(data) < 8 {
			return 0, nil, fmt.Errorf("decode state: sender: %w", errCut)
		}
		if scheduling.ReplicaID(origin) == self {
			ours = max(ours, binary.BigEndian.Uint64(data))
		}
		data = data[8:]
	}
	for len(data) > 0 {
		var topic, state []byte
		if topic, data, err = cutBytes(data); err != nil {
			return 0, nil, fmt.Errorf("decode state: topic: %w", err)
		}
		if state, data, err = cutBytes(data); err != nil {
			return 0, nil, fmt.Errorf("decode state: topic %q: %w", topic, err)
		}
		states = append(states, delivery{topic: string(topic), content: state, merge: true})
	}
	return ours, states, nil
}
