package scheduler

import (
	"google.golang.org/protobuf/proto"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/preemption"
)

// clocksOf reads the starvation clocks of the previous leader. A status that this version does not
// know is recomputed by the next update.
func clocksOf(records []*statepb.StarvationClock) (all []engine.ElementClock) {
	for _, k := range records {
		c := engine.ElementClock{Pool: scheduling.PoolID(k.GetPoolId()), Operation: scheduling.OperationID(k.GetOperationId())}
		if since := k.GetBelowSince(); since != nil {
			c.Clock.Status, c.Clock.Since = preemption.BelowFairShare, since.AsTime()
		}
		if since := k.GetBelowMinShareSince(); since != nil {
			c.Clock.MinSince = since.AsTime()
		}
		if starvation, err := preemption.ParseStarvation(k.GetStarvation()); err == nil {
			c.Clock.Starvation = starvation
		}
		all = append(all, c)
	}
	return all
}

func clockRecord(c engine.ElementClock) *statepb.StarvationClock {
	k := &statepb.StarvationClock{PoolId: uint64(c.Pool), OperationId: string(c.Operation), BelowSince: moment(c.Clock.Since), BelowMinShareSince: moment(c.Clock.MinSince)}
	if c.Clock.Starvation != preemption.NonStarving {
		k.Starvation = c.Clock.Starvation.String()
	}
	return k
}

// clockOf identifies the owner of a clock.
type clockOf struct {
	pool      uint64
	operation string
}

func ownerOf(k *statepb.StarvationClock) clockOf { return clockOf{k.GetPoolId(), k.GetOperationId()} }

// clocksSince returns the clocks that differ from the kept ones, including kept ones that have
// stopped.
func clocksSince(kept []*statepb.StarvationClock, now []engine.ElementClock) (changed []*statepb.StarvationClock) {
	was := make(map[clockOf]*statepb.StarvationClock, len(kept))
	for _, k := range kept {
		was[ownerOf(k)] = k
	}
	for _, c := range now {
		k := clockRecord(c)
		if !proto.Equal(k, was[ownerOf(k)]) {
			changed = append(changed, k)
		}
		delete(was, ownerOf(k))
	}
	for _, k := range kept {
		if was[ownerOf(k)] != nil {
			changed = append(changed, &statepb.StarvationClock{PoolId: k.GetPoolId(), OperationId: k.GetOperationId()})
		}
	}
	return changed
}

// ageOf reads the preemption age of the previous leader.
func ageOf(record *statepb.PreemptionAge) engine.Age {
	a := engine.Age{Digest: record.GetDigest()}
	for _, t := range record.GetTakings() {
		a.Takings = append(a.Takings, engine.Taking{
			Operation: scheduling.OperationID(t.GetOperationId()), From: scheduling.OperationID(t.GetFromOperationId()), Usage: t.GetUsage().Amounts(), Former: t.GetFormer(),
		})
	}
	return a
}

func ageRecord(a engine.Age) *statepb.PreemptionAge {
	record := &statepb.PreemptionAge{Digest: a.Digest}
	for _, t := range a.Takings {
		record.Takings = append(record.Takings, &statepb.Taking{
			OperationId: string(t.Operation), FromOperationId: string(t.From), Usage: statepb.NewResources(t.Usage), Former: t.Former,
		})
	}
	return record
}
