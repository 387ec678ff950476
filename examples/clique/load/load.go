package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"weir/cmd/poll"
)

// Config describes the load.
type Config struct {
	Lengths Lengths
	// Workers is the number of workers of the closed loop. Each sends a request when its last
	// one has ended.
	Workers int
	// Rate is the number of requests a second of the open loop, which are sent whether or not
	// others have ended. At most Bound requests are open at once.
	Rate  float64
	Bound int
	// Pause is how long a worker waits after a failed request.
	Pause time.Duration
	// Seed decides lengths and times.
	Seed uint64
}

// DefaultConfig returns a load of some 600 requests a second.
func DefaultConfig() Config {
	return Config{Lengths: DefaultLengths(), Workers: 80, Rate: 200, Bound: 400, Pause: 100 * time.Millisecond, Seed: 1}
}

// Validate returns an error if the load is invalid.
func (c Config) Validate() error {
	if c.Workers < 0 || c.Rate < 0 || c.Bound < 0 || c.Pause < 0 || c.Workers == 0 && c.Rate == 0 {
		return fmt.Errorf("load: %d workers with pauses of %v, %v requests a second, at most %d: must not be negative, and something must be sent", c.Workers, c.Pause, c.Rate, c.Bound)
	}
	return c.Lengths.Validate()
}

// Generator sends requests to a fleet.
type Generator struct {
	config Config
	fleet  *Fleet
	client *http.Client

	mu    sync.Mutex
	tally Tally
}

// New returns a generator that has sent nothing yet.
func New(config Config, fleet *Fleet) *Generator {
	// Keep as many idle connections as an instance can have open requests.
	return &Generator{config: config, fleet: fleet, client: &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 1000, IdleConnTimeout: 30 * time.Second,
	}}}
}

// Run sends requests until stop is done, and returns when all have ended. When ctx is done, the
// open requests fail.
func (g *Generator) Run(ctx, stop context.Context) {
	defer g.client.CloseIdleConnections()
	began := time.Now()
	var loops sync.WaitGroup
	for i := range g.config.Workers {
		loops.Go(func() { g.closed(ctx, stop, rand.New(rand.NewPCG(g.config.Seed, uint64(i)))) })
	}
	if g.config.Rate > 0 {
		loops.Go(func() { g.open(ctx, stop, began, rand.New(rand.NewPCG(g.config.Seed, uint64(g.config.Workers)))) })
	}
	loops.Wait()
}

// Tally returns the results of the requests so far.
func (g *Generator) Tally() Tally {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tally
	t.Cut = slices.Clone(t.Cut)
	return t
}

// note changes the tally under its lock.
func (g *Generator) note(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// closed runs a worker of the closed loop: it sends one request after another.
func (g *Generator) closed(ctx, stop context.Context, random *rand.Rand) {
	for stop.Err() == nil {
		if !g.send(ctx, stop, &g.tally.Closed, g.config.Lengths.draw(random)) {
			_ = poll.Pause(stop, g.config.Pause)
		}
	}
}

// open runs the open loop: it sends requests at random times.
func (g *Generator) open(ctx, stop context.Context, due time.Time, random *rand.Rand) {
	var under sync.WaitGroup
	defer under.Wait()
	places := make(chan struct{}, g.config.Bound)
	loop := &g.tally.Open
	for {
		due = due.Add(time.Duration(random.ExpFloat64() / g.config.Rate * float64(time.Second)))
		if poll.Pause(stop, time.Until(due)) != nil {
			return
		}
		length := g.config.Lengths.draw(random)
		select {
		case places <- struct{}{}:
			under.Go(func() {
				g.send(ctx, stop, loop, length)
				<-places
			})
		default:
			g.note(func() { loop.Withheld++ })
		}
	}
}

// send sends one request to an instance, once there is one, and records its end. It reports
// whether the request was answered.
func (g *Generator) send(ctx, stop context.Context, loop *Count, length time.Duration) (answered bool) {
	to, err := g.fleet.pick(stop)
	if err != nil {
		// The load stops.
		return false
	}
	defer g.fleet.done(to)
	g.note(func() { loop.Sent++ })
	end := Cut{Began: time.Now(), Job: to.GetJobId(), Node: to.GetNode()}
	end.What = g.request(ctx, net.JoinHostPort(to.GetHost(), strconv.Itoa(int(to.GetPorts()[0]))), length)
	end.Ended = time.Now()
	g.note(func() { g.tally.ended(loop, end) })
	return end.What == ""
}

// request returns the failure of a request, or "" if it was answered. It is a POST, which the
// transport never repeats: when the connection breaks, the instance may or may not have started the
// request.
func (g *Generator) request(ctx context.Context, address string, length time.Duration) (failure string) {
	target := url.URL{Scheme: "http", Host: address, Path: "/work", RawQuery: url.Values{"for": {length.String()}}.Encode()}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), nil)
	if err != nil {
		return err.Error()
	}
	answer, err := g.client.Do(r)
	if err != nil {
		return reason(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return reason(err)
	}
	if answer.StatusCode != http.StatusOK {
		return "answered with " + answer.Status
	}
	return ""
}

// reason names the failure without the address.
func reason(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		return "connection cut"
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err.Error()
	}
	return err.Error()
}
