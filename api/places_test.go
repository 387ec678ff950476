package api

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/messages/apipb/apipbconnect"
)

func aUser(name string) subject { return subject{identity.User, name} }

// hall is places in a test, with the tickets of each user.
type hall struct {
	*places
	in, out map[string][]*ticket // have a place; wait
}

func newHall(limit int) *hall {
	return &hall{newPlaces(limit, limit), map[string][]*ticket{}, map[string][]*ticket{}}
}

// settle admits whoever can have a place.
func (h *hall) settle() {
	for t := h.admit(); t != nil; t = h.admit() {
		name := t.of.of.name
		h.out[name] = slices.DeleteFunc(h.out[name], func(waits *ticket) bool { return waits == t })
		h.in[name] = append(h.in[name], t)
	}
}

// call makes calls of a user, and returns how many are refused at once.
func (h *hall) call(name string, count int) (refused int) {
	for range count {
		t := h.enter(aUser(name))
		if t == nil {
			refused++
			continue
		}
		h.out[name] = append(h.out[name], t)
		h.settle()
	}
	return refused
}

// end ends calls of a user.
func (h *hall) end(name string, count int) {
	for range count {
		h.leave(h.in[name][0])
		h.in[name] = h.in[name][1:]
		h.settle()
	}
}

// giveUp takes back a call of a user that waits.
func (h *hall) giveUp(name string) {
	last := len(h.out[name]) - 1
	h.abandon(h.out[name][last])
	h.out[name] = h.out[name][:last]
	h.settle()
}

func (h *hall) String() string {
	text := ""
	for _, name := range []string{"ann", "bob", "carol"} {
		text += fmt.Sprintf("%s %d+%d ", name, len(h.in[name]), len(h.out[name]))
	}
	return text
}

func TestPlaces(t *testing.T) {
	h := newHall(12)
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"alone, a user has half", func() { h.call("ann", 10) }, "ann 6+4 bob 0+0 carol 0+0 "},
		{"the next has a third", func() { h.call("bob", 10) }, "ann 6+4 bob 4+6 carol 0+0 "},
		{"the third has what is free", func() { h.call("carol", 1) }, "ann 6+4 bob 4+6 carol 1+0 "},
		{"a quarter at most", func() { h.call("carol", 3) }, "ann 6+4 bob 4+6 carol 2+2 "},
		{"a place goes to whoever has fewest", func() { h.end("ann", 1) }, "ann 5+4 bob 4+6 carol 3+1 "},
		{"and to nobody who has its share", func() { h.end("ann", 2) }, "ann 3+4 bob 4+6 carol 3+1 "},
		{"of equals the oldest call is first", func() { h.end("bob", 2); h.end("carol", 1) }, "ann 3+4 bob 3+5 carol 3+0 "},
		{"those who leave make room", func() { h.end("carol", 3) }, "ann 4+3 bob 4+4 carol 0+0 "},
		{"who gives up leaves its place to others", func() { h.giveUp("ann"); h.end("bob", 4) }, "ann 4+2 bob 4+0 carol 0+0 "},
	} {
		step.do()
		if got := h.String(); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
	if refused := newHall(2).call("ann", 5); refused != 2 {
		t.Errorf("%d refused of 5, want 2: one has a place, two wait", refused)
	}
}

// TestPlacesProperties (T5) lets users come and go by chance: nobody waits while a place is free and it has less than its
// fair share, so a place that comes free goes to whoever has fewest, not to those above their share.
func TestPlacesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		h := newHall(limit)
		names := []string{"ann", "bob", "carol", "dan"}
		aName := rapid.SampledFrom(names)
		t.Repeat(map[string]func(*rapid.T){
			"call": func(t *rapid.T) {
				name := aName.Draw(t, "user")
				before, held, share := len(h.out[name]), len(h.in[name]), 0
				refused := h.call(name, 1)
				if share = h.share(); refused > 0 && before < limit {
					t.Fatalf("%s is refused though %d wait", name, before)
				}
				if len(h.in[name]) > held && held >= share {
					t.Fatalf("%s gets a place with %d of a share of %d", name, held, share)
				}
			},
			"end": func(t *rapid.T) {
				if name := aName.Draw(t, "user"); len(h.in[name]) > 0 {
					held := map[string]int{}
					for _, other := range names {
						held[other] = len(h.in[other])
					}
					held[name]--
					h.end(name, 1)
					checkGift(t, h, names, held)
				}
			},
			"give up": func(t *rapid.T) {
				if name := aName.Draw(t, "user"); len(h.out[name]) > 0 {
					h.giveUp(name)
				}
			},
			"": func(t *rapid.T) { checkPlaces(t, h, names) },
		})
	})
}

