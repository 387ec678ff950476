// Package fairshare divides a cluster among the pools and operations of a tree.
//
// The rule is vector hierarchical dominant-resource fairness: Ghodsi et al.,
// "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI
// 2011, and Bhattacharya et al., "Hierarchical Scheduling for Diverse Datacenter
// Workloads", SoCC 2013, with guarantees, FIFO pools, gangs and volumes that
// accumulate. Comments cite the sections of docs/fairshare.md as F.n.
//
// # Functions
//
// Every element is described by how its share grows (F.7):
//
//   - by fit factor: for an operation, from zero through its usage to its demand; for a pool, the
//     sum of what its children get, by weight or one after the other (fitfactor.go, sum.go);
//   - by suggestion: a suggestion s in [0, 1] means that no resource may exceed
//     the guarantee by more than s, nor the limit at all. One resource that
//     reaches its bound stops all of them (suggestion.go).
//
// Functions are piecewise linear, never fall, and are left-continuous: the value at a jump is the
// one before it. They are built bottom-up from those of the children; then the root is given
// suggestion 1 (top.go), and the shares that follow from it are assigned top-down (assign.go). Sums
// are merged pairwise, so n points of k children cost n log k, and the rounding error does not grow
// with n.
//
// # Guarantees
//
// Before functions are built, strong guarantees are inferred, checked and adjusted (guarantees.go:
// F.5), volumes are filled and spent (volume.go: F.6), and burst and relaxed pools are granted the
// share that their volume pays for (integral.go).
//
// # State
//
// A Tree is kept from one update to the next. The state that the rules carry over is in the
// elements, to be read and set: volumes, last share ratios, best allocation shares. The rest is
// reused memory: once it has grown, an update allocates nothing. Functions are kept too: after
// changes of a few operations, UpdateChanged builds again those of the pools above them (changed.go).
//
// The package is pure: no clock, no locks, no I/O. Equal trees give equal shares,
// in whatever order they were put together: siblings are sorted by rank and id.
package fairshare
