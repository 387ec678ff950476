package actors

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/node"
	"weir/messages/actorpb"
)

// wakeGap is the least time between two wakes for one node whose heartbeat waits.
const wakeGap = 100 * time.Millisecond

// heartbeats holds, of each node, the latest heartbeat that its actor has not
// looked at: when actors are behind, the older one is dropped, for the newer says
// all that it did.
type heartbeats struct {
	mu      sync.Mutex
	waiting map[string]*waitingBeat
	dropped uint64
	now     func() time.Time
}

type waitingBeat struct {
	beat node.FromAgent
	// woken is when the actor was last told that something waits.
	woken time.Time
}

func newHeartbeats() *heartbeats {
	return &heartbeats{waiting: map[string]*waitingBeat{}, now: time.Now}
}

// put makes beat the node's latest, and reports whether the actor is to be told.
// It is told again now and then while one waits: the actor may have been stopped
// with what it was told.
func (h *heartbeats) put(id string, beat node.FromAgent) (wake bool) {
	h.mu.Lock()
	now := h.now()
	w := h.waiting[id]
	if w == nil {
		h.waiting[id] = &waitingBeat{beat: beat, woken: now}
		h.mu.Unlock()
		return true
	}
	older := w.beat
	w.beat = beat
	h.dropped++
	if wake = now.Sub(w.woken) >= wakeGap; wake {
		w.woken = now
	}
	h.mu.Unlock()
	older.Reply(&actorpb.Refused{Code: actorpb.CodeOverloaded, Reason: "replaced by a newer heartbeat of the node"})
	return wake
}

// take returns the node's latest heartbeat; false: none waits.
func (h *heartbeats) take(id string) (node.FromAgent, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w, ok := h.waiting[id]
	if !ok {
		return node.FromAgent{}, false
	}
	delete(h.waiting, id)
	return w.beat, true
}

// clear sends away what waits: its actor has gone.
func (h *heartbeats) clear(answer proto.Message) {
	h.mu.Lock()
	gone := h.waiting
	h.waiting = map[string]*waitingBeat{}
	h.mu.Unlock()
	for _, w := range gone {
		w.beat.Reply(answer)
	}
}

func (h *heartbeats) droppedCount() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dropped
}
