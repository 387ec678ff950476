package scheduler

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/statistics"
)

// PastOperations is how many operations that have ended a new leader learns from: those that ended last.
const PastOperations = 1000

// pastPoints is how many run times represent those of an operation.
const pastPoints = 32

// PastOf returns what the state knows of an operation of a tree that estimates of others learn from. `ran`
// is how long its completed jobs took, in milliseconds. The second result is false if the operation is not in the tree.
func PastOf(tree scheduling.TreeName, op *statepb.Operation, ran statistics.Aggregate) (engine.Past, bool) {
	in := op.In(string(tree))
	if in == nil {
		return engine.Past{}, false
	}
	p := engine.Past{
		ID: scheduling.OperationID(op.GetId()), Pool: scheduling.PoolName(in.GetPool()), Kind: kindOf(op), Started: op.GetStartTime().AsTime(),
		Weight: pooltree.DefaultWeight,
	}
	if options, err := pooltree.ReadOperationOptions(in.GetOptions().AsMap()); err == nil && options.Weight != nil {
		p.Weight = *options.Weight
	}
	needs := map[string]resource.Amounts{}
	for _, task := range op.GetTasks() {
		needs[task.GetName()] = task.GetJobResources().Amounts()
	}
	for _, task := range op.GetSpec().GetTasks() {
		n := int64(cmp.Or(task.GetJobCount(), 1))
		p.Jobs += n
		p.Needs = p.Needs.Add(needs[task.GetName()].Times(n))
	}
	if p.Jobs > 0 {
		p.Needs = p.Needs.Scale(1 / float64(p.Jobs))
	}
	p.Ended = ran.Count
	if ran.Count > 0 && len(ran.Buckets) == 0 {
		// It ended so long ago that only sums are kept.
		p.Lengths = []float64{float64(ran.Mean()) / 1000}
		return p, true
	}
	for i := range min(ran.Count, pastPoints) {
		q := (float64(i) + .5) / float64(min(ran.Count, pastPoints))
		p.Lengths = append(p.Lengths, float64(ran.Quantile(q))/1000)
	}
	return p, true
}

// kindOf returns what operations have in common whose jobs are likely to run as long as each other's: the
// memory profiles of their tasks. It is empty for operations without profiles, or without tasks.
func kindOf(op *statepb.Operation) string {
	var keys []string
	for _, task := range op.GetSpec().GetTasks() {
		key := op.GetSpec().MemoryProfileKey(op.GetUser(), task)
		if key == "" {
			return ""
		}
		keys = append(keys, key)
	}
	if len(keys) < 2 {
		return strings.Join(keys, "")
	}
	// Kinds are remembered, and operations may have a hundred tasks.
	sum := sha256.Sum256([]byte(strings.Join(keys, " ")))
	return op.GetUser() + ":" + hex.EncodeToString(sum[:16])
}
