package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// The codes of facts. Clients depend on them: never change one. Those up to FactNoVictims are
// verdicts on operations: they say what an operation waits for.
const (
	FactNoJobs         = "no_pending_jobs"
	FactNotRunning     = "not_running"
	FactSuspended      = "suspended"
	FactStarting       = "starting"
	FactStartsSoon     = "starts_soon"
	FactVictims        = "waiting_for_victims"
	FactNoNodes        = "no_nodes"
	FactNoMatch        = "no_node_matches"
	FactTooSmall       = "no_node_big_enough"
	FactLimit          = "limit_reached"
	FactWithheld       = "graceful_share_reached"
	FactPacking        = "waiting_for_better_node"
	FactGang           = "waiting_for_gang_room"
	FactGangTurn       = "waiting_for_gang_turn"
	FactGangPause      = "gang_pause"
	FactGangIncomplete = "gang_incomplete"
	FactGangTooBig     = "gang_too_big"
	FactTurn           = "waiting_for_turn"
	FactFIFO           = "waiting_in_fifo_order"
	FactNoShare        = "no_fair_share"
	FactOwn            = "waiting_for_its_own_jobs"
	FactLacking        = "resources_lacking"
	FactBackoff        = "preemption_backoff"
	FactNoVictims      = "no_victims"
	FactNodes          = "nodes"
	FactPosition       = "position"
	FactEstimate       = "estimated_start"
	FactNoEstimate     = "no_estimate"
	FactWaits          = "operations_wait"
	FactLikelyVictims  = "likely_victims"
	FactBelowFair      = "below_fair_share"
	FactHasFair        = "has_fair_share"
	FactStarving       = "starving"
	FactRefused        = "passed_over"
	FactShare          = "fair_share"
	FactShareStrong    = "share_by_guarantee"
	FactShareIntegral  = "share_by_integral_guarantee"
	FactShareWeight    = "share_by_weight"
	FactBoundDemand    = "share_bound_by_demand"
	FactBoundLimit     = "share_bound_by_limits"
	FactBoundNodes     = "share_bound_by_nodes"
	FactBoundBelow     = "share_bound_below"
	FactBoundWeight    = "share_bound_by_weight"
	FactBoundGuarantee = "share_bound_by_guarantee"
	FactBoundFIFO      = "share_bound_by_fifo_order"
	FactSpared         = "spared"
	FactProtected      = "protected"
	FactPreemptible    = "preemptible"
	FactLeaving        = "leaving"
)

// The ways in which a job may get its room.
const (
	// ByEnds: other jobs end by themselves.
	ByEnds = "jobs_that_end"
	// ByPreemption: the operation starves, or will, and jobs of others are preempted for it.
	ByPreemption = "preemption"
	// ByHeldRoom: other jobs have been told to leave, and their resources are held for the job.
	ByHeldRoom = "held_room"
)

// Fact is one part of an explanation. Its code says which fields are set.
type Fact struct {
	Code string
	// Text is the fact in words.
	Text string

	Pool      scheduling.PoolName
	Operation scheduling.OperationID
	Task      scheduling.TaskName
	Job       scheduling.JobID
	Node      scheduling.NodeID
	// Resource is the name of a resource. Setting is the name of an option.
	Resource, Setting string
	// Value is a part of the cluster, or an amount in cores or bytes. Bound is what Value is
	// compared with.
	Value, Bound float64
	// Count is a number of things. Of is how many such things there are in all.
	Count, Of int64
	// At is when the stated thing happened. Until is when it is over at the latest.
	At, Until time.Time
}

// Explanation is a list of facts: the first one is the short answer, the following ones explain
// it.
type Explanation struct {
	// Verdict is the code of the first fact.
	Verdict string
	Facts   []Fact
	// Tasks are the tasks of an operation that have pending jobs, sorted by name. Among the groups
	// of a task, the one that needs the most memory is first.
	Tasks []TaskExplanation
	// Position is the operation's place in the order of scheduling among the operations with
	// pending jobs. It starts at 1, and is 0 if the operation has no place. Waiting is the number of
	// operations with pending jobs.
	Position, Waiting int
	// Start is when a job is expected to start. It is zero if unknown. StartBy is how the job gets
	// its room. In 9 of 10 cases the job starts between Earliest and Latest, unless something else
	// changes.
	Start, Earliest, Latest time.Time
	StartBy                 string
	// Victims are the jobs that are likely to be preempted for it.
	Victims []Victim
	// Waits says what the operations below a pool wait for, the most frequent first.
	Waits []Wait
	Share ShareExplanation
}

// TaskExplanation says what the pending jobs of a group of a task wait for.
type TaskExplanation struct {
	Name scheduling.TaskName
	// Group is the memory, in bytes, that is granted to each of these jobs because they ran out
	// of memory before. It is 0 if they get the reserve learned for the task.
	Group   int64
	Verdict string
	// Pending is the number of jobs that wait, without those about to start and those with a claim.
	Pending int64
	PerJob  resource.Amounts
	Nodes   NodeCounts
	// Gang is the gang of the task.
	Gang Gang
}

