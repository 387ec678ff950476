package discovery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/cluster/leaktest"
	"weir/messages/actorpb"
)

// TestMain is somebody else's process when a test has started it as one.
func TestMain(m *testing.M) {
	if path := os.Getenv("WEIR_TEST_ANOTHER"); path != "" {
		askAsAnother(path)
		return
	}
	leaktest.Main(m)
}

// replica knows what the jobs of operations are, and answers like a real one.
type replica struct {
	mu      sync.Mutex
	asked   []*actorpb.InstancesRequest
	answers map[string]*actorpb.Instances
	changed chan struct{}
	err     error
	sources int
}

func newReplica() *replica {
	return &replica{answers: map[string]*actorpb.Instances{}, changed: make(chan struct{})}
}

// say changes what is known of an operation.
func (r *replica) say(operation, version string, over bool, instances ...*actorpb.Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[operation] = &actorpb.Instances{OperationId: operation, Version: version, Instances: instances, Over: over}
	r.change()
}

// fail lets all questions fail, or with nil none.
func (r *replica) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	r.change()
}

func (r *replica) change() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *replica) source() Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources++
	return r
}

// count is how many sources there were.
func (r *replica) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sources
}

// pass lets time pass in a bubble, and everything happen that then does.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// versions are those of the questions so far.
func (r *replica) versions() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, request := range r.asked {
		all = append(all, request.GetVersion())
	}
	return all
}

// Ask implements Source.
func (r *replica) Ask(ctx context.Context, request *actorpb.InstancesRequest) (*actorpb.Instances, error) {
	r.mu.Lock()
	r.asked = append(r.asked, request)
	r.mu.Unlock()
	timeout := time.NewTimer(time.Duration(request.GetWaitMillis()) * time.Millisecond)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		answer, changed, err := r.answers[request.GetOperationId()], r.changed, r.err
		r.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if answer != nil && answer.GetVersion() != request.GetVersion() {
			return answer, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout.C:
			if answer == nil {
				return nil, errors.New("nothing is known")
			}
			return answer, nil
		case <-changed:
		}
	}
}

// Pause implements Source.
func (r *replica) Pause() time.Duration { return time.Second }

func job(id, state string) *actorpb.Instance {
	return &actorpb.Instance{JobId: id, Task: "serve", Cookie: 3, Node: "n1", Host: "127.0.0.1", Ports: []int32{21000}, State: state}
}

// TestDirectory follows one operation for many, as long as one of them wants to know.
func TestDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica()
		d := NewDirectory(r.source)
		for range 3 {
			if err := d.Follow("op", 7); err != nil {
				t.Fatal(err)
			}
		}
		r.say("op", "v1", false, job("a", "live"))
		synctest.Wait()
		view, changed := d.View("op")
		if len(view.Instances.GetInstances()) != 1 || view.Err != nil || !view.AsOf.Equal(time.Now()) {
			t.Errorf("view %+v", view)
		}
		// An answer with nothing new is no change.
		pass(pollWait + time.Second)
		select {
		case <-changed:
			t.Error("changed by an answer that says the same")
		default:
		}
		// Another replica knows nothing of this one's versions.
		r.fail(errors.New("is gone"))
		synctest.Wait()
		if view, _ := d.View("op"); view.Err == nil || view.Instances == nil {
			t.Errorf("view %+v, want the last one and the error", view)
		}
		r.fail(nil)
		pass(time.Second)
		if got, want := r.versions(), []string{"", "v1", "v1", "", "v1"}; !slices.Equal(got, want) || r.asked[0].GetIndex() != 7 {
			t.Errorf("asked with versions %q, want %q", got, want)
		}
		if r.count() != 1 {
			t.Errorf("%d sources ask for one operation", r.count())
		}
		for range 3 {
			d.Release("op")
		}
		pass(linger / 2)
		if err := d.Follow("op", 9); err != nil || r.count() != 1 {
			t.Errorf("followed again soon: %v, %d sources, want the same", err, r.count())
		}
		pass(2 * linger)
		d.Release("op")
		pass(2 * linger)
		asked := len(r.versions())
		pass(time.Hour)
		if len(r.versions()) != asked {
			t.Error("replicas are asked and nobody wants to know")
		}
		if err := d.Follow("op", 9); err != nil {
			t.Errorf("followed anew: %v", err)
		}
		synctest.Wait()
		if r.count() != 2 {
			t.Errorf("%d sources after two times, want 2", r.count())
		}
		d.Close()
		if d.Follow("op", 9) == nil {
			t.Error("followed after Close")
		}
	})
}

func TestDirectoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDirectory(newReplica().source)
		defer d.Close()
		for i := range maxFeeds {
			if err := d.Follow(fmt.Sprint("op", i), 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Follow("another", 1); !errors.Is(err, ErrBusy) {
			t.Errorf("followed one more: %v, want ErrBusy", err)
		}
		d.Release("op0")
		pass(2 * linger)
		if err := d.Follow("another", 1); err != nil {
			t.Errorf("followed one in place of another: %v", err)
		}
	})
}

// TestOverIsTheEnd asks nothing of an operation that has ended.
func TestOverIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica()
		r.say("op", "v1", true)
		d := NewDirectory(r.source)
		defer d.Close()
		if err := d.Follow("op", 1); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		if view, _ := d.View("op"); !view.Instances.GetOver() || len(r.versions()) != 1 {
			t.Errorf("view %+v after %d questions", view, len(r.versions()))
		}
	})
}

// TestDirectoryTakesChanges of what it has heard, and asks for all after others.
func TestDirectoryTakesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica()
		d := NewDirectory(r.source)
		defer d.Close()
		if err := d.Follow("op", 7); err != nil {
			t.Fatal(err)
		}
		defer d.Release("op")
		r.say("op", "v1", false, job("a", "live"), job("b", "live"))
		synctest.Wait()
		before, _ := d.View("op")
		tell := func(since, version string, put *actorpb.Instance, forgotten ...string) View {
			r.mu.Lock()
			r.answers["op"] = &actorpb.Instances{OperationId: "op", Version: version, Since: since, Instances: []*actorpb.Instance{put}, Forgotten: forgotten}
			r.change()
			r.mu.Unlock()
			synctest.Wait()
			view, _ := d.View("op")
			return view
		}
		view := tell("v1", "v2", job("c", "live"), "a")
		if all := view.Instances.GetInstances(); view.Err != nil || len(all) != 2 || all[0] != before.Instances.GetInstances()[1] || all[1].GetJobId() != "c" {
			t.Errorf("after changes: %v", view)
		}
		view = tell("v7", "v8", job("d", "live"))
		if view.Err == nil || view.Instances.GetVersion() != "v2" {
			t.Errorf("after changes of something else: %v, want what was known, and an error", view)
		}
		r.say("op", "v8", false, job("d", "live"))
		pass(r.Pause())
		if view, _ := d.View("op"); view.Err != nil || len(view.Instances.GetInstances()) != 1 {
			t.Errorf("asked again it knows %v", view)
		}
		changes := []bool{}
		for _, request := range r.asked {
			changes = append(changes, request.GetChanges())
		}
		if want := []bool{false, true, true, false, true}; !slices.Equal(changes, want) {
			t.Errorf("asked for changes %v, want %v: of what it knows alone", changes, want)
		}
	})
}
