package api

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// By default a history covers the last hour, and has usualHistorySteps steps. No history
// has more than maxHistoryPoints points.
const (
	usualHistory      = time.Hour
	usualHistorySteps = 60
	maxHistoryPoints  = 10_000
)

// History shows the shares and the volume of a pool over time.
func (s pools) History(ctx context.Context, req *connect.Request[apipb.PoolHistoryRequest]) (*connect.Response[apipb.PoolHistoryResponse], error) {
	const what = "show history of pool"
	steps, err := stepsOf(req.Msg, s.cfg.Now())
	if err != nil {
		return nil, invalid("%s: %v", what, err)
	}
	out := &apipb.PoolHistoryResponse{Pool: req.Msg.GetPool(), StepSeconds: steps.step}
	err = s.read(ctx, what, func(st *state.State) error {
		t, err := findTree(st, what, req.Msg.GetTree())
		if err != nil {
			return err
		}
		out.Tree = string(t.name)
		return t.has(what, scheduling.PoolName(out.GetPool()))
	})
	if err != nil {
		return nil, err
	}
	recorded, err := s.cfg.Leader.PoolHistory(ctx, &actorpb.PoolHistoryRequest{
		Tree: out.GetTree(), Pool: out.GetPool(), SecondsAfter: steps.from - 1, MinutesAfter: steps.from/60 - 1,
	})
	if err != nil {
		return nil, s.unavailable(what+": the leader's history is unknown", err)
	}
	for _, pool := range recorded.GetPools() {
		out.Points = steps.thin(pool.GetSeconds(), pool.GetMinutes())
	}
	return connect.NewResponse(out), nil
}

// steps divides the time [from, to) into steps; all in Unix seconds.
type steps struct{ from, to, step int64 }

// stepsOf reads and checks the times of a request.
func stepsOf(m *apipb.PoolHistoryRequest, now time.Time) (steps, error) {
	to := now
	if m.GetTo() != nil {
		to = m.GetTo().AsTime()
	}
	from := to.Add(-usualHistory)
	if m.GetFrom() != nil {
		from = m.GetFrom().AsTime()
	}
	if !from.Before(to) || from.Unix() < 0 {
		return steps{}, fmt.Errorf("from is %s and to is %s: 'from' must be before 'to', and after 1970", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	if m.GetStepSeconds() < 0 {
		return steps{}, fmt.Errorf("step_seconds is %d: must be at least 0", m.GetStepSeconds())
	}
	length := to.Unix() - from.Unix()
	s := steps{step: cmp.Or(m.GetStepSeconds(), max((length+usualHistorySteps-1)/usualHistorySteps, 1))}
	// Align `from` to a multiple of step, so that the steps of all requests coincide.
	s.from = from.Unix() / s.step * s.step
	s.to = to.Unix()
	if n := (s.to - s.from) / s.step; n > maxHistoryPoints {
		return steps{}, fmt.Errorf("%d points from %s to %s, the limit is %d: set step_seconds to at least %d", n,
			from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339), maxHistoryPoints, length/maxHistoryPoints+1)
	}
	return s, nil
}

// sum adds up the points of a step, and keeps the least and the greatest usage among them.
type sum struct {
	fair, usage, demand, volume, n float64
	least, most                    float64
}

// thin returns the mean of each step that has any points, and between what its usage was. A step uses per-minute points only if it
// has no per-second points.
func (s steps) thin(seconds, minutes *actorpb.Points) (out []*apipb.PoolPoint) {
	finer := map[int64]bool{}
	for _, at := range seconds.GetAt() {
		finer[at/60] = true
	}
	fine := s.sums(seconds, 1, nil)
	coarse := s.sums(minutes, 60, finer)
	for at := s.from; at < s.to; at += s.step {
		of := fine[at]
		if of == nil {
			of = coarse[at]
		}
		if of != nil {
			out = append(out, &apipb.PoolPoint{
				Time: timestamppb.New(time.Unix(at, 0)), FairShare: of.fair / of.n, UsageShare: of.usage / of.n,
				DemandShare: of.demand / of.n, Volume: of.volume / of.n, UsageShareMin: of.least, UsageShareMax: of.most,
			})
		}
	}
	return out
}

// sums adds up points by the step in which each begins. The time of a point is its number times
// unit, in seconds. Points whose numbers are in the set `but` are left out.
func (s steps) sums(points *actorpb.Points, unit int64, but map[int64]bool) map[int64]*sum {
	by := map[int64]*sum{}
	for i, at := range points.GetAt() {
		if but[at] {
			continue
		}
		if at *= unit; at < s.from || at >= s.to {
			continue
		}
		begin := at - (at-s.from)%s.step
		of := by[begin]
		if of == nil {
			of = &sum{least: math.Inf(1)}
			by[begin] = of
		}
		usage := float64(points.GetUsageShare()[i])
		of.least, of.most = min(of.least, usage), max(of.most, usage)
		of.fair += float64(points.GetFairShare()[i])
		of.usage += usage
		of.demand += float64(points.GetDemandShare()[i])
		of.volume += float64(points.GetVolume()[i])
		of.n++
	}
	return by
}

// Ledger shows the work lost in the pools of a tree because jobs were aborted.
func (s pools) Ledger(ctx context.Context, req *connect.Request[apipb.LedgerRequest]) (*connect.Response[apipb.LedgerResponse], error) {
	const what = "show ledger"
	out := &apipb.LedgerResponse{}
	err := s.read(ctx, what, func(st *state.State) error {
		t, err := findTree(st, what, req.Msg.GetTree())
		if err != nil {
			return err
		}
		top := scheduling.PoolName(req.Msg.GetPool())
		if err := t.has(what, cmp.Or(top, scheduling.RootPool)); err != nil {
			return err
		}
		out.Tree = string(t.name)
		for _, w := range t.record.GetWaste() {
			if top == "" || below(t.pools, w.GetPool(), string(top)) {
				out.Waste = append(out.Waste, wasteOf(w))
			}
		}
		return nil
	})
	return answer(out, err)
}

func wasteOf(w *statepb.Waste) *apipb.Waste {
	return &apipb.Waste{
		Pool: w.GetPool(), Cause: w.GetCause(), Jobs: w.GetJobs(), SavedJobs: w.GetSavedJobs(), UserSlotSeconds: w.GetUserSlotSeconds(),
		CpuSeconds: w.GetCpuCoreSeconds(), GpuSeconds: w.GetGpuSeconds(), MemoryByteSeconds: w.GetMemoryByteSeconds(), NetworkSeconds: w.GetNetworkSeconds(),
	}
}
