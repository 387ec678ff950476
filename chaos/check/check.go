// Package check finds violations of invariants in the histories of a run.
//
// Every check is a function of the records alone. So a run can be checked again later, and the
// checks can be tested with histories known to be good or bad.
package check

import (
	"cmp"
	"fmt"
	"slices"

	"weir/chaos/history"
	"weir/scheduling"
)

// Violation is one breach of an invariant.
type Violation struct {
	// Invariant is its number, such as S1.
	Invariant string
	What      string
}

// String is the violation in one line.
func (v Violation) String() string { return v.Invariant + ": " + v.What }

// Invariant is something that holds in every run.
type Invariant struct {
	Number, Says string
	check        func(*index, report)
	// AtEnd says that the check needs the state at the end, which an unfinished run does not
	// have.
	AtEnd bool
}

// report reports a violation that a check has found.
type report func(format string, args ...any)

// about returns a report whose violations begin with the name of the thing they are about.
func (r report) about(what string, of ...any) report {
	return func(format string, args ...any) { r(what+format, slices.Concat(of, args)...) }
}

// Invariants are all invariants.
var Invariants = []Invariant{
	{"S1", "an acknowledged submission is never lost", acknowledged, true},
	{"S2", "a submission creates one operation, however often it is sent", idempotent, true},
	{"S4", "operations make legal transitions only, and final states are final", legal, true},
	{"S5", "each cookie completes and is counted exactly once", counted, true},
	{"S6", "at most one attempt of a cookie runs at a time", alone, false},
	{"S7", "each attempt was granted once, to the node that runs it, and tokens only grow", granted, true},
	{"S20", "no process, control group or folder is left behind", nothingLeft, false},
	{"S23", "nothing that a subject without the right asks for is ever done", entitled, false},
	{"S24", "no process exits or panics unexpectedly", calm, false},
	{"S25", "all replicas come to the same state", alike, false},
	{"L3", "every operation ends and releases its resources", ended, true},
	{"L5", "simulated nodes keep their jobs while online, and are online at the end", steady, true},
}

// All returns every violation, in the order of Invariants. Without the state at the end, checks
// with AtEnd are skipped.
func All(run *history.Run) []Violation {
	x := newIndex(run)
	var out []Violation
	for _, invariant := range Invariants {
		if invariant.AtEnd && !run.Complete() {
			continue
		}
		invariant.check(x, func(format string, args ...any) {
			out = append(out, Violation{invariant.Number, fmt.Sprintf(format, args...)})
		})
	}
	return out
}

// cookie identifies one job of an operation across its attempts.
type cookie struct {
	operation, task string
	number          int
}

func (c cookie) String() string { return fmt.Sprintf("%s/%s/%d", c.operation, c.task, c.number) }

func (c cookie) compare(d cookie) int {
	return cmp.Or(cmp.Compare(c.operation, d.operation), cmp.Compare(c.task, d.task), cmp.Compare(c.number, d.number))
}

// life is what a witness recorded about one process of an attempt.
type life struct {
	job        string
	pid        int
	begin, end int64
	// done says that it ran to its end.
	done bool
}

// index is a run, indexed for the checks.
type index struct {
	*history.Run
	operations map[string]*history.Operation
	// lives are the records of witnesses, ordered by begin. attempts are the attempts that the
	// cluster reported, ordered by number.
	lives    map[cookie][]life
	attempts map[cookie][]history.Job
	// cookies are the keys of lives.
	cookies []cookie
	// tokens are the tokens of grants that the cluster reported, by job.
	tokens map[string]scheduling.Token
	// entries are the journals by node. journaled has the grants in these journals.
	entries   map[string][]history.Entry
	nodes     []string
	journaled map[place]bool
}

// place is a job on a node.
type place struct{ node, job string }

func newIndex(run *history.Run) *index {
	x := &index{
		Run: run, operations: make(map[string]*history.Operation), lives: make(map[cookie][]life), attempts: make(map[cookie][]history.Job),
		tokens: make(map[string]scheduling.Token), entries: make(map[string][]history.Entry), journaled: make(map[place]bool),
	}
	x.addGrants()
	x.addSights()
	x.addEntries()
	return x
}

// addGrants adds the operations and jobs that the cluster reported, during the run and at the end.
func (x *index) addGrants() {
	for _, g := range x.Grants {
		x.tokens[g.Job] = g.Token
	}
	for i := range x.Operations {
		o := &x.Operations[i]
		x.operations[o.ID] = o
		for _, j := range o.Jobs {
			c := cookie{o.ID, j.Task, j.Cookie}
			x.attempts[c] = append(x.attempts[c], j)
			if !j.Token.IsZero() {
				x.tokens[j.ID] = j.Token
			}
		}
	}
	for _, list := range x.attempts {
		slices.SortStableFunc(list, func(a, b history.Job) int { return cmp.Compare(a.Attempt, b.Attempt) })
	}
}

// addSights adds the records of witnesses.
func (x *index) addSights() {
	type process struct {
		cookie
		job string
		pid int
	}
	at := make(map[process]int)
	for _, s := range x.Sights {
		c := cookie{s.Operation, s.Task, s.Cookie}
		p := process{c, s.Job, s.Pid}
		i, known := at[p]
		if !known || s.What == history.Begin && x.lives[c][i].done {
			i, at[p] = len(x.lives[c]), len(x.lives[c])
			if i == 0 {
				x.cookies = append(x.cookies, c)
			}
			x.lives[c] = append(x.lives[c], life{job: s.Job, pid: s.Pid, begin: s.At})
		}
		l := &x.lives[c][i]
		l.end = max(l.end, s.At)
		l.done = l.done || s.What == history.End
	}
	for _, lives := range x.lives {
		slices.SortFunc(lives, func(a, b life) int { return cmp.Compare(a.begin, b.begin) })
	}
}

// addEntries adds the journals of agents.
func (x *index) addEntries() {
	for _, e := range x.Entries {
		if x.entries[e.Node] == nil {
			x.nodes = append(x.nodes, e.Node)
		}
		x.entries[e.Node] = append(x.entries[e.Node], e)
		if e.What == history.Granted {
			x.journaled[place{e.Node, e.Job}] = true
		}
	}
	slices.Sort(x.nodes)
}
