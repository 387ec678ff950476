package wire

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// crowd is a door in a test, with the guests that are in by a name.
type crowd struct {
	*door
	t     *testing.T
	names map[*guest]string
	now   time.Time
}

func newCrowd(t *testing.T, limits Limits) *crowd {
	return &crowd{newDoor(limits.withDefaults()), t, map[*guest]string{}, start}
}

// arrive lets a guest in, and wants another one to go; "" is none.
func (c *crowd) arrive(name, from, wantOut string) *guest {
	c.t.Helper()
	in, out := c.enter(addr(from), c.now)
	c.names[in] = name
	if got := c.names[out]; got != wantOut {
		c.t.Errorf("%s from %s: %q has to go, want %q", name, from, got, wantOut)
	}
	return in
}

// begin has the handshake of a guest compute, and wait for its peer again.
func (c *crowd) begin(g *guest) {
	c.t.Helper()
	c.ask(g)
	if turn, _ := c.next(c.now); turn != g {
		c.t.Fatalf("the turn is that of %q", c.names[turn])
	}
	c.rest(g, c.now)
}

func TestWhoHasToGo(t *testing.T) {
	t.Run("the oldest of an address that is full", func(t *testing.T) {
		c := newCrowd(t, Limits{Address: 2})
		c.arrive("a1", "10.0.0.1", "")
		c.arrive("a2", "10.0.0.1", "")
		c.arrive("b1", "10.0.0.2", "")
		c.arrive("a3", "10.0.0.1", "a1")
		c.arrive("a4", "10.0.0.1", "a2")
	})
	t.Run("nobody who has said something, but the newcomer", func(t *testing.T) {
		c := newCrowd(t, Limits{Address: 2})
		c.ask(c.arrive("a1", "10.0.0.1", ""))
		c.ask(c.arrive("a2", "10.0.0.1", ""))
		c.arrive("a3", "10.0.0.1", "a3")
	})
	t.Run("nobody in the midst of a handshake, unless it takes long", func(t *testing.T) {
		c := newCrowd(t, Limits{Address: 2})
		c.begin(c.arrive("a1", "10.0.0.1", ""))
		c.arrive("a2", "10.0.0.1", "")
		c.begin(c.arrive("a3", "10.0.0.1", "a2"))
		c.arrive("a4", "10.0.0.1", "a4")
		c.now = start.Add(answerTime + 1)
		c.arrive("a5", "10.0.0.1", "a1")
	})
	t.Run("the oldest of the address that has most of a full subnet", func(t *testing.T) {
		c := newCrowd(t, Limits{Subnet: 3})
		c.arrive("a1", "2001:db8::1", "")
		c.arrive("b1", "2001:db8::2", "")
		c.arrive("b2", "2001:db8::2", "")
		c.arrive("c1", "2001:db8:0:1::1", "")
		c.arrive("d1", "2001:db8::3", "b1")
	})
	t.Run("the oldest of the subnet that has most, when all are too many", func(t *testing.T) {
		c := newCrowd(t, Limits{Strangers: 3})
		c.arrive("a1", "10.0.1.1", "")
		c.arrive("b1", "10.0.2.1", "")
		c.arrive("b2", "10.0.2.2", "")
		c.arrive("c1", "::ffff:10.0.3.1", "b1")
	})
	t.Run("no guest of a member's address, however many strangers there are", func(t *testing.T) {
		c := newCrowd(t, Limits{Strangers: 1, Members: 2})
		member := c.arrive("m1", "10.0.0.9", "")
		c.leave(member, false, start)
		c.settle(addr("10.0.0.9"), start)
		c.arrive("s1", "10.0.0.1", "")
		c.arrive("m2", "10.0.0.9", "")
		c.arrive("m3", "10.0.0.9", "")
		c.arrive("s2", "10.0.0.1", "s1")
		c.arrive("m4", "10.0.0.9", "m2")
	})
}

