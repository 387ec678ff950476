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
	// pollWait is how long a replica may wait for changes before it answers. It is shorter than
	// the idle timeouts of connections on the way.
	pollWait = 20 * time.Second
	// linger is how long an operation is still followed after the last request of a job, so that a
	// job that asks once a minute is answered at once.
	linger = time.Minute
	// maxFeeds bounds the operations followed at once. Each has a request open at a replica,
	// which accepts 256 from one agent.
	maxFeeds = 128
)

// ErrBusy is returned when maxFeeds operations are followed already.
var ErrBusy = errors.New("too many operations followed on this node")

// errMissed is the error for changes to a version that the directory does not have.
var errMissed = errors.New("missed earlier changes from the replica")

// Source sends requests to replicas. Only one goroutine uses it.
type Source interface {
	// Ask returns a replica's answer. It asks the same replica until an error, because versions are
	// only valid at the replica that gave them.
	Ask(ctx context.Context, request *actorpb.InstancesRequest) (*actorpb.Instances, error)
	// Pause is how long to wait after an error.
	Pause() time.Duration
}

// Directory follows the jobs of operations for as long as local jobs ask for them.
type Directory struct {
	sources func() Source
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	feeds map[string]*feed
}

// NewDirectory returns a directory that gets one source per operation from sources.
func NewDirectory(sources func() Source) *Directory {
	d := &Directory{sources: sources, feeds: map[string]*feed{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Close ends all requests. Views no longer change after it.
func (d *Directory) Close() {
	d.mu.Lock()
	d.cancel()
	for _, f := range d.feeds {
		stop(f.end)
	}
	d.mu.Unlock()
	d.running.Wait()
}

// feed is an operation that is followed.
type feed struct {
	operation string
	cancel    context.CancelFunc

	// The rest is guarded by Directory.mu.
	followers int
	end       *time.Timer
	// index is the log index that a replica must have applied to answer.
	index uint64
	view  View
	// changed is closed when view changes.
	changed chan struct{}
}

// View is what is known of the jobs of an operation.
type View struct {
	// Instances is nil before the first answer.
	Instances *actorpb.Instances
	// AsOf is when a replica last confirmed Instances.
	AsOf time.Time
	// Err is why the last request failed; nil: it did not.
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

// Release undoes a Follow. The operation is still followed for the duration linger.
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

// View returns the current view of a followed operation, and a channel that is closed when the view
// changes.
func (d *Directory) View(operation string) (View, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.feeds[operation]
	return f.view, f.changed
}

// run requests the jobs of an operation until ctx is done or the operation is over.
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

// take applies the answer to a request that named version. If `err` is not nil, take returns it.
// Otherwise take returns why the answer is unusable; nil if it is usable.
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
