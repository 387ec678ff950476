package load_test

import (
	"context"
	"iter"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/examples/clique/load"
	"weir/examples/clique/service"
	"weir/messages/actorpb"
	"weir/messages/apipb"
)

const patience = 2 * time.Minute

// instance is one of the service, in this process.
type instance struct {
	id       string
	listener net.Listener
	told     chan os.Signal
	ended    chan error
}

// serve starts an instance that takes requests for so long after it was told to go.
func serve(t *testing.T, id string, notice time.Duration) *instance {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{id: id, listener: listener, told: make(chan os.Signal, 1), ended: make(chan error, 1)}
	go func() {
		i.ended <- service.Serve(listener, i.told, service.Config{Name: id, Notice: notice})
	}()
	return i
}

// leave tells an instance to go, and waits until it has.
func (i *instance) leave(t *testing.T) {
	t.Helper()
	i.told <- syscall.SIGTERM
	select {
	case err := <-i.ended:
		if err != nil {
			t.Errorf("instance %s: %v", i.id, err)
		}
	case <-time.After(patience):
		t.Errorf("instance %s does not end", i.id)
	}
}

// as is what discovery says of it.
func (i *instance) as(state string) *apipb.Instance {
	at := i.listener.Addr().(*net.TCPAddr)
	return &apipb.Instance{JobId: i.id, Node: "n1", Host: at.IP.String(), Ports: []int32{int32(at.Port)}, State: state, Ready: state == actorpb.InstanceLive}
}

// answers are those of a discovery that says what it is sent.
func answers(ctx context.Context, news <-chan []*apipb.Instance) iter.Seq2[*apipb.WatchInstancesResponse, error] {
	return func(yield func(*apipb.WatchInstancesResponse, error) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case seen := <-news:
				if !yield(&apipb.WatchInstancesResponse{Instances: seen}, nil) {
					return
				}
			}
		}
	}
}

func quick() load.Config {
	return load.Config{
		Lengths: load.Lengths{ShortFrom: time.Millisecond, ShortTo: 5 * time.Millisecond, LongPart: 0.05, LongFrom: 50 * time.Millisecond, LongMean: 50 * time.Millisecond, Longest: 300 * time.Millisecond},
		Workers: 10, Rate: 200, Bound: 20, Seed: 7,
	}
}

