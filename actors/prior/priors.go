package prior

import (
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

// Topic is under what is gossiped that operations in progress have learned about memory.
const Topic = "memory_prior"

// Priors is what a replica has heard. It may be used from anywhere; its actor alone adds to it.
type Priors struct {
	*hearsay.Known[*actorpb.MemoryPrior, *Table]
}

// NewPriors returns a place for what is heard.
func NewPriors(table *Table, now func() time.Time) *Priors {
	return &Priors{hearsay.NewKnown(hearsay.Subject[*actorpb.MemoryPrior, *Table]{
		Topic: Topic,
		Key:   (*actorpb.MemoryPrior).GetProfile,
		Sign: func(p *actorpb.MemoryPrior, by hearsay.Speaker, sequence uint64) {
			p.Origin, p.Incarnation, p.Sequence = by.Replica, by.Incarnation, sequence
		},
		All: func(table *Table, now time.Time) proto.Message {
			return &actorpb.MemoryPriors{Priors: table.All(now)}
		},
		Each: func(all []byte) ([]*actorpb.MemoryPrior, error) {
			var priors actorpb.MemoryPriors
			err := proto.Unmarshal(all, &priors)
			return priors.GetPriors(), err
		},
	}, table, now)}
}

// Freshest returns what was heard last of a memory profile; nil: nothing of late. It is not
// to be changed.
func (p *Priors) Freshest(profile string) (prior *actorpb.MemoryPrior) {
	p.Read(func(table *Table, now time.Time) { prior = table.Freshest(now, profile) })
	return prior
}

// Forget drops what was heard of a memory profile until now.
func (p *Priors) Forget(profile string) {
	p.Change(func(table *Table, now time.Time) { table.Forget(now, profile) })
}
