package operation

import (
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// calm is a cluster where nothing is to be done for any operation.
type calm struct {
	operation *statepb.Operation
	looks     *sync.WaitGroup
}

// Operation implements State.
func (c calm) Operation(string) (*statepb.Operation, int) {
	c.looks.Done()
	return c.operation, 1
}

// Choose implements Replicas.
func (calm) Choose(string) (string, bool) { return "r1", true }

// GoneSince implements Replicas.
func (calm) GoneSince(string) time.Time { return time.Time{} }

// ProposeAsync implements Log.
func (calm) ProposeAsync([]proto.Message, func([]*commandpb.Result, error)) {}

// BenchmarkIdle measures the memory of actors whose operations run.
func BenchmarkIdle(b *testing.B) {
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
	defer system.Shutdown()
	world := calm{&statepb.Operation{Id: "op", State: "running", Assignment: &statepb.Assignment{Replica: "r1", Epoch: 1}}, new(sync.WaitGroup)}
	world.looks.Add(b.N)
	pids := make([]*actor.PID, 0, b.N)
	before := heap()
	for range b.N {
		pids = append(pids, system.Root.Spawn(actor.PropsFromProducer(New(Config{
			ID: "op", Term: 1, State: world, Replicas: world, Log: world, ReassignAfter: time.Second, RetryAfter: time.Second, Now: time.Now, Logger: quiet,
		}))))
	}
	world.looks.Wait()
	b.ReportMetric(float64(heap()-before)/float64(b.N), "B/operation")
	b.StopTimer()
	for _, pid := range pids {
		if err := system.Root.StopFuture(pid).Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}