// TestInstancesComeAndGo loses no request while instances leave as they should, and
// counts those that are lost when one is cut off.
func TestInstancesComeAndGo(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	// Of a none is to be lost, also of those that are sent late on a slow machine.
	a, b := serve(t, "a", 5*time.Second), serve(t, "b", 0)
	fleet := load.NewFleet()
	news, followed, following := make(chan []*apipb.Instance), make(chan error, 1), make(chan struct{}, 10)
	ended, end := context.WithCancel(ctx)
	go func() {
		followed <- fleet.Follow(answers(ended, news), func([]*apipb.Instance) { following <- struct{}{} })
	}()
	say := func(seen ...*apipb.Instance) {
		news <- seen
		<-following
	}
	// One that has a place and does not listen is not sent anything; nor one without ports.
	silent := &apipb.Instance{JobId: "silent", Host: "127.0.0.1", Ports: []int32{1}, State: actorpb.InstanceLive}
	portless := &apipb.Instance{JobId: "portless", Host: "127.0.0.1", State: actorpb.InstanceLive, Ready: true}
	say(a.as(actorpb.InstanceLive), silent, portless)
	generator := load.New(quick(), fleet)
	stop, halt := context.WithCancel(ctx)
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		generator.Run(ctx, stop)
	}()
	answered := func(more int) {
		t.Helper()
		for first := generator.Tally().Total().Answered; generator.Tally().Total().Answered < first+more; {
			select {
			case <-ctx.Done():
				t.Fatalf("no more requests are answered: %+v", generator.Tally())
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	answered(300)
	say(a.as(actorpb.InstanceLive), b.as(actorpb.InstanceLive))
	waited, halted := context.WithCancel(ctx)
	halted()
	if err := fleet.Until(waited, func([]*apipb.Instance) bool { return false }); err == nil {
		t.Error("a wait does not end")
	}
	both := func(seen []*apipb.Instance) bool { return load.CountIf(seen, load.Ready) == 2 }
	if err := fleet.Until(ctx, both); err != nil {
		t.Fatal(err)
	}
	answered(300)
	say(a.as(actorpb.InstanceDraining), b.as(actorpb.InstanceLive))
	a.leave(t)
	answered(300)
	if tally := generator.Tally(); tally.Total().Failed != 0 {
		t.Errorf("requests have failed though every instance left as it should: %+v", tally)
	}
	// Nobody is told that b goes.
	b.leave(t)
	for generator.Tally().Total().Failed == 0 && ctx.Err() == nil {
		<-time.After(5 * time.Millisecond)
	}
	halt()
	say(b.as(actorpb.InstanceGone))
	<-ran
	tally := generator.Tally()
	if total := tally.Total(); total.Sent != total.Answered+total.Failed || total.Failed == 0 || tally.Closed.Sent == 0 || tally.Open.Sent == 0 || len(tally.Cut) != total.Failed {
		t.Errorf("counted %+v", tally)
	}
	for _, cut := range tally.Cut {
		if cut.Job != "b" || cut.Node != "n1" || cut.What == "" || cut.Ended.Before(cut.Began) {
			t.Errorf("failed %+v, want one of those that were sent to b", cut)
			break
		}
	}
	if tally.Longest < 50*time.Millisecond {
		t.Errorf("the longest request took %v", tally.Longest)
	}
	end()
	if err := <-followed; err != nil {
		t.Error(err)
	}
}

// TestReadyByWord sends requests to those alone that discovery says are ready: also to one that
// does not listen, whose requests fail, and of which no more are sent before a pause is over.
func TestReadyByWord(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a := serve(t, "a", 0)
	fleet := load.NewFleet()
	seen, unready := a.as(actorpb.InstanceLive), &apipb.Instance{JobId: "b", Host: "127.0.0.1", Ports: []int32{1}, State: actorpb.InstanceLive}
	news, told := make(chan []*apipb.Instance), make(chan struct{})
	go func() {
		_ = fleet.Follow(answers(ctx, news), func([]*apipb.Instance) { told <- struct{}{} })
	}()
	say := func(seen ...*apipb.Instance) {
		news <- seen
		<-told
	}
	run := func(until func(load.Count) bool) load.Tally {
		config := quick()
		config.Workers, config.Rate, config.Pause = 1, 0, time.Hour
		generator := load.New(config, fleet)
		stop, halt := context.WithCancel(ctx)
		go func() {
			defer halt()
			for !until(generator.Tally().Total()) && ctx.Err() == nil {
				<-time.After(time.Millisecond)
			}
		}()
		generator.Run(ctx, stop)
		return generator.Tally()
	}
	say(seen, unready)
	if tally := run(func(c load.Count) bool { return c.Answered >= 20 }); tally.Total().Failed != 0 {
		t.Errorf("requests have gone to one that is not ready: %+v", tally)
	}
	unready.Ready = true
	say(unready)
	if tally := run(func(c load.Count) bool { return c.Failed > 0 }); tally.Total().Sent != 1 || tally.Cut[0].Job != "b" {
		t.Errorf("counted %+v, want one request to b that failed", tally)
	}
	a.leave(t)
}

// TestOpenLoopIsBounded withholds what is due while as many requests are under way as
// may be.
func TestOpenLoopIsBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	config := quick()
	config.Workers, config.Rate, config.Bound = 0, 1000, 3
	// No instance is ready: all wait for one.
	generator := load.New(config, load.NewFleet())
	stop, halt := context.WithCancel(ctx)
	go func() {
		defer halt()
		for generator.Tally().Open.Withheld < 50 && ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
	}()
	generator.Run(ctx, stop)
	if tally := generator.Tally(); tally.Open.Withheld < 50 || tally.Open.Sent != 0 {
		t.Errorf("counted %+v", tally)
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*load.Config)
		want   string
	}{
		"default":               {func(*load.Config) {}, ""},
		"nothing is sent":       {func(c *load.Config) { c.Workers, c.Rate = 0, 0 }, "something must be sent"},
		"a negative pause":      {func(c *load.Config) { c.Pause = -1 }, "must not be negative"},
		"a negative bound":      {func(c *load.Config) { c.Bound = -1 }, "must not be negative"},
		"short ones of no time": {func(c *load.Config) { c.Lengths.ShortFrom = 0 }, "must be positive"},
		"more than all":         {func(c *load.Config) { c.Lengths.LongPart = 1.5 }, "must be 0 to 1"},
		"a negative mean":       {func(c *load.Config) { c.Lengths.LongMean = -1 }, "must not be negative"},
		"a tail that ends soon": {func(c *load.Config) { c.Lengths.Longest = time.Millisecond }, "the longest request takes 1ms: must be at least"},
	} {
		t.Run(name, func(t *testing.T) {
			c := load.DefaultConfig()
			tc.change(&c)
			err := c.Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