func TestMembersAreRemembered(t *testing.T) {
	d := newDoor(Limits{}.withDefaults())
	home := addr("10.0.0.9")
	known := func(after time.Duration) bool {
		g, _ := d.enter(home, start.Add(after))
		defer d.leave(g, false, start.Add(after))
		return g.origin.known
	}
	if known(0) {
		t.Error("known before it came")
	}
	d.settle(home, start)
	if !known(24 * time.Hour) {
		t.Error("unknown though it is here")
	}
	d.part(home, start.Add(24*time.Hour))
	if !known(24*time.Hour + memberMemory - 1) {
		t.Error("forgotten at once")
	}
	if known(24*time.Hour + memberMemory) {
		t.Error("known for ever")
	}
	if len(d.origins) != 0 || len(d.subnets) != 0 {
		t.Errorf("left are %d addresses of %d subnets", len(d.origins), len(d.subnets))
	}
}

// TestMembersComeFirst lets a member ask last.
func TestMembersComeFirst(t *testing.T) {
	d := newDoor(Limits{Handshakes: 1}.withDefaults())
	d.settle(addr("10.0.0.9"), start)
	for _, from := range []string{"10.0.1.1", "10.0.2.1", "10.0.0.9"} {
		in, _ := d.enter(addr(from), start)
		d.ask(in)
	}
	if g, _ := d.next(start); g == nil || !g.origin.known {
		t.Errorf("the first turn is of %+v", g)
	}
}

// TestStrangersHaveTurns although a member's address always has a handshake that computes, and another one that waits.
func TestStrangersHaveTurns(t *testing.T) {
	d := newDoor(Limits{Handshakes: 1}.withDefaults())
	member := addr("10.0.0.9")
	d.settle(member, start)
	ask := func(from netip.Addr) *guest {
		in, _ := d.enter(from, start)
		d.ask(in)
		return in
	}
	var busy []*guest
	for range memberTurns + 1 {
		ask(member)
	}
	for g, _ := d.next(start); g != nil; g, _ = d.next(start) {
		busy = append(busy, g)
	}
	if len(busy) != memberTurns {
		t.Fatalf("%d handshakes of members compute, want %d", len(busy), memberTurns)
	}
	stranger, other := ask(addr("10.0.1.1")), ask(addr("10.0.2.1"))
	if g, _ := d.next(start); g != stranger {
		t.Errorf("the turn is of %+v, want the first stranger", g)
	}
	if g, _ := d.next(start); g != nil {
		t.Errorf("the turn is of %+v, although nobody has ended", g)
	}
	d.leave(busy[0], false, start)
	if g, _ := d.next(start); g == nil || !g.origin.known {
		t.Errorf("the turn of a member is of %+v", g)
	}
	d.leave(stranger, false, start)
	if g, _ := d.next(start); g != other {
		t.Errorf("the turn of a stranger is of %+v", g)
	}
}

// TestTurnsOfAnAddress: a handshake that has begun goes on before others begin, and the newest of these begins first.
func TestTurnsOfAnAddress(t *testing.T) {
	c := newCrowd(t, Limits{Handshakes: 1})
	guests := map[string]*guest{}
	ask := func(name string) {
		if guests[name] == nil {
			guests[name] = c.arrive(name, "10.0.0.1", "")
		}
		c.ask(guests[name])
	}
	var turns []string
	next := func() {
		turn, _ := c.next(start)
		turns = append(turns, c.names[turn])
		c.rest(turn, start)
	}
	ask("a1")
	ask("a2")
	next()
	ask("a3")
	ask("a2")
	next()
	next()
	next()
	if want := []string{"a2", "a2", "a3", "a1"}; !slices.Equal(turns, want) {
		t.Errorf("the turns are of %q, want %q", turns, want)
	}
}

// TestFailuresWait lets two addresses ask without end: one always fails, the other never.
func TestFailuresWait(t *testing.T) {
	d := newDoor(Limits{Handshakes: 1}.withDefaults())
	done := map[string]int{}
	const seconds = 10
	for now := start; now.Before(start.Add(seconds * time.Second)); now = now.Add(time.Millisecond) {
		for _, from := range []string{"10.0.1.1", "10.0.2.1"} {
			if len(d.origin(addr(from), now).guests) == 0 {
				in, _ := d.enter(addr(from), now)
				d.ask(in)
			}
		}
		if g, _ := d.next(now); g != nil {
			from := g.origin.addr.String()
			done[from]++
			d.leave(g, from == "10.0.1.1", now)
		}
	}
	if got, most := done["10.0.1.1"], seconds*50+20; got > most || got < most/2 {
		t.Errorf("%d failures, want up to %d", got, most)
	}
	if got := done["10.0.2.1"]; got < 900*seconds {
		t.Errorf("the other address had %d turns, want nearly all of %d", got, 1000*seconds)
	}
}

