package storm

import (
	"math/rand/v2"
	"time"
)

// kind is a kind of event.
type kind int

const (
	// drain drains a node, and undrains it.
	drain kind = iota
	// rival starts an operation that is owed resources of the service, and ends it.
	rival
	// upgrade stops the agent of a node and starts it again; the jobs keep running.
	upgrade
	// death kills a node with all its jobs, and starts it again.
	death
	kinds
)

// words name the kinds.
var words = [kinds]string{drain: "drain", rival: "preemption", upgrade: "upgrade", death: "death"}

// event is an event that happens after a pause. It is drawn at random, independent of the run.
type event struct {
	kind  kind
	pause time.Duration
	// node is the index of the node that the event hits. hold is how long the event lasts after it
	// has had its effect.
	node int
	hold time.Duration
	// same says that the rival is in the pool of the service.
	same bool
}

// lane is a sequence of events, parallel to other lanes.
type lane struct {
	random *rand.Rand
	nodes  int
	// first is the kind of its events. In the lane of upgrades, one event after the time deathDue
	// is a death.
	first    kind
	deathDue time.Duration
	died     bool
	// happened is the events so far.
	happened []happening
}

// lanes returns the lanes of a storm.
func lanes(seed uint64, nodes int, duration time.Duration) []*lane {
	var all []*lane
	for _, first := range []kind{drain, rival, upgrade} {
		l := &lane{random: rand.New(rand.NewPCG(seed, uint64(first))), nodes: nodes, first: first, died: first != upgrade}
		// The death is in the middle half of the storm, so that there is a time before and a
		// time after it.
		l.deathDue = time.Duration((0.25 + l.random.Float64()/2) * float64(duration))
		all = append(all, l)
	}
	return all
}

// next returns the event to begin at the time `now` of the storm, after `count` others. ok is false
// once the storm is over and the lane has had an event, and a death if it is the lane of upgrades.
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
