package wire

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// What a handshake costs its address. An address that owes more than `credit` waits, so a stranger that
// only fails has some 50 handshakes per second, or some 20 ms of a processor.
const (
	handshakeCost = time.Millisecond
	failureCost   = 20 * time.Millisecond
	credit        = 250 * time.Millisecond
	// memberDiscount divides the costs of the addresses of members: several processes may share one.
	memberDiscount = 8
	// subnetDiscount divides the costs that a subnet has to bear: several strangers may share it.
	subnetDiscount = 4
)

// memberTurns is how many times as many handshakes of members' addresses as of strangers compute at once. On a busy
// machine a turn is little but waiting for a processor: one at a time, the agents of a large cluster would not be back
// for minutes.
const memberTurns = 15

// answerTime is how long a guest whose handshake has begun is left alone while its next word is due.
const answerTime = time.Second

// memberMemory is how long an address counts as a member's after its last member has left.
const memberMemory = 10 * time.Minute

// door decides which connections may stay before they have shown a certificate, and whose handshake
// computes next. Connections are guests until then. It knows no clock, and is not safe for
// concurrent use.
//
// Room: an address, a subnet and all strangers together may have so many guests. Beyond
// that, whichever has most loses its oldest silent guest: a member sends its ClientHello at once, so it is
// rarely silent for long. Later words of a handshake may take until answerTime: it is not lost to those who come
// after it. The addresses of members, of replicas and agents that are connected or
// were until recently, have room of their own.
//
// Turns: few handshakes compute at the same time, more of them of members' addresses than of strangers; neither take
// turns of the others. The next is of the address that owes least; of equals, of a member's. Of an address, the newest
// comes first: those who have waited longest give up first.
type door struct {
	limits   Limits
	origins  map[netip.Addr]*origin
	subnets  map[netip.Prefix]*subnet
	arrivals uint64
	// strangers and members count guests, by whether their address is known.
	strangers, members int
	// computing counts handshakes that compute, by whether the address was known as their turns began.
	computing map[bool]int
	// asking holds the addresses whose guests wait for a turn.
	asking map[*origin]struct{}
	// sweepAt is the number of origins at which those that no longer matter are forgotten.
	sweepAt int
}

// origin is an address that connections come from.
type origin struct {
	addr   netip.Addr
	subnet *subnet
	guests []*guest // oldest first
	// waiting counts the guests that wait for a turn.
	waiting int
	owes    time.Time
	// sessions counts the open connections of replicas and agents. Until knownUntil the address is
	// known without any.
	sessions   int
	knownUntil time.Time
	// known says that the guests are counted as members.
	known bool
}

// subnet is the addresses that one party is likely to have.
type subnet struct {
	prefix    netip.Prefix
	origins   map[*origin]struct{}
	strangers int
	owes      time.Time
}

// stage says what a guest waits for.
type stage uint8

const (
	silent    stage = iota // until the peer sends something
	waiting                // until its handshake may compute
	computing              // for nothing
)

// guest is a connection that has not shown a certificate.
type guest struct {
	origin *origin
	number uint64 // grows with each arrival
	stage  stage
	// charged says that its handshake has computed. It has waited for its peer again since rested.
	charged bool
	rested  time.Time
	// ofMember says that it computes in a turn of a member's address.
	ofMember bool
}

const sweepMin = 1024

func newDoor(limits Limits) *door {
	return &door{
		limits: limits, origins: map[netip.Addr]*origin{}, subnets: map[netip.Prefix]*subnet{},
		asking: map[*origin]struct{}{}, computing: map[bool]int{}, sweepAt: sweepMin,
	}
}

// subnetOf returns the /24 of an IPv4 address, and the /64 of an IPv6 address.
func subnetOf(addr netip.Addr) netip.Prefix {
	bits := 64
	if addr.Is4() {
		bits = 24
	}
	prefix, _ := addr.Prefix(bits) // An invalid address has an invalid prefix, which serves as well.
	return prefix
}

