package wordcount

import (
	"context"
	"sync"
	"time"

	"weir/cmd/poll"
)

// read is one linearizable read: it cannot be answered without a leader.
type read struct {
	sent, answered time.Time
	ok             bool
}

// outage returns the time without a leader: from the last answer received before the leader was
// killed to the first answer to a read sent after the kill. `ok` is false as long as there is no
// such answer.
func outage(killed time.Time, reads []read) (gap time.Duration, ok bool) {
	last := killed
	for _, r := range reads {
		if r.ok && !r.answered.After(killed) {
			last = r.answered
		}
	}
	for _, r := range reads {
		if r.ok && r.sent.After(killed) {
			return r.answered.Sub(last), true
		}
	}
	return 0, false
}

// readPeriod is the pause between two reads; readTimeout bounds one read.
const (
	readPeriod  = 10 * time.Millisecond
	readTimeout = 250 * time.Millisecond
)

// prober reads all the time.
type prober struct {
	mu     sync.Mutex
	reads  []read
	cancel context.CancelFunc
	done   chan struct{}
}

// probe starts to ask the replicas in turn.
func probe(ctx context.Context, ask func(ctx context.Context, turn int) error) *prober {
	ctx, cancel := context.WithCancel(ctx)
	p := &prober{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for turn := 0; ctx.Err() == nil; turn++ {
			p.ask(ctx, turn, ask)
			_ = poll.Pause(ctx, readPeriod)
		}
	}()
	return p
}

func (p *prober) ask(ctx context.Context, turn int, ask func(ctx context.Context, turn int) error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r := read{sent: time.Now()}
	err := ask(ctx, turn)
	r.answered, r.ok = time.Now(), err == nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads = append(p.reads, r)
}

// outage returns the time without a leader so far.
func (p *prober) outage(killed time.Time) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return outage(killed, p.reads)
}

func (p *prober) stop() {
	p.cancel()
	<-p.done
}
