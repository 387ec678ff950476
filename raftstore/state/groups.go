package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/pooltree"
)

// The bounds of groups.
const (
	// MaxGroups is the greatest number of groups.
	MaxGroups = 1000
	// MaxUsersPerGroup is the greatest number of users of a group.
	MaxUsersPerGroup = 10000
)

// accessChange changes groups.
type accessChange struct{ *change }

func ofAccess(c *change) accessChange { return accessChange{c} }

// editGroup changes the users of a group, creates it or removes it.
func (c accessChange) editGroup(m *commandpb.EditGroup) *refusal {
	const what = "edit group"
	if err := access.CheckName("group", m.GetGroup()); err != nil {
		return refuse(CodeInvalidGroup, "%s: %v", what, err)
	}
	known := c.groups[m.GetGroup()]
	if known == nil && (m.GetDelete() || len(m.GetRemove()) > 0) {
		return unknownGroup(what, m.GetGroup())
	}
	if m.GetDelete() {
		return c.deleteGroup(what, m)
	}
	if known == nil {
		if refused := c.namedByOperations(what, m); refused != nil {
			return refused
		}
	}
	if known == nil && len(c.groups) >= MaxGroups {
		return refuse(CodeTooManyGroups, "%s %q: there are %d groups, the maximum: remove others", what, m.GetGroup(), MaxGroups)
	}
	users := slices.Clone(known.GetUsers())
	for _, user := range m.GetRemove() {
		i, is := slices.BinarySearch(users, user)
		if !is {
			return refuse(CodeInvalidGroup, "%s %q: user %q is not in it", what, m.GetGroup(), user)
		}
		users = slices.Delete(users, i, i+1)
	}
	for _, user := range m.GetAdd() {
		if err := access.CheckName("user", user); err != nil {
			return refuse(CodeInvalidGroup, "%s %q: %v", what, m.GetGroup(), err)
		}
		if i, is := slices.BinarySearch(users, user); !is {
			users = slices.Insert(users, i, user)
		}
	}
	if len(users) > MaxUsersPerGroup {
		return refuse(CodeInvalidGroup, "%s %q: it would have %d users, the maximum is %d: use several groups", what, m.GetGroup(), len(users), MaxUsersPerGroup)
	}
	c.groups[m.GetGroup()] = &statepb.Group{Name: m.GetGroup(), Users: users, ModifiedTime: c.timestamp()}
	if c.accounts[string(access.GroupSubject(m.GetGroup()))] != nil {
		c.judgeAccounts()
	}
	return nil
}

// deleteGroup removes a group to which no pool gives rights, and which has no grant; see also namedByOperations.
func (c accessChange) deleteGroup(what string, m *commandpb.EditGroup) *refusal {
	if len(m.GetAdd()) > 0 || len(m.GetRemove()) > 0 {
		return refuse(CodeInvalidCommand, "%s %q: it cannot be removed and changed at once", what, m.GetGroup())
	}
	for _, t := range c.Trees() {
		for pool, list := range rightsOf(c.trees[scheduling.TreeName(t.GetName())].pools) {
			if slices.Contains(list.Groups(), m.GetGroup()) {
				return refuse(CodeGroupInUse, "%s %q: pool %q of tree %q gives rights to it: take them away first (weir pool acl)",
					what, m.GetGroup(), pool, t.GetName())
			}
		}
	}
	if refused := c.namedByOperations(what, m); refused != nil {
		return refused
	}
	if subject := access.GroupSubject(m.GetGroup()); c.accounts[string(subject)] != nil {
		return refuse(CodeGroupInUse, "%s %q: it has a grant of accounts: take it away first (weir account disallow %s)", what, m.GetGroup(), subject)
	}
	delete(c.groups, m.GetGroup())
	return nil
}