// enter makes a guest of a connection from addr. If there is no room for it, `out` is the guest that
// has to go instead, which may be the same.
func (d *door) enter(addr netip.Addr, now time.Time) (in, out *guest) {
	o := d.origin(addr.Unmap().WithZone(""), now)
	if known := o.sessions > 0 || now.Before(o.knownUntil); known != o.known && len(o.guests) == 0 {
		o.known = known
	}
	d.arrivals++
	in = &guest{origin: o, number: d.arrivals}
	o.guests = append(o.guests, in)
	d.count(o, 1)
	if crowded := d.crowded(o); crowded != nil {
		out = crowded.dispensable(now)
		d.remove(out, now)
	}
	return in, out
}

// crowded returns the address that has to lose a guest now that `o` has one more, or nil.
func (d *door) crowded(o *origin) *origin {
	switch {
	case !o.known && len(o.guests) > d.limits.Address, o.known && len(o.guests) > d.limits.MemberAddress:
		return o
	case o.known && d.members > d.limits.Members:
		return fullest(maps.Values(d.origins), func(o *origin) bool { return o.known })
	case !o.known && o.subnet.strangers > d.limits.Subnet:
		return fullest(maps.Keys(o.subnet.origins), isStranger)
	case !o.known && d.strangers > d.limits.Strangers:
		most := o.subnet
		for _, s := range d.subnets {
			// Of equals, the one whose prefix comes first: any would do.
			if s.strangers > most.strangers || s.strangers == most.strangers && s.prefix.Compare(most.prefix) < 0 {
				most = s
			}
		}
		return fullest(maps.Keys(most.origins), isStranger)
	}
	return nil
}

func isStranger(o *origin) bool { return !o.known }

// fullest returns the address with most guests; of equals, the one whose oldest guest is the oldest.
func fullest(of func(func(*origin) bool), fits func(*origin) bool) (most *origin) {
	for o := range of {
		switch {
		case !fits(o) || len(o.guests) == 0:
		case most == nil, len(o.guests) > len(most.guests),
			len(o.guests) == len(most.guests) && o.guests[0].number < most.guests[0].number:
			most = o
		}
	}
	return most
}

// dispensable returns the guest that an address has to lose: the oldest that has said nothing, or has been silent for
// too long since, else the newest.
func (o *origin) dispensable(now time.Time) *guest {
	keepsWaiting := func(g *guest) bool { return g.stage == silent && (!g.charged || now.Sub(g.rested) > answerTime) }
	if i := slices.IndexFunc(o.guests, keepsWaiting); i >= 0 {
		return o.guests[i]
	}
	return o.guests[len(o.guests)-1]
}

// ask records that the handshake of a silent guest has something to compute.
func (d *door) ask(g *guest) {
	g.stage = waiting
	g.origin.waiting++
	d.asking[g.origin] = struct{}{}
}

// next returns the guest whose handshake computes from now on, or nil. If that is only because of what
// the addresses owe, `wait` says after what time to call again.
func (d *door) next(now time.Time) (turn *guest, wait time.Duration) {
	var best *guest
	var bestDue time.Time
	for o := range d.asking {
		if !d.hasTurn(o.known) {
			continue
		}
		due := later(now, later(o.owes, o.subnet.debt(o)))
		if first := o.first(); best == nil || due.Before(bestDue) || due.Equal(bestDue) && first.before(best) {
			best, bestDue = first, due
		}
	}
	switch {
	case best == nil:
		return nil, 0
	case bestDue.Sub(now) > credit:
		return nil, bestDue.Sub(now) - credit
	}
	d.noLongerWaits(best)
	best.stage, best.ofMember = computing, best.origin.known
	d.computing[best.ofMember]++
	if !best.charged {
		best.charged = true
		best.origin.charge(handshakeCost, now)
	}
	return best, 0
}

// hasTurn reports whether one more handshake of a member's or a stranger's address may compute.
func (d *door) hasTurn(ofMember bool) bool {
	if ofMember {
		return d.computing[true] < memberTurns*d.limits.Handshakes
	}
	return d.computing[false] < d.limits.Handshakes
}

