package discovery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/messages/actorpb"
)

const (
	// pollWait is how long a replica may wait for news before it answers. Shorter than
	// what ends idle connections on the way.
	pollWait = 20 * time.Second
	// linger is how long an operation is followed after the last job has asked: who asks
	// once a minute is answered at once.
	linger = time.Minute
	// maxFeeds is how many operations are followed at once: each has a question open at
	// a replica, which takes 256 of one agent.
	maxFeeds = 128
)

// ErrBusy is returned when as many operations are followed as may be.
var ErrBusy = errors.New("too many operations followed on this node")

// errMissed is why changes came to nothing.
var errMissed = errors.New("missed earlier changes from the replica")

// Source asks replicas. It is used by one goroutine.
type Source interface {
	// Ask returns the answer of a replica: of the same one as long as there are no
	// errors, for versions are a replica's.
	Ask(ctx context.Context, request *actorpb.InstancesRequest) (*actorpb.Instances, error)
	// Pause is how long to wait after an error.
	Pause() time.Duration
}

// Directory knows the jobs of operations as long as somebody wants to know.
type Directory struct {
	sources func() Source
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	feeds map[string]*feed
}

// NewDirectory returns a directory that asks sources, one for each operation.
func NewDirectory(sources func() Source) *Directory {
	d := &Directory{sources: sources, feeds: map[string]*feed{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Close ends all questions. Who follows an operation hears nothing more.
func (d *Directory) Close() {
	d.mu.Lock()
	d.cancel()
	for _, f := range d.feeds {
		stop(f.end)
	}
	d.mu.Unlock()
	d.running.Wait()
}

// feed follows an operation.
type feed struct {
	operation string
	cancel    context.CancelFunc

	// The rest belongs to Directory.mu.
	followers int
	end       *time.Timer
	// index is what replicas must have seen to answer.
	index uint64
	view  View
	// changed is closed when view is another.
	changed chan struct{}
}

// View is what is known of the jobs of an operation.
type View struct {
	// Instances is nil before the first answer.
	Instances *actorpb.Instances
	// AsOf is when a replica has last said so.
	AsOf time.Time
	// Err is why there is no newer answer; nil: the next is on its way.
	Err error
}

// Follow begins to follow an operation for a job that was granted at index. Each Follow
// needs a Release.
func (d *Directory) Follow(operation string, index uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ctx.Err(); err != nil {
		return fmt.Errorf("follow operation %s: agent stopping", operation)
	}
	f := d.feeds[operation]
	if f == nil {
		if len(d.feeds) >= maxFeeds {
			return fmt.Errorf("follow operation %s: %w", operation, ErrBusy)
		}
		ctx, cancel := context.WithCancel(d.ctx)
		f = &feed{operation: operation, cancel: cancel, changed: make(chan struct{})}
		d.feeds[operation] = f
		d.running.Go(func() { d.run(ctx, f) })
	}
	f.index = max(f.index, index)
	f.followers++
	stop(f.end)
	return nil
}

// Release ends what Follow began.
func (d *Directory) Release(operation string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.feeds[operation]
	if f.followers--; f.followers == 0 && d.ctx.Err() == nil {
		f.end = time.AfterFunc(linger, func() { d.forget(f) })
	}
}

func (d *Directory) forget(f *feed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.followers == 0 && d.feeds[f.operation] == f {
		f.cancel()
		delete(d.feeds, f.operation)
	}
}

// View returns what is known of an operation that is followed, and what is closed when
// more is.
func (d *Directory) View(operation string) (View, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.feeds[operation]
	return f.view, f.changed
}

// run asks for the jobs of an operation until nobody wants to know, or nothing will
// change any more.
func (d *Directory) run(ctx context.Context, f *feed) {
	source, version := d.sources(), ""
	for ctx.Err() == nil {
		d.mu.Lock()
		index := f.index
		d.mu.Unlock()
		answer, err := source.Ask(ctx, &actorpb.InstancesRequest{
			OperationId: f.operation, Version: version, WaitMillis: pollWait.Milliseconds(), Index: index, Changes: version != "",
		})
		if ctx.Err() != nil {
			return
		}
		err = d.take(f, answer, err, version)
		switch {
		case err != nil:
			version = ""
			select {
			case <-ctx.Done():
			case <-time.After(source.Pause()):
			}
		case answer.GetOver():
			return
		default:
			version = answer.GetVersion()
		}
	}
}

// take takes an answer to a question that had a version, and returns err, or why the answer
// is of no use.
func (d *Directory) take(f *feed, answer *actorpb.Instances, err error, version string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all *actorpb.Instances
	if err == nil {
		var ok bool
		if all, ok = answer.After(f.view.Instances); !ok {
			err = errMissed
		}
	}
	f.view.Err = err
	if err == nil {
		f.view.AsOf = time.Now()
		if version != "" && version == all.GetVersion() {
			return nil
		}
		f.view.Instances = all
	}
	close(f.changed)
	f.changed = make(chan struct{})
	return err
}

func stop(timer *time.Timer) {
	if timer != nil {
		timer.Stop()
	}
}
