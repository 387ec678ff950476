package api

import (
	"cmp"
	"context"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

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