// Wait counts operations that wait for the same.
type Wait struct {
	// Verdict is the verdict on each of them. Text is the text for First, the operation that was
	// started first.
	Verdict    string
	Operations int
	// Jobs are the jobs that the operations have to start.
	Jobs  int64
	First scheduling.OperationID
	Text  string
}

// Victim is a job that may be preempted.
type Victim struct {
	Job       scheduling.JobID
	Operation scheduling.OperationID
	Node      scheduling.NodeID
	Started   time.Time
}

// Refusal says how often an operation or a pool was passed over for a cause, and when last.
type Refusal struct {
	Cause allocation.Cause
	Count uint64
	// Of is the pool that was passed over. It is empty for the operation itself.
	Of scheduling.PoolName
	// At and Node are those of the last refusal.
	At   time.Time
	Node scheduling.NodeID
	// Resource is the first resource of which there was too little, if that is the cause.
	Resource resource.Kind
	// By is the pool whose limits or filter were the cause. It is empty if those of the operation
	// were, or if the cause is another.
	By scheduling.PoolName
}

// Fact returns the refusal as a fact.
func (r Refusal) Fact() Fact {
	f := Fact{
		Code: FactRefused, Setting: r.Cause.String(), Pool: r.Of, Node: r.Node, Resource: r.Resource.String(), Count: int64(r.Count), At: r.At,
	}
	who := "it was"
	if r.Of != "" {
		who = PoolTitle(r.Of) + " was"
	}
	f.Text = fmt.Sprintf("%s passed over %s because %s, last on node %s at %s", who, times(r.Count), r.reason(), r.Node, clock(r.At))
	return f
}

// GivenBack returns the fact that a claim of an operation on a node has ended without a start, and
// why.
func GivenBack(on scheduling.NodeID, at time.Time, why fmt.Stringer) Fact {
	return Fact{
		Code: FactVictims, Node: on, At: at, Setting: why.String(),
		Text: fmt.Sprintf("the room held for it on node %s was released at %s: %s", on, clock(at), why),
	}
}

// reasons say why an element was passed over. BY stands for the owner of the limits or the filter.
var reasons = [allocation.CauseCount]string{
	allocation.Unmatched: "the node's tags do not match BY scheduling_tag_filter",
	allocation.Lacking:   "the node had too little RESOURCE",
	allocation.Limited:   "BY resource_limits left too little RESOURCE",
	allocation.Withheld:  "it has its fair share, counting its jobs that are leaving gracefully",
	allocation.Unpacked:  "its jobs fit other nodes better (packing)",
	allocation.Crowded:   "another node with fewer of its jobs had room (spread)",
	allocation.Portless:  "the node had too few free TCP ports (port_count of its task, option --ports of the node's agent)",
	allocation.Scarce:    "the node had less free than min_spare_allocation_resources_on_node",
	allocation.Reserved:  "the free resources are held for jobs for which others were preempted",
	allocation.NoVictims: "too few jobs could be preempted",
}

// reason says why an element was passed over.
func (r Refusal) reason() string {
	by := "its own"
	if r.By != "" {
		by = fmt.Sprintf("pool %q's", r.By)
	}
	return strings.NewReplacer("BY", by, "RESOURCE", r.Resource.String()).Replace(reasons[r.Cause])
}

// percent formats a part of the whole, such as "12.5%".
func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + "%" }

// clock formats a time in UTC for people and programs; clients convert it to local time.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// PoolTitle names a pool.
func PoolTitle(name scheduling.PoolName) string { return "pool " + strconv.Quote(string(name)) }

// quantity formats an amount of a resource with the resource's name.
func quantity(k resource.Kind, n int64) string {
	if k == resource.UserSlots {
		return counted(n, "slot")
	}
	return amount(k, n) + " " + k.String()
}

// amount formats an amount of a resource for people.
func amount(k resource.Kind, n int64) string {
	switch k {
	case resource.CPU:
		return resource.Hundredths(n).String()
	case resource.Memory:
		return resource.ShowSize(n)
	default:
		return strconv.FormatInt(n, 10)
	}
}

// inUnits returns an amount as a number. A cpu amount is in cores, a memory amount in bytes.
func inUnits(k resource.Kind, n int64) float64 {
	if k == resource.CPU {
		return resource.Hundredths(n).Cores()
	}
	return float64(n)
}

// plural returns the parameter one if n is 1, and otherwise the parameter many.
func plural[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// counted formats a number of things, such as "2 jobs".
func counted[N int | int64](n N, thing string) string {
	return fmt.Sprintf("%d %s", n, plural(n, thing, thing+"s"))
}

// times formats how often something happened.
func times(n uint64) string { return plural(n, "once", fmt.Sprintf("%d times", n)) }

// titleOf names a task, or the group of its jobs that get more memory because they ran out of it.
func titleOf(t allocation.TaskID) string {
	if t.Group == 0 {
		return fmt.Sprintf("task %s", t.Name)
	}
	return fmt.Sprintf("task %s (ran out of memory before, now gets %s)", t.Name, resource.FormatSize(t.Group))
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

func sooner(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }
