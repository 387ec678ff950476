package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// Case is a request to explain an operation or a pool, with all that is known about it.
type Case struct {
	Now    time.Time
	Survey *Survey
	// Asks holds what is known of the operation in question, or of the operations below Pool.
	// Unasked is the number of operations left out because there are too many.
	Asks    []Asked
	Unasked int
	Pool    scheduling.PoolName
	// Search looks for jobs that may be preempted. It is nil if no search is needed.
	Search *Search
	// Fares are the facts about how near the operation is to starving. Tail are facts that come
	// last.
	Fares, Tail []Fact
	Answer      Explanation
	// Widths say how ranges have to be changed. Told is what was told of ending jobs before that. It is
	// nil if nothing was.
	Widths Widths
	Told   *Told
}

// Reason draws the conclusions from what is known. It reports whether the answer is complete. If it
// is not, Reason has begun a Search, which the scheduler has to carry out.
func (q *Case) Reason() (done bool) {
	q.Survey.classify()
	if q.Pool != "" {
		q.explainPool()
		return true
	}
	a := &q.Asks[0]
	v := q.judge(a)
	if q.Search == nil && v.worthSearch(a) {
		if q.Search = q.newSearch(a, v); q.Search != nil {
			return false
		}
	}
	q.explainOperation(a, v)
	return true
}

// explainPool adds the facts about what the operations below a pool wait for.
func (q *Case) explainPool() {
	x := &q.Answer
	slices.SortFunc(q.Asks, func(a, b Asked) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	waiting := 0
	for i := range q.Asks {
		a := &q.Asks[i]
		if a.State.Code == FactNoJobs || a.State.Code == FactNotRunning || a.State.Code == FactSuspended && a.Pending == 0 {
			continue
		}
		answer := q.judge(a).answer(a)
		waiting++
		at := slices.IndexFunc(x.Waits, func(w Wait) bool { return w.Verdict == answer.Code })
		if at < 0 {
			at = len(x.Waits)
			x.Waits = append(x.Waits, Wait{Verdict: answer.Code, First: a.ID, Text: answer.Text})
		}
		x.Waits[at].Operations++
		x.Waits[at].Jobs += a.Pending
	}
	slices.SortStableFunc(x.Waits, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.Operations, a.Operations), cmp.Compare(a.Verdict, b.Verdict))
	})
	f := Fact{Code: FactWaits, Pool: q.Pool, Count: int64(waiting), Of: int64(len(q.Asks)), Text: "none of the operations below it has jobs to start"}
	if waiting > 0 {
		var parts []string
		for _, w := range x.Waits {
			parts = append(parts, fmt.Sprintf("%s %d", w.Verdict, w.Operations))
		}
		f.Text = fmt.Sprintf("of %s below it, %d have jobs to start: %s", counted(len(q.Asks), "operation"), waiting, strings.Join(parts, ", "))
	}
	if q.Unasked > 0 {
		f.Text += fmt.Sprintf("; %d more were not examined", q.Unasked)
	}
	x.Facts = append(x.Facts, f)
	x.Facts = append(x.Facts, q.Tail...)
	x.Verdict = x.Facts[0].Code
}

// Asked holds what only the scheduler knows about why jobs of an operation wait, apart from the
// nodes.
type Asked struct {
	ID scheduling.OperationID
	// Started orders operations that wait for the same.
	Started time.Time
	// Held are the facts about the claims for its jobs, the earliest first.
	Held []Fact
	// State is the verdict if nodes do not matter. It is empty if they do.
	State Fact
	// Begun says that it has started jobs.
	Begun bool
	// Pending is the number of jobs to start.
	Pending int64
	Tasks   []Task
	Gates   []Gate
	// Unpacked says that nodes were passed over for others that fit better.
	Unpacked bool
	// Below says that the operation is below its fair share, or its min share.
	Below bool
	// Starves names the starving element, the operation or a pool above, because of which others
	// are preempted for the operation. It is empty if there is none. Since is when that element fell
	// below its share. Stage is the stage in which victims are searched for. VainLooks counts the
	// searches that found no victims. Vain describes the last such search.
	Starves   string
	Since     time.Time
	Stage     preemption.Stage
	VainLooks uint64
	Vain      allocation.Fact
	Backoff   time.Duration
	// Resource is the one in which its fair share is greatest. Usage and Share are its usage and
	// fair share in it, as parts of the cluster.
	Resource     resource.Kind
	Usage, Share float64
	// Packed says that as many of its jobs run as fit on the nodes.
	Packed bool
	// Behind is why freed resources do not go to the operation: it comes after others in a FIFO
	// pool, or has no fair share. It is nil if they may go to the operation.
	Behind *Fact
	// Hopes says, by stage, when others can be preempted for it at the earliest. Outrun is why no
	// job will be preempted although it or its pool starves.
	Hopes  [preemption.StageCount]Hope
	Outrun string
	// Gathering describes its gang whose jobs all have room. It is nil if there is none.
	Gathering *Gathering
}

// Task is a group of the jobs of a task, with jobs to start.
type Task struct {
	allocation.TaskID
	Pending int64
	PerJob  resource.Amounts
	View    Gang
	// Gang is what keeps the missing jobs of its gang from starting together. It is nil if no job
	// is missing.
	Gang *Fact
	// Gathering describes the gang if only a lack of room keeps it from starting. Otherwise it is
	// nil.
	Gathering *Gathering
	Limit     *Fact
	Withheld  bool
	// Awaits says that all nodes that can hold a job are expected to reconnect.
	Awaits bool
}

// Gang is a task whose jobs start only together; the zero value is a task that is no gang.
type Gang struct {
	// Size is how many of its jobs have to run at the same time. Completed is how many of these have
	// completed and need not run again.
	Size, Completed int64
	// Held is how many jobs of the task hold resources or are about to start. Missing is how many
	// others have to start together. Gathered is the number of missing jobs for which room is held.
	Held, Missing, Gathered int64
	// Until is when the room held for the missing jobs is released. It is zero if the gang does not
	// gather room.
	Until time.Time
}

// Hope is when others can be preempted for an operation at the earliest. Zero is never. Rivals is the
// number of jobs of earlier operations for which others are preempted first.
type Hope struct {
	At     time.Time
	Rivals int
}

// NotRunning returns the state of an operation that may not start jobs.
func NotRunning(suspended bool) Fact {
	if suspended {
		return Fact{Code: FactSuspended, Text: "the operation is suspended: its jobs do not start until it is resumed"}
	}
	return Fact{Code: FactNotRunning, Text: "the operation is not running in this tree, and starts no jobs here"}
}

// NoneWaits returns the state of an operation without jobs to start. The parameter starting is the
// number of jobs that are about to start.
func NoneWaits(starting int64) Fact {
	if starting > 0 {
		return Fact{Code: FactStarting, Count: starting, Text: "being started: " + counted(starting, "job")}
	}
	return Fact{Code: FactNoJobs, Text: "none of its jobs is waiting: all are running or have ended"}
}

// Outrun says why no job will be preempted for an operation although the pool starves. If the name of
// the pool is empty, the operation itself starves.
func Outrun(pool scheduling.PoolName) string {
	if pool == "" {
		return "enough jobs have already been told to leave to give it its whole fair share"
	}
	return "jobs are preempted for " + PoolTitle(pool) + " until it has its fair share, but operations before this one take all of it"
}
