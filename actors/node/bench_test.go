package node

import (
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/resource"
)

// calm is a cluster where nothing is to be done for any node.
type calm struct{ record *statepb.Node }

// Node implements State.
func (c calm) Node(string) (*statepb.Node, []Granted, uint64) { return c.record, nil, 1 }

// Version implements State.
func (calm) Version() uint32 { return 1 }

// Refusal implements State.
func (calm) Refusal(*statepb.Node) string { return "" }

// Refused implements State.
func (calm) Refused(string) string { return "" }

// Offer implements Scheduler.
func (calm) Offer(string, string, resource.Amounts) {}

// Doubt implements Scheduler.
func (calm) Doubt(string, string) {}

// Withdraw implements Scheduler.
func (calm) Withdraw(string, string) {}

// Send implements Agents.
func (calm) Send(string, proto.Message) {}

// Say implements Words.
func (calm) Say(string, bool) {}

// Unheard implements Words.
func (calm) Unheard(string) bool { return false }

// Publish implements Board.
func (calm) Publish(string, *actorpb.NodeView, []*actorpb.HeldJob) {}

// Heard implements Board.
func (calm) Heard(string, time.Time, time.Time) {}

// Refuse implements Board.
func (calm) Refuse(*actorpb.RefusedAgent) {}

// Reply implements Lead.
func (calm) Reply(reply func(proto.Message), answer proto.Message) { reply(answer) }

// ProposeAsync implements Log.
func (calm) ProposeAsync([]proto.Message, func([]*commandpb.Result, error)) {}

// BenchmarkIdle measures the memory of actors whose nodes are registered and hold no job.
func BenchmarkIdle(b *testing.B) {
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
	defer system.Shutdown()
	world := calm{online(7)}
	pids := make([]*actor.PID, 0, b.N)
	before := heap()
	for range b.N {
		pids = append(pids, system.Root.Spawn(actor.PropsFromProducer(New(Config{
			ID: "n1", Term: 3, Leader: "r1", State: world, Log: world, Scheduler: world, Agents: world, Board: world, Words: world, Lead: world,
			Replicas: func() []*actorpb.Replica { return nil }, Timing: DefaultTiming(), Pacer: DefaultTiming().Base(), RetryAfter: time.Second, Now: time.Now, StateNow: time.Now, Logger: quiet,
		}))))
	}
	var registered sync.WaitGroup
	for _, pid := range pids {
		registered.Add(1)
		system.Root.Send(pid, FromAgent{Message: registration(7), Reply: func(proto.Message) { registered.Done() }})
	}
	registered.Wait()
	b.ReportMetric(float64(heap()-before)/float64(b.N), "B/node")
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
