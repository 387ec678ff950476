// Package fault decides which faults hit a cluster and when, from a seed, before anything
// starts.
//
// Which replica leads, and so which one a fault hits, is known only when the fault begins. The
// schedule therefore names a scope, such as the leader, and a number that picks one of several
// candidates.
package fault

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of a fault.
type Kind string

// The kinds.
const (
	// Kill is kill -9, and a restart afterwards.
	Kill Kind = "kill"
	// Pause is SIGSTOP, and SIGCONT afterwards.
	Pause Kind = "pause"
	// Cut drops every packet between two sides, both ways.
	Cut Kind = "cut"
	// Late holds back what a leader sends to an agent until another replica leads: their
	// connection is cut and then the leader paused; both are healed at once.
	Late Kind = "late"
	// Hang makes the disk hang.
	Hang Kind = "hang"
	// Swap ends a process in order, and afterwards starts it as the other of two builds.
	Swap Kind = "swap"
)

// Kinds are all kinds.
var Kinds = []Kind{Kill, Pause, Cut, Late, Hang, Swap}

// ParseKind returns the kind with this name.
func ParseKind(name string) (Kind, error) {
	if kind := Kind(name); slices.Contains(Kinds, kind) {
		return kind, nil
	}
	return "", fmt.Errorf("fault %q: must be one of %s", name, strings.Trim(fmt.Sprint(Kinds), "[]"))
}

// Scope is the kind of target of a fault.
type Scope string

// The scopes.
const (
	Leader   Scope = "leader"
	Follower Scope = "follower"
	Agent    Scope = "agent"
	// Replicas means all replicas at once.
	Replicas Scope = "replicas"
	// Link is between the leader and one follower.
	Link Scope = "link"
)

// Fault is one entry of a schedule.
type Fault struct {
	Seq   int
	Kind  Kind
	Scope Scope
	// At is when the fault begins, counted from the start of the faults. For is how long the
	// fault lasts.
	At, For time.Duration
	// Pick chooses one of several candidates.
	Pick uint32
}

// String is one line of a printed schedule.
func (f Fault) String() string {
	return fmt.Sprintf("%3d  +%6.1fs  %-5s %-8s for %5.2fs", f.Seq, f.At.Seconds(), f.Kind, f.Scope, f.For.Seconds())
}

// Config says what a schedule consists of.
type Config struct {
	Faults           int
	Seed             uint64
	Replicas, Agents int
	// Lease is how long an agent works without a leader. Faults last from well below the lease to
	// above it.
	Lease time.Duration
	// Kinds are the kinds that can be injected here.
	Kinds []Kind
	// Longest bounds pauses, cuts and hanging disks.
	Longest time.Duration
}

// Validate returns an error if c is invalid.
func (c Config) Validate() error {
	switch {
	case c.Faults < 1:
		return fmt.Errorf("faults: %d, must be at least 1", c.Faults)
	case c.Replicas < 3:
		return fmt.Errorf("replicas: %d, must be 3 or 5: fewer do not survive any fault", c.Replicas)
	case c.Agents < 2:
		return fmt.Errorf("agents: %d, must be at least 2: jobs of a lost agent run on another", c.Agents)
	case c.Lease <= 0 || c.Longest < shortest:
		return fmt.Errorf("lease %v, longest fault %v: the lease must be positive, the longest fault at least %v", c.Lease, c.Longest, shortest)
	case len(c.Kinds) == 0:
		return fmt.Errorf("kinds: none is given")
	}
	return nil
}

const (
	shortest = 200 * time.Millisecond
	// longestOutage is how long a killed process may stay down.
	longestOutage = 5 * time.Second
	// recovery is the time for a cluster to recover after a fault of replicas, before the next
	// fault.
	recovery = 3 * time.Second
	// leastGap and mostGap bound the time between two faults that do not overlap.
	leastGap, mostGap = 500 * time.Millisecond, 3 * time.Second
	// leastLate and mostLate bound the length of Late: long enough for another leader to be
	// elected, and for an agent to hear of it, before the held packets are sent again, 1.4 s
	// after the first of them.
	leastLate, mostLate = time.Second, 1400 * time.Millisecond
)

