package pool

import (
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/scheduling"
	"weir/scheduling/pooltree"
)

// calm is a tree where no operation waits.
type calm struct {
	view  View
	looks *sync.WaitGroup
}

// Admission implements State.
func (c calm) Admission(scheduling.TreeName, scheduling.PoolName) (View, error) {
	c.looks.Done()
	return c.view, nil
}

// ProposeAsync implements Log.
func (calm) ProposeAsync([]proto.Message, func([]*commandpb.Result, error)) {}

// BenchmarkIdle measures the memory of actors whose pools admit nothing.
func BenchmarkIdle(b *testing.B) {
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
	defer system.Shutdown()
	tree := buildTree(b)
	counts, err := tree.Total(map[scheduling.PoolName]pooltree.Count{})
	if err != nil {
		b.Fatal(err)
	}
	world := calm{View{Tree: scheduling.DefaultTree, Pools: tree, Counts: counts}, new(sync.WaitGroup)}
	world.looks.Add(b.N)
	pids := make([]*actor.PID, 0, b.N)
	before := heap()
	for range b.N {
		pids = append(pids, system.Root.Spawn(actor.PropsFromProducer(New(Config{
			Tree: scheduling.DefaultTree, Name: "ads", Term: 1, State: world, Log: world, RetryAfter: time.Second, Now: time.Now, Logger: quiet,
		}))))
	}
	world.looks.Wait()
	b.ReportMetric(float64(heap()-before)/float64(b.N), "B/pool")
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
