package check

import (
	"slices"
	"strings"

	"weir/chaos/history"
)

// acknowledged checks invariant S1.
func acknowledged(x *index, say report) {
	for _, c := range x.Calls {
		if c.What == history.Submit && c.Outcome == history.OK && x.operations[c.Operation] == nil {
			say("client %d got the answer that %s is operation %s, but there is no such operation", c.Client, c.Mutation, c.Operation)
		}
	}
	made := make(map[string]bool)
	for _, o := range x.Operations {
		made[o.Mutation] = true
	}
	for _, a := range x.Asks {
		if a.What == history.Submit && a.Outcome == history.OK && !made[a.Mutation] {
			say("user %s got the answer that %s is an operation, but there is no such operation", a.User, a.Mutation)
		}
	}
}

// idempotent checks invariant S2.
func idempotent(x *index, say report) {
	made := make(map[string][]string)
	for _, o := range x.Operations {
		made[o.Mutation] = append(made[o.Mutation], o.ID)
	}
	told := make(map[string][]string)
	var order []string
	for _, c := range x.Calls {
		if c.What != history.Submit {
			continue
		}
		if _, known := told[c.Mutation]; !known {
			order = append(order, c.Mutation)
			told[c.Mutation] = nil
		}
		if c.Outcome == history.OK && !slices.Contains(told[c.Mutation], c.Operation) {
			told[c.Mutation] = append(told[c.Mutation], c.Operation)
		}
	}
	for _, a := range x.Asks {
		if a.What == history.Submit {
			order = append(order, a.Mutation)
		}
	}
	for _, m := range order {
		if len(told[m]) > 1 {
			say("submission %s got answers with different operations: %s", m, strings.Join(told[m], " and "))
		}
		if len(made[m]) > 1 {
			say("submission %s became more than one operation: %s", m, strings.Join(made[m], " and "))
		}
		delete(made, m)
	}
	for _, o := range x.Operations {
		if _, strange := made[o.Mutation]; strange {
			say("operation %s says that it is submission %q, but no client sent that", o.ID, o.Mutation)
		}
	}
}
