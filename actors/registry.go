package actors

import (
	"maps"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// registry maps keys to actors. The actor that spawns them writes it; any goroutine may read. The
// zero value is empty and ready to use.
type registry[K comparable] struct {
	mu   sync.RWMutex
	pids map[K]*actor.PID
}

func (r *registry[K]) of(key K) *actor.PID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.pids[key]
}

// set makes pid the actor of key; nil removes the entry.
func (r *registry[K]) set(key K, pid *actor.PID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case pid == nil:
		delete(r.pids, key)
	case r.pids == nil:
		r.pids = map[K]*actor.PID{key: pid}
	default:
		r.pids[key] = pid
	}
}

func (r *registry[K]) all() []*actor.PID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.pids))
}

func (r *registry[K]) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.pids)
}
