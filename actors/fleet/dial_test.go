package fleet

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
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
		below, exchange := &slow{}, newExchange(2)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := (queued{below, exchange}).Upgrade(t.Context(), "", "", ""); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := (queued{below, exchange}).Upgrade(ctx, "", "", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a node that cannot wait: %v", err)
		}
		all.Wait()
		if most := below.add(0); most != 2 {
			t.Errorf("%d nodes connected at once, want 2", most)
		}
	})
}

// down is a dialer of a replica that is down, which counts how often it is asked.
type down struct {
	remote.Dialer
	asked int
}

func (d *down) Upgrade(context.Context, string, string, string) (net.Conn, error) {
	d.asked++
	return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
}

// TestNodesShareRefusals has nodes try two replicas that are down: each is asked once, and again after a while.
func TestNodesShareRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below, exchange := &down{}, newExchange(2)
		try := func() {
			for _, addr := range []string{"r1", "r2", "r1", "r2"} {
				if _, err := (queued{below, exchange}).Upgrade(t.Context(), addr, "", ""); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("connected with %s: %v", addr, err)
				}
			}
		}
		try()
		if below.asked != 2 {
			t.Errorf("asked %d times, want each replica once", below.asked)
		}
		time.Sleep(refusalLasts)
		try()
		if below.asked != 4 {
			t.Errorf("asked %d times after a while, want each replica twice", below.asked)
		}
	})
}
