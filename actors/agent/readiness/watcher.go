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
	// gather is the least time between two reports of an instance.
	gather = 50 * time.Millisecond
	// again is the average time after which a report is repeated.
	again = 10 * time.Second
)

// Config configures a Watcher.
type Config struct {
	// Task is the readiness setting of the instance's task; nil: it has none.
	Task  *statepb.Readiness
	Place Place
	// Said is the instance's own last report to an earlier agent process.
	Said string
	// Note records the instance's own report in the journal, and returns when it is there.
	Note func(ctx context.Context, word string) error
	// Tell sends a report to the operation's controller, and returns when it has arrived,
	// nobody wants it, or ctx is done.
	Tell func(ctx context.Context, word *actorpb.InstanceWord)
}

// Watcher watches the readiness of one instance until Close.
type Watcher struct {
	cfg     Config
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	finding Finding
	// telling is set while the goroutine of tell runs. wake, which holds one signal, wakes that
	// goroutine.
	telling bool
	wake    chan struct{}
	// noting holds the calls of Say that are waiting for their report to be recorded.
	noting []chan<- error
}

// Watch starts watching an instance. Without a probe it costs nothing until the instance
// reports something.
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

// Close ends the watch. Nothing is reported after it.
func (w *Watcher) Close() {
	w.stop()
	w.running.Wait()
}

// Say handles the instance's own report, and returns when it is recorded.
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

// probe probes the instance periodically.
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

// found wakes tell, and starts it if needed, once there is something to report or to record.
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

// tell sends the latest report whenever it has changed, and repeats it from time to time.
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

// latest returns the readiness to report, the instance's own report, and the calls of Say that
// wait until that is recorded.
func (w *Watcher) latest() (word, reason, said string, noting []chan<- error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	word, reason = w.finding.Word()
	noting, w.noting = w.noting, nil
	return word, reason, w.finding.said, noting
}

// rest waits for the duration d. It returns false if ctx is done earlier.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
