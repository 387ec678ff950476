// Package prior spreads and hears what operations in progress have learned about memory.
//
// One actor a replica tells the others by gossip what the controllers here have learned so far
// for a memory profile, so that an operation of the profile that begins meanwhile, wherever it
// is controlled, begins with that. What it hears is advice: what operations leave when they
// have ended is in the replicated state.
package prior

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"weir/messages/actorpb"
)

// maxAhead is how far another replica's clock may be ahead of this one's.
const maxAhead = time.Minute

// Table holds what was heard last of each memory profile.
type Table struct {
	// keep is how long it stays.
	keep time.Duration
	// limit bounds the profiles; the one that was learned of first goes first.
	limit  int
	priors map[string]*actorpb.MemoryPrior
	// forgotten is until when what was learned of a profile does not count any more.
	forgotten map[string]time.Time
}

// NewTable returns an empty table.
func NewTable(keep time.Duration, limit int) *Table {
	return &Table{keep: keep, limit: limit, priors: map[string]*actorpb.MemoryPrior{}, forgotten: map[string]time.Time{}}
}

// Add takes in what was heard at now, and reports whether it is news: the first of its
// profile, or newer than what was heard before. Of two of one time that of the greater
// operation's id counts, so that all replicas agree. What is older than it is kept is not news,
// and neither is what comes out of the future.
func (t *Table) Add(now time.Time, prior *actorpb.MemoryPrior) bool {
	if prior.GetProfile() == "" || !t.fresh(now, prior) || prior.GetTime().AsTime().After(now.Add(maxAhead)) {
		return false
	}
	if at, forgotten := t.forgotten[prior.GetProfile()]; forgotten && !prior.GetTime().AsTime().After(at) {
		return false
	}
	if old := t.priors[prior.GetProfile()]; old != nil && compare(prior, old) <= 0 {
		return false
	}
	t.priors[prior.GetProfile()] = prior
	for len(t.priors) > t.limit {
		oldest := slices.MinFunc(slices.Collect(maps.Values(t.priors)), compare)
		delete(t.priors, oldest.GetProfile())
	}
	return true
}

// Forget drops what was heard of a profile, and whatever is heard that was learned until now:
// others may tell of it still.
func (t *Table) Forget(now time.Time, profile string) {
	maps.DeleteFunc(t.forgotten, func(_ string, at time.Time) bool { return at.Before(now.Add(-t.keep)) })
	t.forgotten[profile] = now
	delete(t.priors, profile)
}

func (t *Table) fresh(now time.Time, prior *actorpb.MemoryPrior) bool {
	return prior.GetTime().AsTime().After(now.Add(-t.keep))
}

func compare(a, b *actorpb.MemoryPrior) int {
	return cmp.Or(a.GetTime().AsTime().Compare(b.GetTime().AsTime()),
		cmp.Compare(a.GetOperationId(), b.GetOperationId()), cmp.Compare(a.GetProfile(), b.GetProfile()))
}

// Freshest returns what was heard last of a profile; nil: nothing of late. It is not to be
// changed.
func (t *Table) Freshest(now time.Time, profile string) *actorpb.MemoryPrior {
	if prior := t.priors[profile]; prior != nil && t.fresh(now, prior) {
		return prior
	}
	return nil
}

// All returns what is known of late, by profile, and forgets the rest.
func (t *Table) All(now time.Time) []*actorpb.MemoryPrior {
	maps.DeleteFunc(t.priors, func(_ string, prior *actorpb.MemoryPrior) bool { return !t.fresh(now, prior) })
	return slices.SortedFunc(maps.Values(t.priors), func(a, b *actorpb.MemoryPrior) int { return cmp.Compare(a.GetProfile(), b.GetProfile()) })
}
