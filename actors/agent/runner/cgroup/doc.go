// Package cgroup holds the processes of a job together, limits and measures
// them, and ends them all at once.
//
// Detect recognizes two layouts of the kernel's control groups:
//
//   - v2: one hierarchy with the cpu, memory and pids controllers.
//   - hybrid: cpu, memory and pids are v1 hierarchies, and a v2 hierarchy without these is mounted
//     too. Limits are set in v1. The job's processes are cloned into the v2 group and cannot
//     leave it. The v2 group measures cpu time, shows whether a process is left, and kills.
//
// A child joins its v2 group by being cloned into it, and its v1 groups because
// the thread that starts it has joined them: no process of the job ever runs
// outside. The memory already charged to that thread's process does not move.
//
// All groups of a node lie in "weir-<node>", below the group in which the agent
// itself was started in each hierarchy. No other group is touched, with one
// exception: on v2 a group that hands controllers to its children may not hold
// processes, so an agent that is not in the root group moves itself into the
// child "weir-<node>-agent". Starting the agent in a group named Leaf avoids that.
package cgroup
