package actors

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// registry maps keys to actors. The actor that spawns them writes it; any goroutine may read. The
// zero value is empty and ready to use.
type registry[K comparable] struct {
	pids sync.Map
}

func (r *registry[K]) of(key K) *actor.PID {
	pid, _ := r.pids.Load(key)
	known, _ := pid.(*actor.PID)
	return known
}

// set makes pid the actor of key; nil removes the entry.
func (r *registry[K]) set(key K, pid *actor.PID) {
	if pid == nil {
		r.pids.Delete(key)
	} else {
		r.pids.Store(key, pid)
	}
}

func (r *registry[K]) all() (all []*actor.PID) {
	r.pids.Range(func(_, pid any) bool {
		all = append(all, pid.(*actor.PID))
		return true
	})
	return all
}

func (r *registry[K]) clear() { r.pids.Clear() }
