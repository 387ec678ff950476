package clock

import (
	"slices"
	"sync"
	"time"
)

const (
	// Tolerance is how far clocks may differ.
	Tolerance = time.Second
	// readWithin is how long reading both clocks may take. If the process is stopped in between, the
	// two do not belong together.
	readWithin = 10 * time.Millisecond
	// catchUp is the percentage of the speed of the clocks at which a time that is ahead of them
	// goes on.
	catchUp = 99
)

// Clock is the time of one replica. It is safe for concurrent use.
type Clock struct {
	wall func() time.Time
	boot func() time.Duration

	mu sync.Mutex
	// zero is the replica's own time when the machine booted.
	zero time.Time
	// off is how far the wall clock is ahead of the replica's own time, if that is more than
	// Tolerance; otherwise 0.
	off time.Duration
	// sure means that the replica's own time may be used: it agrees with a majority, or there is
	// nothing to compare it with. compared is closed then.
	sure     bool
	compared chan struct{}
	// last is the latest time told here or known of the state, and lastBoot when that was.
	last     time.Time
	lastBoot time.Duration

	peers map[string]*peer
	// waits is since when the clock is compared without an agreement, doubts since when it is off.
	waits, doubts since
	report        Report
}

// New returns the clock of a replica that has not been compared yet.
func New() *Clock { return newClock(wall, Boot) }

// Alone returns a clock that needs no comparison.
func Alone() *Clock {
	c := New()
	c.settle()
	return c
}

func newClock(wall func() time.Time, boot func() time.Duration) *Clock {
	return &Clock{wall: wall, boot: boot, zero: wall().Add(-boot()), compared: make(chan struct{}), peers: map[string]*peer{}}
}

func wall() time.Time { return time.Now().Round(0).Add(wrong()) }

// Now returns the time: that of the replica's clock or, while that is in doubt or behind, the time
// of the state that goes on. It never goes back.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, boot := c.read()
	passed := boot - c.lastBoot
	switch onward := c.last.Add(passed); {
	case c.last.IsZero() && !c.sure:
		return own
	case !c.sure:
		return onward
	case !c.last.IsZero() && onward.Sub(own) > Tolerance:
		if slow := c.last.Add(passed / 100 * catchUp); slow.After(own) {
			own = slow
		}
	}
	c.reach(own, boot)
	return c.last
}

// Applied is called with the time of the state after each log entry.
func (c *Clock) Applied(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reach(at, c.boot())
}

func (c *Clock) reach(at time.Time, boot time.Duration) {
	if at.After(c.last) {
		c.last, c.lastBoot = at, boot
	}
}

// Compared returns a channel that is closed once the clock has been compared with others, or need
// not be.
func (c *Clock) Compared() <-chan struct{} { return c.compared }

func (c *Clock) settle() {
	if !c.sure {
		c.sure = true
		close(c.compared)
	}
}

// read returns the replica's own time. It follows the wall clock as far as it does not jump.
func (c *Clock) read() (own time.Time, boot time.Duration) {
	before := c.boot()
	wall := c.wall()
	boot = c.boot()
	own = c.zero.Add(boot)
	if boot-before > readWithin {
		return own, boot
	}
	c.off = wall.Sub(own)
	if c.off.Abs() <= Tolerance {
		own, c.zero, c.off = wall, c.zero.Add(c.off), 0
	}
	return own, boot
}

// Own returns what the replica tells the others: its own time, and whether its machine's clock is
// right.
func (c *Clock) Own() (at time.Time, well bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, _ := c.read()
	return own, c.off == 0
}

// Hear notes what another replica tells of its time.
func (c *Clock) Hear(replica string, at time.Time, well bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[replica]
	if p == nil {
		p = &peer{}
		c.peers[replica] = p
	}
	p.hear(at, c.boot(), well)
}

// Look compares the clock with those of the other voters. It is called every Period, or more often.
func (c *Clock) Look(others []string) Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, boot := c.read()
	r := Report{Off: c.off, Corrected: c.report.Corrected && c.off != 0}
	for id := range c.peers {
		if !slices.Contains(others, id) {
			delete(c.peers, id)
		}
	}
	var offsets []time.Duration
	for _, id := range slices.Sorted(slices.Values(others)) {
		p := c.peers[id]
		if p == nil || !p.fresh(boot) {
			continue
		}
		offsets = append(offsets, p.zero().Sub(c.zero))
		if p.well {
			r.Well = append(r.Well, id)
		}
	}
	verdict, by := Judge(len(others)+1, offsets)
	r.Verdict = verdict
	waited := c.waits.lasts(boot, verdict != Agrees, patience)
	switch off := c.doubts.lasts(boot, verdict == Off, doubt); {
	case off:
		c.doubts.holds = false
		c.zero = c.zero.Add(by)
		if c.off = c.wall().Sub(c.zero.Add(c.boot())); c.off.Abs() <= Tolerance {
			c.off = 0
		}
		r.Corrected, r.By, r.Off = c.off != 0, by, c.off
		c.settle()
	case verdict == Agrees, waited && (verdict == Unknown || c.last.IsZero()):
		// A state without a time cannot wait longer.
		c.settle()
	}
	c.report = r
	return r
}

// Report returns what the last Look has found.
func (c *Clock) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report
}
