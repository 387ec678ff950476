package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/pool"
	"weir/actors/scheduler"
	"weir/messages/actorpb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/engine"
)

// historyEvery is how often a follower copies the pool history of the leader. The next leader may
// lack the history of this much time.
const historyEvery = 2 * time.Second

// recorder implements the History of schedulers.
type recorder struct{ *pool.Histories }

// Record implements the History of schedulers.
func (r recorder) Record(tree scheduling.TreeName, now time.Time, pools []engine.PoolView) {
	samples := make(map[scheduling.PoolName]pool.Sample, len(pools))
	for _, p := range pools {
		samples[p.Name] = pool.Sample{ID: p.ID, Point: pool.Point{
			FairShare: float32(p.Shares.FairShare.MaxComponent()), UsageShare: float32(p.Shares.RunningShare.MaxComponent()),
			DemandShare: float32(p.Shares.DemandShare.MaxComponent()), Volume: float32(p.Integral.RatioVolume),
		}}
	}
	r.Histories.Record(tree, now, samples)
}

// historian maintains a replica's pool history.
type historian struct{ *Replica }

// follow copies the leader's pool history while another replica leads. While this replica leads, it
// asks the others for history that it lacks, because it may have started recently.
func (r historian) follow() {
	ticker := time.NewTicker(historyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-ticker.C:
		}
		trees := r.treeNames()
		r.histories.Keep(trees)
		for _, tree := range trees {
			takeOver := r.followTree
			if r.leader.Load() != nil {
				takeOver = r.fillTree
			}
			if err := takeOver(tree); err != nil {
				r.cfg.Logger.Debug("pool history not copied", "tree", tree, "error", err)
			}
		}
	}
}

// fillTree asks the other replicas for the history of a tree that the leader lacks. It is called
// again if one of the replicas does not answer.
func (r historian) fillTree(tree scheduling.TreeName) error {
	lacks := r.histories.Lacks(tree)
	if lacks == nil {
		return nil
	}
	var errs []error
	for _, replica := range r.liveness.others() {
		for m := lacks; m != nil; {
			answer, err := r.ask(replica, m)
			if err != nil {
				errs = append(errs, fmt.Errorf("replica %s: %w", replica, err))
				break
			}
			m = r.histories.Fill(m, answer)
		}
	}
	if len(errs) == 0 {
		r.histories.Filled(lacks)
	}
	return errors.Join(errs...)
}

// ask sends a request to a follower.
func (r historian) ask(replica string, m *actorpb.PoolHistoryRequest) (*actorpb.PoolHistory, error) {
	ctx, cancel := context.WithTimeout(r.ctx, historyEvery)
	defer cancel()
	got, err := r.remote.Request(ctx, peerOf(replica), actorpb.GatewayName, m)
	if err != nil {
		return nil, err
	}
	return expect[*actorpb.PoolHistory](got)
}

// followTree copies the leader's history of a tree, message by message.
func (r historian) followTree(tree scheduling.TreeName) error {
	for more := true; more && r.leader.Load() == nil; {
		ctx, cancel := context.WithTimeout(r.ctx, historyEvery)
		answer, err := r.PoolHistory(ctx, r.histories.Missing(tree))
		cancel()
		if err != nil {
			return err
		}
		// This replica may have become the leader, which records its own history.
		if r.leader.Load() != nil {
			return nil
		}
		more = r.histories.Follow(tree, answer)
	}
	return nil
}

func (r *Replica) treeNames() (names []scheduling.TreeName) {
	r.store.View(func(s *state.State) {
		for _, tree := range s.Trees() {
			names = append(names, scheduling.TreeName(tree.GetName()))
		}
	})
	return names
}

// keepVolumesPatience bounds how long a transfer of leadership waits for the volumes of pools to be
// committed. After that, the next leader starts from older volumes.
const keepVolumesPatience = time.Second

// keepVolumes asks the leader's actor to have the volumes of all trees committed.
type keepVolumes struct{ done func() }

// keepVolumes commits the current volumes of pools, if this replica leads.
func (r *Replica) keepVolumes(ctx context.Context) {
	leader := r.leader.Load()
	if leader == nil {
		return
	}
	kept := make(chan struct{})
	r.system.Root.Send(leader, keepVolumes{func() { close(kept) }})
	patience := time.NewTimer(keepVolumesPatience)
	defer patience.Stop()
	select {
	case <-kept:
	case <-ctx.Done():
	case <-r.ctx.Done():
	case <-patience.C:
		r.cfg.Logger.Warn("volume checkpoint not committed before leadership transfer")
	}
}

// keepVolumes makes the schedulers of all trees propose their volumes.
func (t *ledTrees) keepVolumes(ctx actor.Context, m keepVolumes) {
	all := t.schedulers.all()
	done := countdown(len(all), m.done)
	for _, pid := range all {
		ctx.Send(pid, scheduler.KeepVolumes{Done: done})
	}
}
