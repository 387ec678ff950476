package raftstore

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// slowFollower answers heartbeats after a while, as a follower of any term does.
type slowFollower struct {
	takes   time.Duration
	err     error
	refuses bool
	asked   atomic.Int64
}

func (f *slowFollower) answer(resp *raft.AppendEntriesResponse) error {
	resp.LastLog, resp.Success = uint64(f.asked.Add(1)), !f.refuses
	takes, err := f.takes, f.err
	time.Sleep(takes)
	return err
}

// TestHeartbeatsDoNotWait for a follower that answers late, as long as it has answered within the limit.
func TestHeartbeatsDoNotWait(t *testing.T) {
	const limit, term = 2 * time.Second, 3
	errBroken := errors.New("broken")
	// beat is a heartbeat: how long after the last one, of which term, and what follows.
	type beat struct {
		after    time.Duration
		term     uint64
		waits    time.Duration
		of       uint64
		accepted bool
		err      error
	}
	for name, test := range map[string]struct {
		then  *slowFollower
		beats []beat
	}{
		"a follower that answers at once": {&slowFollower{}, []beat{{0, term, 0, 1, true, nil}, {time.Second, term, 0, 2, true, nil}}},
		"late answers": {&slowFollower{takes: 1500 * time.Millisecond}, []beat{
			{100 * time.Millisecond, term, 0, 1, true, nil}, {time.Second, term, 0, 1, true, nil}, {600 * time.Millisecond, term, 0, 2, true, nil},
		}},
		"an answer that is too late": {&slowFollower{takes: time.Hour}, []beat{
			{100 * time.Millisecond, term, 0, 1, true, nil}, {1900 * time.Millisecond, term, 0, 1, true, nil},
			{time.Millisecond, term, time.Hour - 1901*time.Millisecond, 2, true, nil},
		}},
		"a new term": {&slowFollower{takes: time.Second}, []beat{{100 * time.Millisecond, term + 1, time.Second, 2, true, nil}}},
		"a new term, while an answer is late": {&slowFollower{takes: time.Hour}, []beat{
			{100 * time.Millisecond, term, 0, 1, true, nil}, {100 * time.Millisecond, term + 1, time.Hour, 3, true, nil},
			{0, term, time.Hour, 4, true, nil},
		}},
		"a connection that breaks": {&slowFollower{takes: time.Second, err: errBroken}, []beat{
			{100 * time.Millisecond, term, 0, 1, true, nil}, {1100 * time.Millisecond, term, time.Second, 3, true, errBroken},
		}},
		"a follower that refuses": {&slowFollower{takes: time.Second, refuses: true}, []beat{
			{100 * time.Millisecond, term, 0, 1, true, nil}, {1100 * time.Millisecond, term, time.Second, 3, false, nil},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f slowFollower
				l := lateness{limit: limit, peers: map[raft.ServerID]*pulse{}}
				send := func(term uint64) (resp raft.AppendEntriesResponse, err error) {
					err = l.beat("r2", term, &resp, f.answer)
					synctest.Wait()
					return resp, err
				}
				if resp, err := send(term); err != nil || resp.LastLog != 1 {
					t.Fatalf("the first heartbeat: %+v, %v", resp, err)
				}
				f.takes, f.err, f.refuses = test.then.takes, test.then.err, test.then.refuses
				for i, b := range test.beats {
					time.Sleep(b.after)
					began := time.Now()
					resp, err := send(b.term)
					if waited := time.Since(began); waited != b.waits || !errors.Is(err, b.err) || resp.LastLog != b.of || resp.Success != b.accepted {
						t.Errorf("heartbeat %d: after %v the answer to request %d (accepted: %v), %v; want %+v", i, waited, resp.LastLog, resp.Success, err, b)
					}
				}
				l.working.Wait()
			})
		})
	}
}

