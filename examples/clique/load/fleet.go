package load

import (
	"context"
	"iter"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"weir/examples/clique/service"
	"weir/messages/actorpb"
	"weir/messages/apipb"
)

// probePause is between two questions whether an instance is ready.
const probePause = 20 * time.Millisecond

// Fleet is the instances that may be sent requests.
type Fleet struct {
	// client asks instances whether they are ready; nil: discovery says.
	client *http.Client

	mu sync.Mutex
	// members are the instances that are live, as far as discovery has told.
	members map[string]*member
	// ready are those that answer, in the order in which they began to.
	ready []*member
	// changed is closed when ready is another.
	changed chan struct{}
}

// member is a live instance.
type member struct {
	address, job, node string
	// forget ends the wait for its first answer.
	forget context.CancelFunc
	// running is how many requests are under way.
	running int
}

// NewFleet returns an empty fleet, which asks whether instances are ready by client.
func NewFleet(client *http.Client) *Fleet {
	return &Fleet{client: client, members: map[string]*member{}, changed: make(chan struct{})}
}

// NewReadyFleet returns an empty fleet that asks no instance: those are ready that discovery
// says are.
func NewReadyFleet() *Fleet { return NewFleet(nil) }

// Follow keeps the fleet as discovery says until the service is over or ctx is done.
// Each answer is then handed to see.
func (f *Fleet) Follow(ctx context.Context, answers iter.Seq2[*apipb.WatchInstancesResponse, error], see func([]*apipb.Instance)) error {
	var probes sync.WaitGroup
	defer probes.Wait()
	defer f.take(ctx, nil, &probes)
	for answer, err := range answers {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		f.take(ctx, answer.GetInstances(), &probes)
		see(answer.GetInstances())
	}
	return nil
}

// take makes the live instances those of discovery. New ones are asked until they
// answer, for an instance is live from the moment that it has a place to run; or where none is
// asked, they are those that discovery says are ready.
func (f *Fleet) take(ctx context.Context, seen []*apipb.Instance, probes *sync.WaitGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	live := map[string]bool{}
	for _, instance := range seen {
		id := instance.GetJobId()
		if instance.GetState() != actorpb.InstanceLive || len(instance.GetPorts()) == 0 || f.client == nil && !instance.GetReady() {
			continue
		}
		live[id] = true
		if f.members[id] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		m := &member{address: net.JoinHostPort(instance.GetHost(), strconv.Itoa(int(instance.GetPorts()[0]))), job: id, node: instance.GetNode(), forget: cancel}
		f.members[id] = m
		if f.client == nil {
			f.ready = append(f.ready, m)
			f.tell()
			continue
		}
		probes.Go(func() { f.probe(ctx, id, m) })
	}
	for id, m := range f.members {
		if live[id] {
			continue
		}
		m.forget()
		delete(f.members, id)
		if i := slices.Index(f.ready, m); i >= 0 {
			f.ready = slices.Delete(f.ready, i, i+1)
			f.tell()
		}
	}
}

// tell wakes those who wait for another state of the fleet.
func (f *Fleet) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Ready waits until so many instances are ready.
func (f *Fleet) Ready(ctx context.Context, count int) error {
	_, err := f.await(ctx, count, nil)
	return err
}

// pick returns where to send the next request: to the ready instance with the fewest
// under way. It waits for one. done is to be called at the end of the request.
func (f *Fleet) pick(ctx context.Context) (to *member, done func(), err error) {
	to, err = f.await(ctx, 1, func(ready []*member) *member {
		m := slices.MinFunc(ready, func(a, b *member) int { return a.running - b.running })
		m.running++
		return m
	})
	if err != nil {
		return nil, nil, err
	}
	return to, func() { f.done(to) }, nil
}

// await waits until so many instances are ready, and returns what choose does of them.
func (f *Fleet) await(ctx context.Context, count int, choose func(ready []*member) *member) (chosen *member, err error) {
	for {
		f.mu.Lock()
		changed, enough := f.changed, len(f.ready) >= count
		if enough && choose != nil {
			chosen = choose(f.ready)
		}
		f.mu.Unlock()
		if enough {
			return chosen, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		}
	}
}

func (f *Fleet) done(m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.running--
}

// probe waits until an instance answers.
func (f *Fleet) probe(ctx context.Context, id string, m *member) {
	for !f.answers(ctx, id, m.address) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(probePause):
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.members[id] == m {
		f.ready = append(f.ready, m)
		f.tell()
	}
}

// answers reports whether the instance with an id is the one that listens at an address.
func (f *Fleet) answers(ctx context.Context, id, address string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/ready", nil)
	if err != nil {
		return false
	}
	answer, err := f.client.Do(r)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK && answer.Header.Get(service.InstanceHeader) == id
}
