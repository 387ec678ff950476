package engine

import (
	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/fairshare"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
)

// tree is the pools and the operations in them.
type tree struct {
	moment  *moment
	cluster *cluster

	// shares divides the cluster; its elements are those of pools and operations.
	shares     *fairshare.Tree
	root       *pool
	pools      map[scheduling.PoolName]*pool
	operations map[scheduling.OperationID]*operation
	// ofPool are the settings of a pool that no tree has told of.
	ofPool pooltree.Effective
	// rated says that pools have preemption_rate_limit.
	rated bool
	// filler knows the order of scheduling.
	filler   allocation.Filler
	digested digested
}

func newTree(m *moment, cl *cluster, pools pooltree.Tree) (*tree, error) {
	root := newPool(scheduling.RootPool)
	tr := &tree{
		moment: m, cluster: cl, shares: fairshare.NewTree(fairshare.Default()), root: root,
		pools: map[scheduling.PoolName]*pool{scheduling.RootPool: root}, operations: map[scheduling.OperationID]*operation{},
	}
	root.share = tr.shares.Root
	var err error
	if tr.ofPool, err = pools.Effective(scheduling.DefaultPool); err == nil {
		root.effective, err = pools.Effective(scheduling.RootPool)
	}
	return tr, err
}

// bounds are what the groups of an operation are cut by (F.12.1).
func (tr *tree) bounds(op *operation) preemption.Bounds {
	s := op.effective.Starvation
	return preemption.Bounds{
		Fair: op.share.FairShare, Demand: op.share.DemandShare, Total: tr.cluster.total,
		AggressiveThreshold: s.AggressiveThreshold, Threshold: s.Satisfaction, Protected: s.Protected(),
		OnBoundPreemptible: tr.moment.settings.Preemption.OnBoundPreemptible,
		Aggressive:         tr.allowsAggressive(op),
	}
}

// allowsAggressive reports whether an operation can be preempted aggressively.
func (tr *tree) allowsAggressive(op *operation) bool {
	return op.pool.effective.Preemption.AllowAggressive && (!op.Gang || tr.moment.settings.Preemption.AggressiveForGangs)
}
