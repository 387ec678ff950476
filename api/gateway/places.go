package gateway

import "sync"

// places bounds the calls in flight.
type places struct {
	ofOne, all int

	mu    sync.Mutex
	taken int
	by    map[string]int
}

func newPlaces(ofOne, all int) *places { return &places{ofOne: ofOne, all: all, by: map[string]int{}} }

// enter takes a place for a call of the person, or returns false.
func (p *places) enter(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.all || p.by[name] >= p.ofOne {
		return false
	}
	p.taken++
	p.by[name]++
	return true
}

func (p *places) leave(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.by[name]--; p.by[name] == 0 {
		delete(p.by, name)
	}
}
