package readiness

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

const (
	// gather is the least time between two words of an instance.
	gather = 50 * time.Millisecond
	// again is after how long a word is told again, on average.
	again = 10 * time.Second
)

// Config is what a Watcher works with.
type Config struct {
	// Task is the readiness of the instance's task; nil: it has none.
	Task  *statepb.Readiness
	Place Place
	// Said is what the instance has said of itself to an earlier process of the agent.
	Said string
	// Note has written down what the instance says of itself, and returns when it is.
	Note func(ctx context.Context, word string) error
	// Tell brings a word to those who send requests, and returns when they have heard it, or
	// ctx is done.
	Tell func(ctx context.Context, word *actorpb.InstanceWord)
}

// Watcher follows one instance until Close.
type Watcher struct {
	cfg     Config
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	finding Finding
	// telling: somebody tells. wake has room for one sign that there is something to tell.
	telling bool
	wake    chan struct{}
	// noting are those who wait until what they have said is written down.
	noting []chan<- error
}

// Watch begins to follow an instance. One of a task without readiness costs nothing until it
// says something.
func Watch(cfg Config) *Watcher {
	w := &Watcher{cfg: cfg, finding: Finding{task: cfg.Task, said: cfg.Said}, wake: make(chan struct{}, 1)}
	w.ctx, w.stop = context.WithCancel(context.Background())
	if probes(cfg.Task) {
		w.running.Go(w.probe)
	}
	if cfg.Said != "" {
		w.found()
	}
	return w
}

// Close ends it. Nothing is told after it.
func (w *Watcher) Close() {
	w.stop()
	w.running.Wait()
}

// Say takes the instance's own word, and returns when it is written down.
func (w *Watcher) Say(word string) error {
	noted := make(chan error, 1)
	w.mu.Lock()
	w.finding.Said(word)
	w.noting = append(w.noting, noted)
	w.mu.Unlock()
	w.found()
	select {
	case err := <-noted:
		return err
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

// probe asks the instance again and again.
func (w *Watcher) probe() {
	for {
		err := probe(w.ctx, w.cfg.Task, w.cfg.Place)
		if w.ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		w.finding.Probed(err)
		w.mu.Unlock()
		w.found()
		pause := w.cfg.Task.GetPeriod().AsDuration()
		if err != nil {
			pause = min(pause, quickPeriod)
		}
		if !rest(w.ctx, pause) {
			return
		}
	}
}

// found has what is known told, if it is another word than before.
func (w *Watcher) found() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if word, _ := w.finding.Word(); word == "" && len(w.noting) == 0 {
		return
	}
	if !w.telling && w.ctx.Err() == nil {
		w.telling = true
		w.running.Go(w.tell)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// tell tells the latest word whenever there is another one, and again from time to time.
func (w *Watcher) tell() {
	told, noted := &actorpb.InstanceWord{}, w.cfg.Said
	repeat := time.NewTimer(0)
	defer repeat.Stop()
	for w.ctx.Err() == nil {
		due := false
		select {
		case <-w.ctx.Done():
			return
		case <-w.wake:
		case <-repeat.C:
			due = true
		}
		word, reason, said, noting := w.latest()
		if said != noted || len(noting) > 0 {
			err := w.cfg.Note(w.ctx, said)
			for _, waits := range noting {
				waits <- err
			}
			noted = said
		}
		changed := word != told.GetWord() || reason != told.GetReason()
		if changed {
			told = &actorpb.InstanceWord{Word: word, Reason: reason, Number: told.GetNumber() + 1}
		}
		if word != "" && (changed || due) {
			w.cfg.Tell(w.ctx, told)
			repeat.Reset(time.Duration((0.75 + rand.Float64()/2) * float64(again)))
		}
		rest(w.ctx, gather)
	}
}

// latest returns what is to be told, what the instance has said, and who waits until that is
// written down.
func (w *Watcher) latest() (word, reason, said string, noting []chan<- error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	word, reason = w.finding.Word()
	noting, w.noting = w.noting, nil
	return word, reason, w.finding.said, noting
}

// rest waits, and reports whether ctx goes on.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
