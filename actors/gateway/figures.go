package gateway

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Figures holds the metrics of a gateway. The zero value is ready.
type Figures struct {
	inFlight atomic.Int64

	mu      sync.Mutex
	refused map[string]uint64
}

// Stats is a snapshot of a gateway's metrics.
type Stats struct {
	// InFlight is how many requests wait for their answer.
	InFlight int
	// Refused counts refused messages, by code.
	Refused map[string]uint64
}

// Stats returns a snapshot.
func (f *Figures) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Stats{InFlight: int(f.inFlight.Load()), Refused: maps.Clone(f.refused)}
}

func (f *Figures) refuse(code string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refused == nil {
		f.refused = map[string]uint64{}
	}
	f.refused[code]++
}
