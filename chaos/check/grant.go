package check

import (
	"fmt"
	"maps"
	"slices"

	"weir/chaos/history"
	"weir/scheduling"
)

// granted checks invariant S7: witnesses, the journals of agents and the replicated state agree on
// which attempt runs on which node.
func granted(x *index, say report) {
	for _, c := range x.cookies {
		x.begins(c, say)
	}
	for _, c := range slices.SortedFunc(maps.Keys(x.attempts), cookie.compare) {
		x.tokensGrow(c, say)
	}
	for _, g := range x.Grants {
		if token := x.tokens[g.Job]; token != g.Token {
			say("job %s had token %v while it ran, but has %v at the end", g.Job, g.Token, token)
		}
	}
	for _, name := range x.nodes {
		x.follows(x.entries[name], say.about("node %s: ", name))
	}
}

// begins checks the processes of a cookie. Each belongs to a granted attempt, and the journal
// of that attempt's node has the grant. An attempt has one process, and later attempts begin
// later.
func (x *index) begins(c cookie, say report) {
	attempts := x.attempts[c]
	seen := make(map[string]int)
	last := -1
	for _, l := range x.lives[c] {
		i := slices.IndexFunc(attempts, func(j history.Job) bool { return j.ID == l.job })
		if i < 0 {
			say("cookie %s: attempt %s (pid %d) began, but was never granted", c, l.job, l.pid)
			continue
		}
		if node := attempts[i].Node; len(x.nodes) > 0 && !x.journaled[place{node, l.job}] {
			say("cookie %s: attempt %s (pid %d) began, but the journal of %s, to which it was granted, has no grant of it", c, l.job, l.pid, node)
		}
		if pid, again := seen[l.job]; again {
			say("cookie %s: attempt %s began twice (pids %d and %d)", c, l.job, pid, l.pid)
		}
		seen[l.job] = l.pid
		if i < last {
			say("cookie %s: attempt %s began after a later attempt, %s (attempt %d)", c,
				l.job, attempts[last].ID, attempts[last].Attempt)
		}
		last = max(last, i)
	}
}

// tokensGrow checks that later attempts of a cookie have greater tokens.
func (x *index) tokensGrow(c cookie, say report) {
	var before history.Job
	for _, j := range x.attempts[c] {
		j.Token = x.tokens[j.ID]
		if j.Token.IsZero() {
			continue
		}
		if !before.Token.IsZero() && !before.Token.Less(j.Token) {
			say("cookie %s: attempt %d (%s) has token %v, but the later attempt %d (%s) does not have a greater one: %v",
				c, before.Attempt, before.ID, before.Token, j.Attempt, j.ID, j.Token)
		}
		before = j
	}
}

// follows checks the journal of one node. Tokens grow, and the agent never follows a plan that is
// older than one it has seen. Each started job was granted once, to this node and with this token,
// as the cluster's records confirm.
func (x *index) follows(entries []history.Entry, say report) {
	var highest scheduling.Token
	has := make(map[string]bool)
	for _, e := range entries {
		switch e.What {
		case history.Seen:
			// A new journal begins with a token that is zero.
			if born := highest.IsZero() && e.Token.IsZero(); !born && !highest.Less(e.Token) {
				say("token %v is recorded as the highest, but an earlier one is not lower: %v", e.Token, highest)
			}
			highest = e.Token
		case history.Granted:
			if e.Plan.Less(highest) {
				say("job %s: a plan with token %v was followed, although %v had been seen", e.Job, e.Plan, highest)
			}
			if e.Plan.Less(e.Token) {
				say("job %s: its grant has token %v, but the plan with the grant has an older one: %v", e.Job, e.Token, e.Plan)
			}
			if has[e.Job] {
				say("job %s was granted a second time", e.Job)
			}
			has[e.Job] = true
			if err := x.agreed(e); err != nil {
				say("job %s: %v", e.Job, err)
			}
		case history.Unstarted:
			delete(has, e.Job)
		case history.Starting, history.Started:
			if !has[e.Job] {
				say("job %s is %s, but the journal has no grant of it", e.Job, e.What)
			}
		}
	}
}

// agreed returns an error if a grant in an agent's journal differs from the replicated state.
func (x *index) agreed(e history.Entry) error {
	c := cookie{e.Operation, e.Task, e.Cookie}
	i := slices.IndexFunc(x.attempts[c], func(j history.Job) bool { return j.ID == e.Job })
	if i < 0 {
		return fmt.Errorf("the journal has it as attempt %d of cookie %s, but the cluster has no such grant", e.Attempt, c)
	}
	j := x.attempts[c][i]
	if j.Node != e.Node || j.Attempt != e.Attempt {
		return fmt.Errorf("the journal has it as attempt %d, but it was granted as attempt %d to node %s", e.Attempt, j.Attempt, j.Node)
	}
	if token := x.tokens[e.Job]; !token.IsZero() && token != e.Token {
		return fmt.Errorf("its order has token %v, but its grant has %v", e.Token, token)
	}
	return nil
}