// TestDoorProperties (T5) lets chance act on a door: bounds hold, what is counted is there, a turn is of the address that
// owes least, and an address that has no more than others loses nothing to them.
func TestDoorProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{Address: 3, Subnet: 5, Strangers: 8, MemberAddress: 4, Members: 6, Handshakes: 2}
		d := newDoor(limits)
		now := start
		var inside []*guest
		drop := func(g *guest) { inside = slices.DeleteFunc(inside, func(in *guest) bool { return in == g }) }
		pick := func() *guest { return rapid.SampledFrom(inside).Draw(t, "guest") }
		sessions := map[netip.Addr]int{}
		anAddress := rapid.Custom(func(t *rapid.T) netip.Addr {
			return addr(fmt.Sprintf("10.0.%d.%d", rapid.IntRange(0, 2).Draw(t, "subnet"), rapid.IntRange(1, 3).Draw(t, "host")))
		})
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				in, out := d.enter(anAddress.Draw(t, "from"), now)
				inside = append(inside, in)
				if out != nil && out.origin != in.origin {
					for o := range d.subnets[out.origin.subnet.prefix].origins {
						if o.known == out.origin.known && len(o.guests) > len(out.origin.guests)+1 {
							t.Fatalf("%v lost a guest with %d, while %v has %d", out.origin.addr, len(out.origin.guests)+1, o.addr, len(o.guests))
						}
					}
				}
				drop(out)
			},
			"ask": func(t *rapid.T) {
				if len(inside) == 0 {
					t.Skip("nobody is in")
				}
				if g := pick(); g.stage == silent {
					d.ask(g)
				}
			},
			"next": func(t *rapid.T) {
				turn, wait := d.next(now)
				waits := slices.ContainsFunc(inside, func(g *guest) bool {
					return g.stage == waiting && d.hasTurn(g.origin.known)
				})
				if turn == nil && waits && wait == 0 {
					t.Fatal("a guest waits, and would for ever")
				}
			},
			"rest": func(_ *rapid.T) {
				if len(inside) > 0 {
					d.rest(pick(), now)
				}
			},
			"leave": func(t *rapid.T) {
				if len(inside) > 0 {
					g := pick()
					d.leave(g, rapid.Bool().Draw(t, "failed"), now)
					drop(g)
				}
			},
			"settle": func(t *rapid.T) {
				a := anAddress.Draw(t, "address")
				d.settle(a, now)
				sessions[a]++
			},
			"part": func(t *rapid.T) {
				if a := anAddress.Draw(t, "address"); sessions[a] > 0 {
					sessions[a]--
					d.part(a, now)
				}
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 1000).Draw(t, "milliseconds")) * time.Millisecond)
			},
			"": func(t *rapid.T) { checkDoor(t, d, inside) },
		})
	})
}

// checkDoor compares what a door counts with the guests that are in, and both with its limits.
func checkDoor(t *rapid.T, d *door, inside []*guest) {
	strangers, members, computes, strange := 0, 0, 0, 0
	for _, g := range inside {
		if g.origin.known {
			members++
		} else {
			strangers++
		}
		if g.stage == computing {
			computes++
			if !g.ofMember {
				strange++
			}
		}
		if d.origins[g.origin.addr] != g.origin || !slices.Contains(g.origin.guests, g) {
			t.Fatalf("a guest of %v is lost", g.origin.addr)
		}
	}
	if d.strangers != strangers || d.members != members || d.computing[false] != strange || d.computing[true] != computes-strange {
		t.Fatalf("counted %d strangers, %d members, %v computing; there are %d, %d, %d, of whom %d strangers", d.strangers, d.members, d.computing, strangers, members, computes, strange)
	}
	if strangers > d.limits.Strangers || strange > d.limits.Handshakes || computes-strange > memberTurns*d.limits.Handshakes {
		t.Fatalf("%d strangers, of whom %d compute; %d computing", strangers, strange, computes)
	}
	for _, o := range d.origins {
		if !o.known && len(o.guests) > d.limits.Address {
			t.Fatalf("%v has %d guests", o.addr, len(o.guests))
		}
	}
	for _, s := range d.subnets {
		if s.strangers > d.limits.Subnet {
			t.Fatalf("%v has %d guests", s.prefix, s.strangers)
		}
	}
}