// deck lists the faults of a run. A run repeats it, shuffled each time, so that each fault is drawn
// equally often. A run that is shorter than the deck takes only its first entries, so the most
// revealing ones come first. Swaps are possible only where they are what the run is about.
var deck = []Fault{
	{Kind: Swap, Scope: Leader}, {Kind: Swap, Scope: Agent}, {Kind: Swap, Scope: Follower}, {Kind: Swap, Scope: Agent}, {Kind: Swap, Scope: Follower},
	{Kind: Kill, Scope: Leader}, {Kind: Kill, Scope: Agent}, {Kind: Pause, Scope: Leader}, {Kind: Cut, Scope: Agent}, {Kind: Kill, Scope: Replicas},
	{Kind: Pause, Scope: Agent}, {Kind: Cut, Scope: Leader}, {Kind: Kill, Scope: Follower}, {Kind: Cut, Scope: Link}, {Kind: Late, Scope: Leader},
	{Kind: Hang, Scope: Leader}, {Kind: Cut, Scope: Follower}, {Kind: Hang, Scope: Follower}, {Kind: Pause, Scope: Follower}, {Kind: Kill, Scope: Agent},
}

// Plan returns the schedule of a seed. Equal input gives an equal schedule.
func Plan(c Config) ([]Fault, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("plan faults: %w", err)
	}
	random := rand.New(rand.NewPCG(c.Seed, 0x77656972))
	faults := draw(c, random)
	agents := 0
	for i := range faults {
		f := &faults[i]
		f.Seq, f.Pick = i+1, random.Uint32()
		f.For = length(c, f.Kind, random)
		if f.Scope != Agent || f.Kind == Swap {
			continue
		}
		if agents%2 == 0 {
			// Longer than the lease for certain: jobs are lost and run again.
			f.For = 2*c.Lease + f.For%c.Lease
		}
		agents++
	}
	place(c, faults, random)
	return faults, nil
}

// draw deals the wanted number of faults.
func draw(c Config, random *rand.Rand) []Fault {
	possible := slices.DeleteFunc(slices.Clone(deck), func(f Fault) bool { return !slices.Contains(c.Kinds, f.Kind) })
	var faults []Fault
	for len(faults) < c.Faults {
		hand := slices.Clone(possible[:min(len(possible), c.Faults-len(faults))])
		random.Shuffle(len(hand), func(i, j int) { hand[i], hand[j] = hand[j], hand[i] })
		faults = append(faults, hand...)
	}
	return faults
}

// length draws how long a fault lasts. Pauses, cuts and hanging disks are log-uniform, so that
// about half are shorter than the lease. Kill, Swap and Late are uniform.
func length(c Config, kind Kind, random *rand.Rand) time.Duration {
	share := random.Float64()
	switch kind {
	case Late:
		return leastLate + time.Duration(share*float64(mostLate-leastLate)).Round(time.Millisecond)
	case Kill, Swap:
		return time.Duration(share * float64(min(longestOutage, c.Longest))).Round(time.Millisecond)
	}
	ratio := float64(c.Longest) / float64(shortest)
	return time.Duration(float64(shortest) * math.Pow(ratio, share)).Round(time.Millisecond)
}

// place decides when faults begin: about half of them during the previous fault, if the two may
// overlap.
func place(c Config, faults []Fault, random *rand.Rand) {
	var over time.Duration
	for i := range faults {
		f := &faults[i]
		gap := leastGap + time.Duration(random.Int64N(int64(mostGap-leastGap)))
		share := random.Float64()
		overlap := random.IntN(2) == 0
		f.At = over + gap
		if i > 0 && overlap && c.mayOverlap(f, faults[:i], faults[i-1].At+time.Duration(share*float64(faults[i-1].For))) {
			f.At = faults[i-1].At + time.Duration(share*float64(faults[i-1].For))
		}
		f.At = f.At.Round(time.Millisecond)
		over = max(over, f.End())
	}
}

// mayOverlap says whether f may begin at a time, given the faults before it.
func (c Config) mayOverlap(f *Fault, before []Fault, at time.Duration) bool {
	var active []Fault
	for _, b := range before {
		if b.End() > at {
			active = append(active, b)
		}
	}
	return c.MayBegin(*f, active)
}

// End is when a fault is over and the cluster has had time to recover.
func (f Fault) End() time.Duration {
	if f.Scope == Agent {
		return f.At + f.For
	}
	return f.At + f.For + recovery
}

// MayBegin reports whether a fault may begin while others are active. At most a minority of
// replicas is impaired at a time, except by a fault of all replicas, which must be the only
// fault. At least one agent stays healthy.
func (c Config) MayBegin(f Fault, active []Fault) bool {
	replicas, agents := impaired(f)
	for _, a := range active {
		if a.Scope == Replicas || f.Scope == Replicas {
			return false
		}
		r, n := impaired(a)
		replicas, agents = replicas+r, agents+n
	}
	return f.Scope == Replicas || replicas <= (c.Replicas-1)/2 && agents < c.Agents
}

func impaired(f Fault) (replicas, agents int) {
	switch {
	case f.Scope == Agent:
		return 0, 1
	case f.Kind == Late:
		return 1, 1
	}
	return 1, 0
}
