package rolling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/client"
	"weir/cmd/poll"
	"weir/messages/apipb"
	"weir/raftstore/state"
)

// writePause is the pause between two writes of a Meter: pauses are measured this exactly.
const writePause = 2 * time.Millisecond

// Meter writes to a cluster, one write after the other, as a client does, and notes when each was
// acknowledged.
type Meter struct {
	api    *client.Client
	pool   string
	cancel context.CancelFunc
	done   chan struct{}

	mu sync.Mutex
	// acknowledged are the times at which writes were acknowledged. grown is closed when there is
	// one more.
	acknowledged []time.Time
	grown        chan struct{}
	err          error
}

// NewMeter makes a pool of its own, whose weight it changes until Close. It takes over the pool of one that was killed.
func NewMeter(ctx context.Context, api *client.Client, pool string) (*Meter, error) {
	if _, err := api.CreatePool(ctx, &apipb.Pool{Name: pool}); err != nil && client.CodeOf(err) != state.CodePoolExists {
		return nil, fmt.Errorf("measure writes: %w", err)
	}
	m := &Meter{api: api, pool: pool, done: make(chan struct{}), grown: make(chan struct{}), acknowledged: []time.Time{time.Now()}}
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.cancel = cancel
	go m.write(writing)
	return m, nil
}

// write changes the weight until ctx is done or a write fails.
func (m *Meter) write(ctx context.Context) {
	defer close(m.done)
	for weight := 1; poll.Pause(ctx, writePause) == nil; weight++ {
		// The write is not given up with ctx: whether it was made would not be known.
		err := m.set(context.WithoutCancel(ctx), weight)
		m.mu.Lock()
		if m.err = err; err == nil {
			m.acknowledged = append(m.acknowledged, time.Now())
		}
		close(m.grown)
		m.grown = make(chan struct{})
		m.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (m *Meter) set(ctx context.Context, weight int) error {
	change := &apipb.PoolChange{Name: m.pool, Options: &structpb.Struct{Fields: map[string]*structpb.Value{"weight": structpb.NewNumberValue(float64(weight))}}}
	_, err := m.api.EditTree(ctx, &apipb.EditTreeRequest{Edits: []*apipb.TreeEdit{{Edit: &apipb.TreeEdit_Change{Change: change}}}})
	return err
}

// Pause waits for a write that is acknowledged from now on, and returns the longest time between two
// acknowledgements of which the later one came after `from`.
func (m *Meter) Pause(ctx context.Context, from time.Time) (time.Duration, error) {
	m.mu.Lock()
	grown := m.grown
	m.mu.Unlock()
	select {
	case <-grown:
	case <-m.done:
	case <-ctx.Done():
		return 0, fmt.Errorf("measure writes: %w", context.Cause(ctx))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return 0, fmt.Errorf("measure writes: %w", m.err)
	}
	return longest(m.acknowledged, from), nil
}

// longest returns the longest time between two neighbours of which the later one is after `from`.
func longest(times []time.Time, from time.Time) (pause time.Duration) {
	for i, at := range slices.Backward(times) {
		if i == 0 || !at.After(from) {
			break
		}
		pause = max(pause, at.Sub(times[i-1]))
	}
	return pause
}

// Count returns how many writes have been acknowledged.
func (m *Meter) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.acknowledged) - 1
}

// ErrLost is returned when an acknowledged write is not there.
var ErrLost = errors.New("an acknowledged write is lost")

// Close ends the writes and removes the pool. It returns why a write failed, if one did, and ErrLost if
// the last acknowledged one is not there.
func (m *Meter) Close(ctx context.Context) error {
	m.cancel()
	<-m.done
	err := m.err
	if err == nil {
		err = m.verify(ctx)
	}
	_, gone := m.api.EditTree(ctx, &apipb.EditTreeRequest{Edits: []*apipb.TreeEdit{{Edit: &apipb.TreeEdit_Remove{Remove: m.pool}}}})
	if err = errors.Join(err, gone); err != nil {
		return fmt.Errorf("measure writes: %w", err)
	}
	return nil
}

// verify compares what the cluster has with the last acknowledged write.
func (m *Meter) verify(ctx context.Context) error {
	count := m.Count()
	if count == 0 {
		return nil
	}
	got, err := m.api.GetPool(ctx, "", m.pool)
	if err != nil {
		return err
	}
	if weight := got.GetPool().GetOptions().GetFields()["weight"].GetNumberValue(); weight != float64(count) {
		return fmt.Errorf("%w: the weight of pool %s is %v, and was set to %d", ErrLost, m.pool, weight, count)
	}
	return nil
}
