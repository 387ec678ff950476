// Package fairshare divides a cluster among the pools and operations of a tree.
//
// The rule is hierarchical dominant-resource fairness: Ghodsi et al., "Dominant
// Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011, and
// Bhattacharya et al., "Hierarchical Scheduling for Diverse Datacenter
// Workloads", SoCC 2013. It is found by progressive filling:
//
//   - The share of an operation grows along its demand, so that it never holds a
//     resource without the others that its jobs need with it. Its level is its
//     dominant share, the greatest component of its share.
//   - The share of a pool is the sum of its children's. Its level grows as fast as
//     the greatest component of that sum: children that want different resources
//     grow side by side at no cost to each other.
//   - The levels of siblings grow in proportion to their weights. Whoever has all
//     that it demands stops, and its siblings go on.
//   - When a resource is used up, all who demand it stop where they are, and the
//     others go on.
//
// So every operation ends with its whole demand, or lacking a resource of which
// nothing is left. Elements of weight 0 have no fair share: what they run, they
// run on what others leave.
//
// Between two stops all growth is linear. Each pool is therefore described by a
// list of segments, made from those of its children bottom-up; how far the root
// can go is read off its own list, and what that means for everyone follows
// top-down. The work of n operations below h levels of pools is O(n h log n),
// at most six times: once for each resource that is used up, and once more.
//
// The package is pure: no clock, no locks, no I/O, and equal input gives equal
// output, whatever the order of children.
package fairshare