// TestOlderAnswerIsLate has a follower's answers come out of order: the one to the later request counts.
func TestOlderAnswerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lateness{limit: 2 * time.Second, peers: map[raft.ServerID]*pulse{}}
		var f slowFollower
		var resp raft.AppendEntriesResponse
		if err := l.beat("r2", 3, &resp, f.answer); err != nil {
			t.Fatal(err)
		}
		l.follows("r2", 3, time.Now().Add(-time.Minute), raft.AppendEntriesResponse{LastLog: 99})
		f.takes, f.err = time.Hour, errors.New("broken")
		time.Sleep(time.Second)
		if err := l.beat("r2", 3, &resp, f.answer); err != nil || resp.LastLog != 1 {
			t.Errorf("got the answer to request %d, %v; want the one before, at once", resp.LastLog, err)
		}
		time.Sleep(time.Hour - time.Second)
		l.follows("r2", 3, time.Now(), raft.AppendEntriesResponse{LastLog: 7})
		// The heartbeat fails after this.
		l.working.Wait()
		f.takes, f.err = 0, nil
		if err := l.beat("r2", 3, &resp, f.answer); err != nil || resp.LastLog != 7 {
			t.Errorf("got the answer to request %d, %v; want that to entries", resp.LastLog, err)
		}
		l.working.Wait()
	})
}

// TestLateAnswersCostNoElection has a leader that does not hear its followers for longer than its lease, although its connections
// stand: it goes on, and reads nothing that it could not confirm.
func TestLateAnswersCostNoElection(t *testing.T) {
	timeouts := steady()
	timeouts.Heartbeat, timeouts.Election, timeouts.Lease = 10*time.Second, 10*time.Second, 5*time.Second
	c := startCluster(t, 3, func(cfg *Config) { cfg.Timeouts = timeouts })
	c.propose(createPool(t, testPool), setWeight(t, 1))
	leader := c.leader()
	if _, err := leader.ReadIndex(testContext(t)); err != nil {
		t.Fatal(err)
	}
	before, _ := leader.Leadership()
	wire := c.wires[leader.cfg.ReplicaID]
	wire.answers.hold()
	release := sync.OnceFunc(wire.answers.release)
	defer release()
	held := time.Now()
	read := make(chan error, 1)
	go func() {
		_, err := leader.ReadIndex(testContext(t))
		read <- err
	}()
	for time.Since(held) < timeouts.Lease*6/5 {
		select {
		case err := <-read:
			t.Fatalf("read without an answer of a follower: %v", err)
		case <-time.After(timeouts.Lease / 10):
		}
	}
	if leader.transport.followedSince(leader.self(), leader.voters(), before.Term, held) {
		t.Error("followers were heard: this test shows nothing")
	}
	release()
	if err := <-read; err != nil {
		t.Errorf("read with late answers: %v", err)
	}
	if now, _ := leader.Leadership(); now != before {
		t.Errorf("%+v leads, want that of term %d", now, before.Term)
	}
	wantAccepted(t, c.propose(setWeight(t, 2)))
	c.wantEqual()
}

// TestEntriesCountAsHeartbeats: a follower that has answered entries need not have answered a heartbeat.
func TestEntriesCountAsHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, late := lateness{limit: time.Second, peers: map[raft.ServerID]*pulse{}}, slowFollower{takes: time.Hour}
		l.follows("r2", 3, time.Now(), raft.AppendEntriesResponse{Term: 3, LastLog: 7})
		var resp raft.AppendEntriesResponse
		began := time.Now()
		if err := l.beat("r2", 3, &resp, late.answer); err != nil || !resp.Success || resp.LastLog != 7 || time.Since(began) > 0 {
			t.Errorf("after %v: %+v, %v", time.Since(began), resp, err)
		}
		synctest.Wait()
		l.forget("r2")
		if err := l.beat("r2", 3, &resp, late.answer); err != nil || time.Since(began) != time.Hour {
			t.Errorf("one that was forgotten: after %v, %v", time.Since(began), err)
		}
		l.working.Wait()
	})
}

// TestHeartbeatsFollowEachOther: those that come while one is in flight are sent after it, once.
func TestHeartbeatsFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := lateness{limit: time.Minute, peers: map[raft.ServerID]*pulse{}}, slowFollower{takes: time.Second}
		var resp raft.AppendEntriesResponse
		for i, want := range []int64{1, 2, 2, 2} {
			if err := l.beat("r2", 3, &resp, f.answer); err != nil || resp.LastLog != 1 {
				t.Errorf("heartbeat %d: %+v, %v", i, resp, err)
			}
			synctest.Wait()
			if asked := f.asked.Load(); asked != want {
				t.Errorf("heartbeat %d: %d requests, want %d", i, asked, want)
			}
		}
		l.working.Wait()
		if asked := f.asked.Load(); asked != 3 {
			t.Errorf("%d requests, want 3", asked)
		}
	})
}
