package state

import (
	"fmt"
	"iter"
	"slices"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/access"
)

// maxAccounts is the greatest number of accounts, and of groups, of one subject.
const maxAccounts = 256

// isolationNone is the isolation of jobs that need a grant to have it.
const isolationNone = "none"

// identities are accounts and groups of the machines, and whether jobs may go without isolation.
type identities struct {
	accounts, groups []string
	isolationNone    bool
}

// any reports whether there is something that needs a grant.
func (w identities) any() bool { return len(w.accounts) > 0 || len(w.groups) > 0 || w.isolationNone }

// wanted returns what the tasks of an operation ask for, sorted.
func wanted(spec *statepb.OperationSpec) (all identities) {
	for _, t := range spec.GetTasks() {
		if t.GetUser() != "" {
			all.accounts = append(all.accounts, t.GetUser())
		}
		if t.GetGroup() != "" {
			all.groups = append(all.groups, t.GetGroup())
		}
		all.isolationNone = all.isolationNone || t.GetIsolation() == isolationNone
	}
	all.accounts, all.groups = inOrder(all.accounts), inOrder(all.groups)
	return all
}

// inOrder sorts names, and drops repetitions.
func inOrder(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// editAccounts changes as whom a subject may have jobs run on the machines (T2).
func (c accessChange) editAccounts(m *commandpb.EditAccounts) *refusal {
	const what = "edit accounts"
	subject, err := access.ParseSubject(m.GetSubject())
	if err != nil {
		return refuse(CodeInvalidAccount, "%s: %v", what, err)
	}
	for _, name := range slices.Concat(m.GetAccounts(), m.GetGroups()) {
		if !access.IsAccount(name) {
			return refuse(CodeInvalidAccount, "%s of %s: %q is no name or number of a user or group of a machine", what, subject, name)
		}
	}
	edit := identities{m.GetAccounts(), m.GetGroups(), m.GetIsolationNone()}
	known := c.accounts[m.GetSubject()]
	next := shallow(known)
	if m.GetDisallow() {
		if refused := takeAccounts(fmt.Sprintf("%s of %s", what, subject), known, next, edit); refused != nil {
			return refused
		}
		if !held(next).any() {
			delete(c.accounts, m.GetSubject())
			c.judgeAccounts()
			return nil
		}
	} else {
		if refused := c.checkGrant(what, subject, known, edit); refused != nil {
			return refused
		}
		next.Subject = m.GetSubject()
		next.Accounts = inOrder(slices.Concat(known.GetAccounts(), edit.accounts))
		next.Groups = inOrder(slices.Concat(known.GetGroups(), edit.groups))
		next.IsolationNone = known.GetIsolationNone() || edit.isolationNone
		if len(next.GetAccounts()) > maxAccounts || len(next.GetGroups()) > maxAccounts {
			return refuse(CodeInvalidAccount, "%s of %s: it would have %d accounts and %d groups, the maximum is %d of each: use several groups of users",
				what, subject, len(next.GetAccounts()), len(next.GetGroups()), maxAccounts)
		}
	}
	next.ModifiedTime = c.timestamp()
	c.accounts[m.GetSubject()] = next
	c.judgeAccounts()
	return nil
}

// checkGrant refuses a grant of nothing, one to a group that does not exist, and one too many.
func (c accessChange) checkGrant(what string, subject access.Subject, known *statepb.Accounts, edit identities) *refusal {
	if !edit.any() {
		return refuse(CodeInvalidAccount, "%s of %s: name an account, a group or isolation: none", what, subject)
	}
	if group, ok := subject.Group(); ok {
		if refused := RightsIn(c.State).checkGroups(what, []string{group}); refused != nil {
			return refused
		}
	}
	limit := int(c.limits.GetByGrant())
	if known == nil && len(c.accounts) >= limit && limit > 0 {
		return refuse(CodeTooManyGrants, "%s of %s: %d subjects have grants of accounts, the maximum (limit by_grant): give them to groups, or take others away",
			what, subject, limit)
	}
	return nil
}

// takeAccounts takes a part of a subject's grants away, or all if the edit names nothing.
func takeAccounts(what string, known, next *statepb.Accounts, edit identities) *refusal {
	if known == nil {
		return refuse(CodeUnknownAccount, "%s: it has no grant of accounts (weir account list)", what)
	}
	if !edit.any() {
		next.Accounts, next.Groups, next.IsolationNone = nil, nil, false
		return nil
	}
	for _, part := range []struct {
		kind string
		gone []string
		from *[]string
	}{{"account", edit.accounts, &next.Accounts}, {"group", edit.groups, &next.Groups}} {
		kept := slices.Clone(*part.from)
		for _, name := range part.gone {
			i, found := slices.BinarySearch(kept, name)
			if !found {
				return refuse(CodeUnknownAccount, "%s: it has no grant of %s %q (weir account list)", what, part.kind, name)
			}
			kept = slices.Delete(kept, i, i+1)
		}
		*part.from = kept
	}
	if edit.isolationNone && !known.GetIsolationNone() {
		return refuse(CodeUnknownAccount, "%s: it has no grant of isolation: none (weir account list)", what)
	}
	next.IsolationNone = known.GetIsolationNone() && !edit.isolationNone
	return nil
}

func held(a *statepb.Accounts) identities {
	return identities{a.GetAccounts(), a.GetGroups(), a.GetIsolationNone()}
}

// Accounts returns as whom subjects may have jobs run, by subject. They must not be changed.
func (r Rights) Accounts() []*statepb.Accounts {
	return listed(r.accounts, func(a *statepb.Accounts) *statepb.Accounts { return a })
}

// AccountsOf returns as whom who may have jobs run; nil if who needs no grant. It must not be changed.
func (r Rights) AccountsOf(who access.Who) *statepb.Accounts {
	if r.limits.GetByGrant() == 0 || who.Operator {
		return nil
	}
	has := r.grantsOf(who.User)
	return &statepb.Accounts{
		Subject: string(access.UserSubject(who.User)), Accounts: inOrder(has.accounts), Groups: inOrder(has.groups), IsolationNone: has.isolationNone,
	}
}

// mayRunAs returns an error of type *access.Denied unless who may have jobs run as the tasks of a
// specification say. Only the groups of this state count, because jobs start when nobody tells of
// others.
func (r Rights) mayRunAs(who access.Who, spec *statepb.OperationSpec) error {
	want := wanted(spec)
	if r.limits.GetByGrant() == 0 || who.Operator || !want.any() {
		return nil
	}
	return want.lacking(who.User, r.grantsOf(who.User))
}

// MayStillRunAs returns an error of type *access.Denied if the user of an operation has lost the grant that its
// jobs needed.
func (r Rights) MayStillRunAs(op *statepb.Operation) error {
	if r.limits.GetByGrant() == 0 || !op.GetNeedsGrant() {
		return nil
	}
	user := scheduling.User(op.GetUser())
	return wanted(op.GetSpec()).lacking(user, r.grantsOf(user))
}

// MayEnter returns an error of type *access.Denied unless who, who may manage an operation, may run commands in
// its jobs. That takes the grants that it would take to start them; and what is in its secure_vault is its user's
// alone.
func (r Rights) MayEnter(who access.Who, op *statepb.Operation) error {
	if len(op.GetSpec().GetVault().GetNames()) > 0 && !who.Operator && !owns(who, op) {
		return &access.Denied{User: who.User, What: fmt.Sprintf("run commands in jobs of operation %s, which has secrets of user %q", op.GetId(), op.GetUser())}
	}
	return r.mayRunAs(who, op.GetSpec())
}

// grantsOf returns as whom a user may have jobs run.
func (r Rights) grantsOf(user scheduling.User) (has identities) {
	who := r.Who(&commandpb.Subject{User: string(user)})
	for subject, a := range r.accounts {
		if who.Is(access.Subject(subject)) {
			has.accounts, has.groups = append(has.accounts, a.GetAccounts()...), append(has.groups, a.GetGroups()...)
			has.isolationNone = has.isolationNone || a.GetIsolationNone()
		}
	}
	return has
}

// lacking returns an error of type *access.Denied if a user has less than is wanted.
func (w identities) lacking(user scheduling.User, has identities) error {
	for _, part := range []struct {
		what, flag string
		want, has  []string
	}{{"have jobs run as user %s", "--as", w.accounts, has.accounts}, {"have jobs run in group %s", "--group", w.groups, has.groups}} {
		for _, name := range part.want {
			if !slices.Contains(part.has, name) {
				return &access.Denied{User: user, What: fmt.Sprintf(part.what, name), Grant: part.flag + " " + name}
			}
		}
	}
	if w.isolationNone && !has.isolationNone {
		return &access.Denied{User: user, What: "have jobs run with isolation: none", Grant: "--isolation-none"}
	}
	return nil
}

// Ungranted says why no job of an operation in progress may start: it runs as an account or without isolation,
// and its user has lost the grant. It is empty if jobs may start.
func (r Rights) Ungranted(op *statepb.Operation) string {
	if o, ok := operationIn(r.operations, scheduling.OperationID(op.GetId())); ok && o.state.InProgress() {
		return o.denied
	}
	return ""
}

// deniedNow yields the operations in progress, each with why none of its jobs may start.
func (r Rights) deniedNow() iter.Seq2[*operation, string] {
	return func(yield func(*operation, string) bool) {
		// Many operations are of few users.
		known := map[scheduling.User]identities{}
		for _, o := range r.inProgress {
			why := ""
			if o.record.GetNeedsGrant() && r.limits.GetByGrant() > 0 {
				user := scheduling.User(o.record.GetUser())
				has, is := known[user]
				if !is {
					has = r.grantsOf(user)
					known[user] = has
				}
				if err := wanted(o.record.GetSpec()).lacking(user, has); err != nil {
					why = err.Error()
				}
			}
			if !yield(o, why) {
				return
			}
		}
	}
}

// judgeAccounts finds the operations that have lost the grant that their jobs need, or have it again, and tells
// their demand: no other job of the first is granted.
func (c *change) judgeAccounts() {
	for o, why := range RightsIn(c.State).deniedNow() {
		if why == o.denied {
			continue
		}
		o.denied = why
		for task := range o.tasks {
			c.touchAll(o, task)
		}
	}
	c.tellDemand()
}
