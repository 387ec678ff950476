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

// Case is a request to explain an operation or a pool, with all that is known.
type Case struct {
	Now    time.Time
	Survey *Survey
	// Asks has what is known of the operations in question: of the one, or of those below Pool.
	// Unasked counts those left out because there are too many.
	Asks    []Asked
	Unasked int
	Pool    scheduling.PoolName
	// Search looks for jobs that could have to leave; nil: that is not needed.
	Search *Search
	// Fares says how the operation fares; Tail are facts that come last.
	Fares, Tail []Fact
	Answer      Explanation
}

// Reason draws the conclusions from what is known. It reports whether the answer is complete; if
// not, it has begun a Search, which the scheduler has to carry out.
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

// explainPool adds what the operations below a pool wait for.
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
		f.Text = fmt.Sprintf("of %s below it, %d with jobs to start: %s", counted(len(q.Asks), "operation"), waiting, strings.Join(parts, ", "))
	}
	if q.Unasked > 0 {
		f.Text += fmt.Sprintf("; %d more were not looked at", q.Unasked)
	}
	x.Facts = append(x.Facts, f)
	x.Facts = append(x.Facts, q.Tail...)
	x.Verdict = x.Facts[0].Code
}

// Asked is what only the scheduler knows of why jobs of an operation wait, apart from the nodes.
type Asked struct {
	ID scheduling.OperationID
	// Started orders operations that wait for the same.
	Started time.Time
	// Held are the facts about the claims for its jobs, the earliest first.
	Held []Fact
	// State is the verdict if nodes do not matter; empty: they do.
	State Fact
	// Pending are the jobs that are to start.
	Pending int64
	Tasks   []Task
	Gates   []Gate
	// Unpacked says that nodes were passed over for others that fit better.
	Unpacked bool
	// Below says that it is below its fair share, or its min share.
	Below bool
	// Starves names the starving element for which others leave in favor of the operation;
	// empty: there is none. Since is when that element fell below its share, Stage the stage in
	// which victims are looked for, VainLooks how often none were found, and Vain the last time.
	Starves   string
	Since     time.Time
	Stage     preemption.Stage
	VainLooks uint64
	Vain      allocation.Fact
	Backoff   time.Duration
	// Resource is the one in which its fair share is greatest.
	Resource     resource.Kind
	Usage, Share float64
	// Packed says that as many of its jobs run as fit on the nodes.
	Packed bool
	// Behind is why freed resources are not for it: operations before it in a FIFO pool, or no
	// fair share; nil: they may be.
	Behind *Fact
	// Hopes are when others leave for it at the soonest, by stage; Outrun is why none will
	// although it or its pool starves.
	Hopes  [preemption.StageCount]Hope
	Outrun string
	// Gathering is that of the gang whose jobs all have room.
	Gathering *Gathering
}

// Task is a group of a task with jobs to start.
type Task struct {
	allocation.TaskID
	Pending int64
	PerJob  resource.Amounts
	View    Gang
	// Gang is what keeps the missing jobs of its gang from starting together; nil: none is
	// missing.
	Gang *Fact
	// Gathering is that of the gang, if only room keeps it from starting.
	Gathering *Gathering
	Limit     *Fact
	Withheld  bool
	// Awaits says that all nodes that can hold a job are expected to reconnect.
	Awaits bool
}

// Gang is a task whose jobs start only together; the zero value is a task that is no gang.
type Gang struct {
	// Size is how many of its jobs have to run at once; Completed of them have completed and
	// need not run again.
	Size, Completed int64
	// Held is how many jobs of the task hold resources or are about to start, Missing how many
	// have to start at once, and Gathered how many of these have room held for them.
	Held, Missing, Gathered int64
	// Until is how long room is held for more of them; zero: it does not gather.
	Until time.Time
}

// Hope is when others leave for an operation at the soonest; zero: never. Rivals is how many
// jobs of operations that come before it others leave for first.
type Hope struct {
	At     time.Time
	Rivals int
}

// NotRunning is the state of an operation that may not start jobs.
func NotRunning(suspended bool) Fact {
	if suspended {
		return Fact{Code: FactSuspended, Text: "the operation is suspended: its jobs do not start until it is resumed"}
	}
	return Fact{Code: FactNotRunning, Text: "the operation may not start jobs in this tree: it does not run here"}
}

// NoneWaits is the state of an operation without jobs to start; starting of them are in flight.
func NoneWaits(starting int64) Fact {
	if starting > 0 {
		return Fact{Code: FactStarting, Count: starting, Text: "being started: " + counted(starting, "job")}
	}
	return Fact{Code: FactNoJobs, Text: "none of its jobs waits: all run or have ended"}
}

// Outrun says why no job will leave for an operation by the starvation of a pool, or by its own
// if pool is empty.
func Outrun(pool scheduling.PoolName) string {
	if pool == "" {
		return "enough jobs have been told to leave for its whole fair share"
	}
	return "others leave for " + PoolTitle(pool) + " until it has its fair share, and operations that come before this one take all of that"
}
