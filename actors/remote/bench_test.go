package remote_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/remote"
)

// BenchmarkRequest counts requests with their replies per second, by how many
// are under way.
func BenchmarkRequest(b *testing.B) {
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			where := new(directory)
			r1 := start(b, where, replica("r1"), nil)
			n7 := start(b, where, agent("n7"), nil)
			r1.spawn(b, "echo", func(ctx actor.Context) {
				if in, ok := ctx.Message().(*remote.Inbound); ok {
					ctx.Respond(in.Message)
				}
			})
			n7.connect(b, r1)
			message := text(string(make([]byte, 100)))
			turns := make(chan struct{}, callers)
			var workers sync.WaitGroup
			b.ResetTimer()
			for range callers {
				workers.Go(func() {
					for range turns {
						if _, err := n7.Request(context.Background(), r1.Self(), "echo", message); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for range b.N {
				turns <- struct{}{}
			}
			close(turns)
			workers.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// BenchmarkSend counts messages per second that one sender gets through to one
// actor, as fast as the queue takes them.
func BenchmarkSend(b *testing.B) {
	window := int64(remote.DefaultLimits().InboxMessages) / 2
	for _, size := range []int{16, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			where := new(directory)
			r1 := start(b, where, replica("r1"), nil)
			n7 := start(b, where, agent("n7"), nil)
			all := make(chan struct{})
			var got atomic.Int64
			r1.spawn(b, "inbox", func(ctx actor.Context) {
				if _, ok := ctx.Message().(*remote.Inbound); ok && got.Add(1) == int64(b.N) {
					close(all)
				}
			})
			n7.connect(b, r1)
			message := text(string(make([]byte, size)))
			b.SetBytes(int64(size))
			b.ResetTimer()
			for sent := range int64(b.N) {
				// What finds no room in an inbox, and nobody waits on, is dropped.
				for sent-got.Load() >= window {
					runtime.Gosched()
				}
				err := n7.Send(r1.Self(), "inbox", message)
				for errors.Is(err, remote.ErrQueueFull) {
					runtime.Gosched()
					err = n7.Send(r1.Self(), "inbox", message)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			select {
			case <-all:
			case <-time.After(patience):
				b.Fatalf("not all of %d messages have come after %v: those on the way are lost when a link breaks", b.N, patience)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