// checkGift wants that no user got a place while another one, which waits still, held fewer.
func checkGift(t *rapid.T, h *hall, names []string, held map[string]int) {
	for _, got := range names {
		for _, other := range names {
			if len(h.in[got]) > held[got] && len(h.out[other]) > 0 && len(h.in[other]) < held[got] {
				t.Fatalf("%s got a place with %d, while %s waits with %d", got, held[got], other, len(h.in[other]))
			}
		}
	}
}

func checkPlaces(t *rapid.T, h *hall, names []string) {
	taken, waiting := 0, 0
	for _, name := range names {
		taken += len(h.in[name])
		waiting += len(h.out[name])
		if len(h.out[name]) > 0 && len(h.in[name]) < h.share() && h.taken < h.limit {
			t.Fatalf("%s waits with %d of a share of %d, and %d of %d places are taken", name, len(h.in[name]), h.share(), h.taken, h.limit)
		}
		if _, there := h.subjects[aUser(name)]; there != (len(h.in[name])+len(h.out[name]) > 0) {
			t.Fatalf("%s is there: %t", name, there)
		}
	}
	if h.taken != taken || h.waiting != waiting || taken > h.limit {
		t.Fatalf("%d of %d places taken, %d wait; there are %d and %d", h.taken, h.limit, h.waiting, taken, waiting)
	}
}

// TestShareOfTheTime (T5) has one user with more calls than it can have turns: where there are two, those that
// change something compute for half of the time, and those that only read for a sixteenth. Another user, with one call
// at a time, does not wait.
func TestShareOfTheTime(t *testing.T) {
	for procedure, most := range map[string]int{
		apipbconnect.OperationServiceStartProcedure: 2, apipbconnect.OperationServiceListProcedure: 16, apipbconnect.JobServiceOutputProcedure: 16,
	} {
		t.Run(procedure, func(t *testing.T) { shareOfTheTime(t, procedure, time.Duration(most)) })
	}
}

func shareOfTheTime(t *testing.T, procedure string, parts time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		const compute = 10 * time.Millisecond
		d := newDoor("r1", DefaultLimits())
		d.turns = newEntrance("calls that compute", 2, 100, time.Minute)
		began, end := time.Now(), time.Now().Add(2*time.Second)
		var turns atomic.Int64
		call := func(name string) (waited time.Duration) {
			asked := time.Now()
			mine := &turn{door: d, of: aUser(name), fewest: fewestOf(procedure), ctx: t.Context()}
			if err := mine.take(); err != nil {
				t.Error(err)
			}
			waited = time.Since(asked)
			time.Sleep(compute)
			mine.rest()
			return waited
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for time.Now().Before(end) {
					call("mallory")
					turns.Add(1)
				}
			})
		}
		calls := 0
		for ; time.Now().Before(end); calls++ {
			if waited := call("ann"); waited > 0 {
				t.Errorf("ann waits for %v", waited)
			}
			time.Sleep(3 * compute)
		}
		synctest.Wait()
		had := time.Duration(turns.Load()) * compute
		if alone := time.Since(began); had > alone/parts+alone/16 || had < alone/parts/2 {
			t.Errorf("mallory computes for %v of %v, want at most one part of %d", had, alone, parts)
		}
		if calls != 50 {
			t.Errorf("ann has %d calls, want 50: one each 40 ms", calls)
		}
		all.Wait()
		quick := time.Now()
		for range 10 {
			call("ann")
		}
		if took := time.Since(quick); took != 10*compute {
			t.Errorf("ten calls of one who is alone take %v, want %v", took, 10*compute)
		}
		if synctest.Wait(); len(d.turns.places.subjects) > 0 {
			t.Errorf("%d subjects are kept", len(d.turns.places.subjects))
		}
	})
}

// TestSlowTurns (T5) has one user make calls that take half a second each, two of three of which wait: none is refused
// for the time that the others took.
func TestSlowTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor("r1", DefaultLimits())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for range 10 {
					mine := &turn{door: d, of: aUser("ann"), fewest: fewestOf(apipbconnect.OperationServiceGetProcedure), ctx: t.Context()}
					if err := mine.take(); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(500 * time.Millisecond)
					mine.rest()
				}
			})
		}
		all.Wait()
	})
}

