package actors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/controller"
	"weir/cluster/storage"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// bin is a storage of which only what it discards is of interest.
type bin struct {
	controller.Storage
	// failures are how often it fails before it does not.
	failures int
	asked    []string
	// slow is how long it takes; most is how many it was asked for at once.
	slow     time.Duration
	mu       sync.Mutex
	at, most int
}

// Discard implements Storage.
func (b *bin) Discard(_ context.Context, out storage.Output, completed bool) error {
	b.enter(1)
	<-time.After(b.slow)
	defer b.enter(-1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, fmt.Sprint(out.Path, " ", out.Operation, " ", completed))
	if len(b.asked) <= b.failures {
		return errors.New("no answer")
	}
	return nil
}

func (b *bin) enter(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at += n
	b.most = max(b.most, b.at)
}

// cleaner is a replica that has such a storage.
func cleaner(b *bin) *Replica {
	return &Replica{cfg: Config{Storage: b, Timing: DefaultTiming(), Logger: slog.New(slog.DiscardHandler)}, discarding: make(chan struct{}, discardsAtOnce)}
}

func TestStagingIsRemovedAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bin{slow: time.Second}
		r := cleaner(b)
		for range 100 {
			r.discard(t.Context(), &statepb.Operation{})
		}
		r.discards.Wait()
		if len(b.asked) != 100 || b.most != discardsAtOnce {
			t.Errorf("removed %d, %d at once, want 100 and %d", len(b.asked), b.most, discardsAtOnce)
		}
	})
}

func TestStagingIsRemovedUntilItIs(t *testing.T) {
	for name, test := range map[string]struct {
		state    string
		failures int
		want     string
		// wantTries and wantTime bound how often, and for how long, it is tried.
		wantTries [2]int
		wantTime  [2]time.Duration
	}{
		"at once":                             {state: "completed", want: "/out op true", wantTries: [2]int{1, 1}},
		"after some time":                     {state: "aborted", failures: 2, want: "/out op false", wantTries: [2]int{3, 3}, wantTime: [2]time.Duration{0, time.Second}},
		"when the store was away for an hour": {state: "failed", failures: 20, want: "/out op false", wantTries: [2]int{21, 21}, wantTime: [2]time.Duration{30 * time.Minute, 2 * time.Hour}},
		"but not for ever, when it never is":  {state: "failed", failures: 10000, want: "/out op false", wantTries: [2]int{250, 350}, wantTime: [2]time.Duration{stagedFor - discardPause, stagedFor}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bin{failures: test.failures}
				r, begun := cleaner(b), time.Now()
				r.discard(t.Context(), &statepb.Operation{Id: "op", State: test.state, Spec: &statepb.OperationSpec{Map: &statepb.MapSpec{OutputPath: "/out"}}})
				r.discards.Wait()
				if took := time.Since(begun); took < test.wantTime[0] || took > test.wantTime[1] {
					t.Errorf("tried for %v, want %v", took, test.wantTime)
				}
				if n := len(b.asked); n < test.wantTries[0] || n > test.wantTries[1] {
					t.Errorf("tried %d times, want %v", n, test.wantTries)
				}
				if asked := slices.Compact(b.asked); !slices.Equal(asked, []string{test.want}) {
					t.Errorf("asked %q, want %q", asked, test.want)
				}
			})
		})
	}
	t.Run("a replica that stops leaves it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			b := &bin{failures: 100}
			r := cleaner(b)
			r.discard(ctx, &statepb.Operation{})
			<-time.After(time.Second)
			cancel()
			r.discards.Wait()
			if len(b.asked) > 5 {
				t.Errorf("asked %d times", len(b.asked))
			}
		})
	})
}

// stop stops an actor, and returns when it has ended.
func (r *testReplica) stop(t *testing.T, pid *actor.PID) {
	t.Helper()
	ended := actor.NewFuture(r.system, within)
	process, _ := r.system.ProcessRegistry.Get(pid)
	process.SendSystemMessage(pid, &actor.Watch{Watcher: ended.PID()})
	process.Stop(pid)
	if err := ended.Wait(); err != nil {
		t.Fatalf("%s does not end: %v", pid.GetId(), err)
	}
}

// TestStagingOfAControllerThatHasGone has an operation end while nobody controls it: the leader
// removes what is staged or, when it hears of the end too late for that, the next one.
func TestStagingOfAControllerThatHasGone(t *testing.T) {
	for name, led := range map[string]bool{"while another one leads": true, "while leadership moves on": false} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, 2, nil)
			leader, other := c.leader(), c.follower()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "in"), []byte("a\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			id := c.controlledBy(other, "staged")
			result := leader.propose(t, &commandpb.StartOperation{OperationId: id, User: "ann", Time: timestamppb.Now(), Spec: &statepb.OperationSpec{
				Type: "map", MaxFailedJobCount: 10, Map: &statepb.MapSpec{InputPaths: []string{dir + "/in"}, OutputPath: dir + "/out", Format: "lines", JobCount: 1},
				Tasks: []*statepb.TaskSpec{{Name: "t", Shell: "cat", CpuLimitHundredths: 100, MemoryLimit: 1 << 20}},
			}})
			if refusal := result.GetRefusal(); refusal != nil {
				t.Fatal(refusal)
			}
			leader.await(t, id, "running")
			staging := filepath.Join(dir, "out.weir-"+id)
			gone := func() bool { _, err := os.Stat(staging); return errors.Is(err, fs.ErrNotExist) }
			if gone() {
				t.Fatal("nothing is staged while it runs")
			}
			other.stop(t, other.controllersPID)
			if !led {
				leader.stop(t, leader.controllersPID)
			}
			if refusal := leader.propose(t, &commandpb.AbortOperation{OperationId: id, User: "ann"}).GetRefusal(); refusal != nil {
				t.Fatal(refusal)
			}
			if !led {
				leader.await(t, id, "aborted")
				if gone() {
					t.Fatal("somebody has removed what is staged")
				}
				other.stand(t)
			}
			eventually(t, "nothing is staged", gone)
		})
	}
}