// namedByOperations refuses to remove a group to which operations give rights, and to make one that
// was removed while they did: whoever is in a later group of that name would have these rights.
func (c accessChange) namedByOperations(what string, m *commandpb.EditGroup) *refusal {
	if !m.GetUnlessInOperations() {
		return nil
	}
	name, first, n := "group:"+m.GetGroup(), "", 0
	for op := range c.Operations() {
		rights := op.GetSpec().GetAcl()
		if !slices.Contains(rights.GetRead(), name) && !slices.Contains(rights.GetManage(), name) {
			continue
		}
		if n == 0 {
			first = op.GetId()
		}
		n++
	}
	if n == 0 {
		return nil
	}
	return refuse(CodeGroupInUse, "%s %q: the acl of %d operations names it, first %s: whoever is in a group of this name has rights on them: "+
		"choose another name, wait until they are no longer archived, or accept it (--force)", what, m.GetGroup(), n, first)
}

func unknownGroup(what, name string) *refusal {
	return refuse(CodeUnknownGroup, "%s: there is no group %q: create it first (weir group add %s USER…)", what, name, name)
}

// checkGroups refuses rights that are given to groups that do not exist.
func (r Rights) checkGroups(what string, groups []string) *refusal {
	for _, name := range groups {
		if r.groups[name] == nil {
			return unknownGroup(what, name)
		}
	}
	return nil
}

// checkRights refuses a tree in which rights are given to groups that do not exist.
func (r Rights) checkRights(what string, pools pooltree.Tree) *refusal {
	for pool, list := range rightsOf(pools) {
		if refused := r.checkGroups(fmt.Sprintf("%s: acl of pool %q", what, pool), list.Groups()); refused != nil {
			return refused
		}
	}
	return nil
}

// MaxRevocations is the greatest number of revocations.
const MaxRevocations = 10000

// revocationKey returns what a revocation is about: it replaces an earlier one of the same.
func revocationKey(r *statepb.Revocation) string {
	if r.GetSerial() != "" {
		return r.GetSerial()
	}
	return r.GetRole() + "/" + r.GetName()
}

// revoke has certificates no longer accepted, or accepted again.
func (c accessChange) revoke(m *commandpb.Revoke) *refusal {
	const what = "revoke certificates"
	r := m.GetRevocation()
	key := revocationKey(r)
	bySerial, byName := r.GetSerial() != "", r.GetRole() != "" && r.GetName() != ""
	switch _, known := c.revocations[key]; {
	case bySerial == byName:
		return refuse(CodeInvalidRevocation, "%s: give a serial number, or a role and a name", what)
	case m.GetLift() && !known:
		return refuse(CodeUnknownRevocation, "%s: nothing is revoked as %s", what, key)
	case m.GetLift():
		delete(c.revocations, key)
		return nil
	case !known && len(c.revocations) >= MaxRevocations:
		return refuse(CodeInvalidRevocation, "%s: there are %d revocations, the maximum: lift those of certificates that have expired", what, MaxRevocations)
	}
	kept := shallow(r)
	kept.User, kept.Time, kept.IssuedBefore = m.GetUser(), c.timestamp(), nil
	if byName {
		kept.IssuedBefore = c.timestamp()
	}
	c.revocations[key] = kept
	return nil
}

// Revocations returns the revocations, by key.
func (r Rights) Revocations() []*statepb.Revocation {
	return slices.SortedFunc(maps.Values(r.revocations), func(a, b *statepb.Revocation) int { return cmp.Compare(revocationKey(a), revocationKey(b)) })
}

// AnyRevoked reports whether there are revocations.
func (r Rights) AnyRevoked() bool { return len(r.revocations) > 0 }

// Revoked returns the revocation of a certificate; nil if it is accepted.
func (r Rights) Revoked(serial, role, name string, issued time.Time) *statepb.Revocation {
	if found := r.revocations[serial]; found != nil {
		return found
	}
	if found := r.revocations[role+"/"+name]; found != nil && issued.Before(found.GetIssuedBefore().AsTime()) {
		return found
	}
	return nil
}
