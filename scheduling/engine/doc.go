// Package engine schedules one pool tree: events and time go in, plans come out.
//
// The engine has a single writer and no clock, lock or I/O of its own. Equal
// events in equal order give equal plans: decisions go by slices and heaps in a
// total order, and maps serve only for lookup by id.
//
// # Plans and commits
//
// Heartbeat plans starts. From that moment the resources of a start are used and
// its job is no longer pending, so that the next heartbeat can be planned while
// the proposal is under way. The start is in flight, under a Ticket, until it is
// settled: Commit makes an allocation of it, Reject takes it back.
//
// # Pending jobs
//
// SetDemand sets the pending jobs of a task as the replicated state has them,
// where a job is pending until its start is committed. The engine subtracts what
// is in flight:
//
//	effective pending = committed pending - in flight, and at least 0
//
// Commit lowers both terms by one, because the same log entry takes the job out of the pending ones
// in the state. So the effective number does not change, and a SetDemand is needed only when the
// number changes for another reason, or as confirmation. Commits and demand both follow from the
// log: for each entry, report first its commits and then the demand after it. In another order the
// engine plans one start too few until the next SetDemand, or one too many, which the state
// refuses. No job starts twice.
//
// # Groups
//
// Jobs of one task may need different memory. Jobs of group 0 get what the task has learned to
// need. Jobs of another group get as many bytes as the number of the group. Each group has its own
// demand. What a group needs may change while jobs of it wait; a job that has started keeps what it
// got.
//
// # Gangs
//
// The jobs of a gang start all in one plan, or none does. One gang at a time gathers: where it is
// the gang's turn, a claim is made for a job instead of a start. The gathering ends when every job
// has a claim that can be met, or when the gang_timeout of the tree is over.
//
// # Preemption
//
// Heartbeat plans preemptions too (F.12.3). From that moment the allocation is leaving: it holds
// its part of the node, is no longer usage of its operation, and is in none of its groups. Leave
// says that the order is committed, and also reports orders that others gave; Stay takes the plan
// back. If the job leaves for another one, a claim on the node holds its resources. The claim
// counts as usage of the beneficiary until its job starts there, before all others. Claims follow
// from the orders: a new engine that is given the allocations, the demand and then the orders has
// the same claims. For orders given before the engine was made, AddClaim restores the claims.
//
// Three rules make preemption come to an end when nothing changes. The groups protect the
// allocation that crosses a bound. No element is left with less of its fair share than the starving
// one has, unless it is the turn of the starving one. Within an age, in which only what jobs use
// moves shares, no operation takes back what was taken from it.
//
// # Questions
//
// An explanation takes long, so it is asked for by an Inquiry: the engine's goroutine notes a
// little at a time, and package explain draws the conclusions outside it.
//
// # Resources
//
// The resources of an allocation are free again only at RemoveAllocation, after the job has
// gone. A node or an operation that is removed before its allocations stays until the last of
// them is removed, and gets nothing new.
package engine