// TestRateOfOutput (T5) has a user read many outputs and files at once through a replica, in parts that take a millisecond. The user has
// partRate, or twice as much while two parts are under way together. Another user's reads wait for none of them.
func TestRateOfOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const part = 128 << 10
		d := newDoor("r1", DefaultLimits())
		leader := sharedLeader{to: outputs{size: part}, door: d}
		var reads atomic.Int64
		read := func(name string) (waited time.Duration) {
			asked := time.Now()
			mine := &turn{door: d, of: aUser(name), ctx: t.Context()}
			defer mine.rest()
			ctx := context.WithValue(t.Context(), askingKey{}, &asking{caller: caller{Identity: identity.Identity{Role: identity.User, Name: name}}, turn: mine})
			var err error
			if reads.Add(1)%2 == 0 {
				_, err = leader.ReadOutput(ctx, &actorpb.ReadOutput{})
			} else {
				_, err = leader.ReadFile(ctx, &actorpb.ReadFile{})
			}
			if err != nil {
				t.Error(err)
			}
			return time.Since(asked)
		}
		const took = 5 * time.Second
		end := time.Now().Add(took)
		var parts atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for time.Now().Before(end) {
					read("mallory")
					parts.Add(1)
				}
			})
		}
		for time.Now().Before(end) {
			if waited := read("ann"); waited > outputTakes {
				t.Errorf("ann waits for %v", waited)
			}
			time.Sleep(10 * time.Millisecond)
		}
		all.Wait()
		if rate := parts.Load() * part / int64(took.Seconds()); rate < partRate/2 || rate > 2*partRate+50*part {
			t.Errorf("mallory has %d bytes a second, want %d to %d", rate, partRate, 2*partRate)
		}
	})
}

// outputTakes is how long a read of outputs takes.
const outputTakes = time.Millisecond

// outputs is a leader of whom each read has so many bytes.
type outputs struct {
	Leader
	size int
}

func (o outputs) ReadOutput(context.Context, *actorpb.ReadOutput) (*actorpb.OutputPart, error) {
	time.Sleep(outputTakes)
	return &actorpb.OutputPart{Data: make([]byte, o.size)}, nil
}

func (o outputs) ReadFile(context.Context, *actorpb.ReadFile) (*actorpb.FilePart, error) {
	time.Sleep(outputTakes)
	return &actorpb.FilePart{Data: make([]byte, o.size)}, nil
}

// TestComeAgainLater (T5): who has too many calls is told to come again when half of those that wait have had their
// places, as fast as they get them; what was long ago counts less.
func TestComeAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEntrance("calls", 2, 1000, time.Hour)
		var took atomic.Int64
		took.Store(int64(100 * time.Millisecond))
		var all sync.WaitGroup
		calls := func(count int) {
			for range count {
				all.Go(func() {
					place := e.enter(t.Context(), aUser("mallory"))
					time.Sleep(time.Duration(took.Load()))
					e.leave(place)
				})
			}
		}
		if due := e.due(aUser("mallory"), time.Now()); due != 0 {
			t.Errorf("before there is a call: %v", due)
		}
		calls(131)
		time.Sleep(1050 * time.Millisecond)
		// 10 have ended, one is inside, and 120 wait.
		if due := e.due(aUser("mallory"), time.Now()); due < 6*time.Second || due > 6500*time.Millisecond {
			t.Errorf("with 120 that wait, 10 a second: %v", due)
		}
		calls(500)
		synctest.Wait()
		if due := e.due(aUser("mallory"), time.Now()); due != maxDue {
			t.Errorf("with 620 that wait: %v", due)
		}
		time.Sleep(20 * time.Second)
		took.Store(int64(time.Millisecond))
		time.Sleep(200 * time.Millisecond)
		// Now they are a hundred times as fast.
		if due := e.due(aUser("mallory"), time.Now()); due > 4*time.Second || due == 0 {
			t.Errorf("with some 220 that wait, fast by now: %v", due)
		}
		all.Wait()
		if due := e.due(aUser("mallory"), time.Now()); due != 0 {
			t.Errorf("when all have ended: %v", due)
		}
	})
}
