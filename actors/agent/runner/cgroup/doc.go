// Package cgroup holds the processes of a job together, limits and measures
// them, and ends them all at once.
//
// Two layouts of the kernel's control groups are understood, found out by
// Detect:
//
//   - v2: one hierarchy with the cpu, memory and pids controllers.
//   - hybrid: cpu, memory and pids are v1 hierarchies, and a v2 hierarchy
//     without them is mounted too. Limits are set in v1. The v2 group is what
//     the job's processes cannot leave behind: they are cloned into it, it
//     measures cpu time, tells whether anyone is left, and kills.
//
// A child joins its v2 group by being cloned into it, and its v1 groups because
// the thread that starts it has joined them: at no moment does a process of the
// job run outside. The memory of that thread's process does not move with it.
//
// All groups of a node lie in "weir-<node>", below the group in which the agent
// itself was started in each hierarchy. No other group is touched, with one
// exception: on v2 a group that hands controllers to its children may not hold
// processes, so an agent that is not in the root group moves itself into the
// child "weir-<node>-agent". Who starts the agent can spare it that, with a Leaf.
package cgroup
