package storm

import (
	"math/rand/v2"
	"time"
)

// kind is a kind of event.
type kind int

const (
	// drain empties a node, and lets it have jobs again.
	drain kind = iota
	// rival brings an operation that is owed resources of the service, and ends it.
	rival
	// upgrade stops the agent of a node and starts it again, while its jobs go on.
	upgrade
	// death kills a node with all its jobs, and starts it again.
	death
	kinds
)

// words name the kinds.
var words = [kinds]string{drain: "drain", rival: "preemption", upgrade: "upgrade", death: "death"}

// event is one that comes after a pause. It is chance alone that decides it.
type event struct {
	kind  kind
	pause time.Duration
	// node is where, as a number; hold is how long it goes on once it has had its effect.
	node int
	hold time.Duration
	// same: the rival is in the pool of the service.
	same bool
}

// lane is events that come one after the other, beside those of other lanes.
type lane struct {
	random *rand.Rand
	nodes  int
	// first is the kind of its events. One of upgrades has one death, from a time on.
	first    kind
	deathDue time.Duration
	died     bool
	// happened are the events so far.
	happened []happening
}

// lanes returns those of a storm.
func lanes(seed uint64, nodes int, duration time.Duration) []*lane {
	var all []*lane
	for _, first := range []kind{drain, rival, upgrade} {
		l := &lane{random: rand.New(rand.NewPCG(seed, uint64(first))), nodes: nodes, first: first, died: first != upgrade}
		// In the middle half, so that there is a before and an after.
		l.deathDue = time.Duration((0.25 + l.random.Float64()/2) * float64(duration))
		all = append(all, l)
	}
	return all
}

// next returns the event after so many others, at a time of the storm; false: there is none
// more, for the storm's duration is over.
func (l *lane) next(count int, now, duration time.Duration) (next event, ok bool) {
	next = event{kind: l.first, pause: l.between(0, 6*time.Second), node: l.random.IntN(l.nodes), same: l.random.IntN(2) == 0}
	switch l.first {
	case drain:
		next.hold = l.between(0, 3*time.Second)
	case rival:
		next.hold = l.between(3*time.Second, 12*time.Second)
	case upgrade:
		next.hold = l.between(0, time.Second)
	}
	if count > 0 && !l.died && now >= l.deathDue {
		next.kind, l.died = death, true
		return next, true
	}
	return next, count == 0 || !l.died || now < duration
}

func (l *lane) between(from, to time.Duration) time.Duration {
	return from + time.Duration(l.random.Float64()*float64(to-from))
}