// first returns the guest of an address that has its next turn: the oldest whose handshake has begun, else the newest.
func (o *origin) first() *guest {
	var newest *guest
	for _, g := range o.guests {
		switch {
		case g.stage != waiting:
		case g.charged:
			return g
		default:
			newest = g
		}
	}
	return newest
}

// before reports whether a guest has its turn before another one, whose address owes as much.
func (g *guest) before(other *guest) bool {
	if g.origin.known != other.origin.known {
		return g.origin.known
	}
	return g.number < other.number
}

// rest records that the handshake of a guest waits for its peer again.
func (d *door) rest(g *guest, now time.Time) {
	if g.stage == computing {
		g.stage, g.rested = silent, now
		d.computing[g.ofMember]--
	}
}

// leave records that a guest has gone. `failed` says that it has not shown a certificate.
func (d *door) leave(g *guest, failed bool, now time.Time) {
	if failed && g.charged {
		g.origin.charge(failureCost, now)
	}
	d.remove(g, now)
}

// settle records that a member, a replica or an agent, has an open connection from addr. part records the
// end of that connection.
func (d *door) settle(addr netip.Addr, now time.Time) {
	o := d.origin(addr.Unmap().WithZone(""), now)
	o.sessions++
	if !o.known {
		d.count(o, -len(o.guests))
		o.known = true
		d.count(o, len(o.guests))
	}
}

func (d *door) part(addr netip.Addr, now time.Time) {
	o := d.origin(addr.Unmap().WithZone(""), now)
	if o.sessions--; o.sessions == 0 {
		o.knownUntil = now.Add(memberMemory)
	}
}

// remove takes a guest off the lists, unless that was done before.
func (d *door) remove(g *guest, now time.Time) {
	o := g.origin
	i := slices.Index(o.guests, g)
	if i < 0 {
		return
	}
	switch g.stage {
	case waiting:
		d.noLongerWaits(g)
	case computing:
		d.computing[g.ofMember]--
	}
	g.stage = silent
	o.guests = slices.Delete(o.guests, i, i+1)
	d.count(o, -1)
	d.forget(o, now)
}

func (d *door) noLongerWaits(g *guest) {
	if g.origin.waiting--; g.origin.waiting == 0 {
		delete(d.asking, g.origin)
	}
}

// count adds to the numbers of guests that include those of o.
func (d *door) count(o *origin, more int) {
	if o.known {
		d.members += more
		return
	}
	d.strangers += more
	o.subnet.strangers += more
}

// origin returns what is known of an address.
func (d *door) origin(addr netip.Addr, now time.Time) *origin {
	if o := d.origins[addr]; o != nil {
		return o
	}
	if len(d.origins) >= d.sweepAt {
		for _, o := range d.origins {
			d.forget(o, now)
		}
		d.sweepAt = max(sweepMin, 2*len(d.origins))
	}
	prefix := subnetOf(addr)
	s := d.subnets[prefix]
	if s == nil {
		s = &subnet{prefix: prefix, origins: map[*origin]struct{}{}}
		d.subnets[prefix] = s
	}
	o := &origin{addr: addr, subnet: s}
	d.origins[addr], s.origins[o] = o, struct{}{}
	return o
}

// forget drops what is known of an address, unless it matters.
func (d *door) forget(o *origin, now time.Time) {
	s := o.subnet
	if len(o.guests) > 0 || o.sessions > 0 || now.Before(o.knownUntil) || now.Before(later(o.owes, s.owes)) {
		return
	}
	delete(d.origins, o.addr)
	if delete(s.origins, o); len(s.origins) == 0 {
		delete(d.subnets, s.prefix)
	}
}

// charge adds to what an address and its subnet owe.
func (o *origin) charge(cost time.Duration, now time.Time) {
	if o.known {
		o.owes = later(now, o.owes).Add(cost / memberDiscount)
		return
	}
	o.owes = later(now, o.owes).Add(cost)
	o.subnet.owes = later(now, o.subnet.owes).Add(cost / subnetDiscount)
}

// debt returns until when o has to wait for what its subnet owes.
func (s *subnet) debt(o *origin) time.Time {
	if o.known {
		return time.Time{}
	}
	return s.owes
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
