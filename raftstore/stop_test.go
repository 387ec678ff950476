package raftstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"weir/messages/commandpb"
)

// TestFollowersStopUnderLoad closes followers while entries come in.
func TestFollowersStopUnderLoad(t *testing.T) {
	c := startCluster(t, 3, nil)
	leader := c.leader()
	loading, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	for range 8 {
		load.Go(func() {
			for loading.Err() == nil {
				// Whether it is carried out makes no difference here.
				_, _ = leader.Propose(loading, mustCommand(t, &commandpb.RemoveTree{Tree: "nobody's"}))
			}
		})
	}
	for range 12 {
		follower := c.follower()
		id := follower.self()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			c.stop(string(id))
		}()
		select {
		case <-closed:
		case <-time.After(patience):
			t.Fatalf("replica %s does not stop; raft says that it is %s", id, follower.raft.State())
		}
		c.start(string(id))
	}
}
