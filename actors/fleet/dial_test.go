package fleet

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/actors/remote"
)

// slow is a dialer that counts how many use it at once.
type slow struct {
	remote.Dialer
	mu        sync.Mutex
	now, most int
}

// add returns the most that there have been at once.
func (s *slow) add(more int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += more
	s.most = max(s.most, s.now)
	return s.most
}

func (s *slow) Upgrade(context.Context, string, string, string) (net.Conn, error) {
	s.add(1)
	defer s.add(-1)
	time.Sleep(time.Second)
	return nil, nil
}

// TestNodesConnectInTurns has ten nodes connect, of whom two may at once; one that has waited for too long gives up.
func TestNodesConnectInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below, turns := &slow{}, make(chan struct{}, 2)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := (queued{below, turns}).Upgrade(t.Context(), "", "", ""); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := (queued{below, turns}).Upgrade(ctx, "", "", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a node that cannot wait: %v", err)
		}
		all.Wait()
		if most := below.add(0); most != 2 {
			t.Errorf("%d nodes connected at once, want 2", most)
		}
	})
}
