package state

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/pooltree"
)

// Rights tells what subjects may do in a state (T1). The same questions are asked where a call
// arrives and where its command is applied.
type Rights struct{ *State }

// RightsIn returns the rights in a state.
func RightsIn(s *State) Rights { return Rights{s} }

// Who returns a subject with all of its groups.
func (r Rights) Who(by *commandpb.Subject) access.Who {
	who := access.Who{User: scheduling.User(by.GetUser()), Operator: by.GetOperator(), Groups: slices.Clone(by.GetGroups())}
	for name, group := range r.groups {
		if _, is := slices.BinarySearch(group.GetUsers(), by.GetUser()); is {
			who.Groups = append(who.Groups, name)
		}
	}
	slices.Sort(who.Groups)
	who.Groups = slices.Compact(who.Groups)
	return who
}

// Pool returns an error of type *access.Denied unless who has the right on a pool of a tree, or on
// its root. The parameter `what` says what who wants to do.
func (r Rights) Pool(who access.Who, right access.Right, tree scheduling.TreeName, pool scheduling.PoolName, what string) error {
	tree = cmp.Or(tree, r.defaultTree)
	t := r.trees[tree]
	if t == nil || t.pools.Gives(right, who, pool) {
		return nil
	}
	return &access.Denied{User: who.User, What: what, Right: right, Tree: tree, Pool: pool, Holders: t.pools.Holders(right, pool)}
}

// Operation returns an error of type *access.Denied unless who started the operation, or has the
// right on it or on its pool in one of its trees. The parameter `verb` says what who wants to do with
// the operation.
func (r Rights) Operation(who access.Who, right access.Right, op *statepb.Operation, verb string) error {
	if r.Gives(who, right, op) {
		return nil
	}
	denied := &access.Denied{User: who.User, What: fmt.Sprintf("%s operation %s of user %q", verb, op.GetId(), op.GetUser()), Right: right}
	for _, in := range op.GetTrees() {
		t := r.trees[scheduling.TreeName(in.GetTree())]
		if t == nil {
			continue
		}
		denied.Tree, denied.Pool = scheduling.TreeName(in.GetTree()), scheduling.PoolName(in.GetPool())
		denied.Holders = append(denied.Holders, t.pools.Holders(right, denied.Pool)...)
	}
	denied.Holders = append(denied.Holders, operationRights(op.GetSpec().GetAcl()).Subjects(right)...)
	slices.Sort(denied.Holders)
	denied.Holders = slices.Compact(denied.Holders)
	return denied
}

// Gives reports whether who started the operation, or has the right on it or on its pool in one of its
// trees. It is Operation without the text of a refusal, for lists.
func (r Rights) Gives(who access.Who, right access.Right, op *statepb.Operation) bool {
	if who.Operator || owns(who, op) || operationRights(op.GetSpec().GetAcl()).Gives(right, who) {
		return true
	}
	return slices.ContainsFunc(op.GetTrees(), func(in *statepb.OperationTree) bool {
		t := r.trees[scheduling.TreeName(in.GetTree())]
		return t != nil && t.pools.Gives(right, who, scheduling.PoolName(in.GetPool()))
	})
}

// owns reports whether who, who is no operator, started the operation. A user does not own what an
// operator of the same name started. Operations of old do not tell these apart.
func owns(who access.Who, op *statepb.Operation) bool {
	return who.User != "" && string(who.User) == op.GetUser() && !op.GetByOperator()
}

// rightsOf yields the root and the pools of a tree that give rights, in a fixed order.
func rightsOf(pools pooltree.Tree) iter.Seq2[scheduling.PoolName, *access.List] {
	return func(yield func(scheduling.PoolName, *access.List) bool) {
		if !yield(scheduling.RootPool, pools.Rights(scheduling.RootPool)) {
			return
		}
		for _, p := range pools.Pools() {
			if p.Options.ACL != nil && !yield(p.Name, p.Options.ACL) {
				return
			}
		}
	}
}

// operationRights returns the rights on an operation as a list.
func operationRights(rights *statepb.OperationRights) *access.List {
	return &access.List{Read: subjects(rights.GetRead()), Manage: subjects(rights.GetManage())}
}

func subjects(names []string) (all []access.Subject) {
	for _, name := range names {
		all = append(all, access.Subject(name))
	}
	return all
}

// Command returns an error of type *access.Denied unless a subject has the right to a command. A
// command that fails for another reason, such as an operation that does not exist, may be allowed.
func (r Rights) Command(by *commandpb.Subject, msg proto.Message) error {
	who := r.Who(by)
	h := handlers[reflect.TypeOf(msg)]
	if h.allow == nil {
		return &access.Denied{User: who.User, What: fmt.Sprintf("propose %T, which is for the system alone", msg)}
	}
	return h.allow(r, who, msg)
}

// Groups returns the groups, by name.
func (r Rights) Groups() []*statepb.Group {
	return slices.SortedFunc(maps.Values(r.groups), func(a, b *statepb.Group) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

// Given yields the roots and the pools that give rights, of all trees.
func (r Rights) Given() iter.Seq2[Giver, *access.List] {
	return func(yield func(Giver, *access.List) bool) {
		for _, t := range r.Trees() {
			tree := scheduling.TreeName(t.GetName())
			for pool, list := range rightsOf(r.trees[tree].pools) {
				if !yield(Giver{tree, pool}, list) {
					return
				}
			}
		}
	}
}

// Giver is a pool, or the root of a tree, that gives rights.
type Giver struct {
	Tree scheduling.TreeName
	Pool scheduling.PoolName
}

// operators allows a command to operators only. The parameter `what` says what the command does.
func operators[M proto.Message](what string) func(Rights, access.Who, M) error {
	return func(_ Rights, who access.Who, _ M) error {
		if who.Operator {
			return nil
		}
		return &access.Denied{User: who.User, What: what}
	}
}

// managers allows a command about an operation to its owner, and to those with the right manage.
func managers[M operations](verb string) func(Rights, access.Who, M) error {
	return func(r Rights, who access.Who, m M) error {
		o := r.operations[scheduling.OperationID(m.GetOperationId())]
		if o == nil {
			return nil
		}
		return r.Operation(who, access.Manage, o.record, verb)
	}
}

// mayStart allows a start to those who may use the pool in each tree. The retry of an operation also
// needs the right to read that operation.
func mayStart(r Rights, who access.Who, m *commandpb.StartOperation) error {
	if o := r.operations[scheduling.OperationID(m.GetRetryOf())]; o != nil {
		if err := r.Operation(who, access.Read, o.record, "retry"); err != nil {
			return err
		}
	}
	spec := m.GetSpec()
	if err := r.mayRunAs(who, spec); err != nil {
		return err
	}
	trees := spec.GetPoolTrees()
	if len(trees) == 0 {
		trees = []string{string(r.defaultTree)}
	}
	for _, tree := range trees {
		pool := spec.GetPool()
		if named := spec.GetOptionsPerTree()[tree].GetFields()[optionPool]; named != nil {
			pool = named.GetStringValue()
		}
		if err := r.mayEnter(who, scheduling.TreeName(tree), pool, scheduling.User(m.GetUser()), spec); err != nil {
			return err
		}
	}
	return nil
}

// mayEnter returns an error unless who may use the pool that an operation of a user enters when it
// names this one.
func (r Rights) mayEnter(who access.Who, tree scheduling.TreeName, named string, user scheduling.User, spec *statepb.OperationSpec) error {
	t := r.trees[tree]
	if t == nil {
		return nil
	}
	pools, pool := t.pools, scheduling.PoolName(named)
	if placed, err := pools.Place(pool, user, spec.Gang(pools.Settings())); err == nil {
		pools, pool = placed.Tree, placed.Pool
	}
	if pools.Gives(access.Use, who, pool) {
		return nil
	}
	return &access.Denied{
		User: who.User, What: fmt.Sprintf("use pool %q", pool), Right: access.Use, Tree: tree, Pool: giver(pools, pool), Holders: pools.Holders(access.Use, pool),
	}
}

// giver returns the pool on which a right is given: the pool itself, or the one above an ephemeral
// pool.
func giver(pools pooltree.Tree, pool scheduling.PoolName) scheduling.PoolName {
	if p, found := pools.Pool(pool); found && p.Ephemeral != "" {
		return p.Parent
	}
	return pool
}

// mayUpdate allows an update to managers. To move an operation, one must also be allowed to use the
// pool that it enters.
func mayUpdate(r Rights, who access.Who, m *commandpb.UpdateOperation) error {
	if err := managers[*commandpb.UpdateOperation]("update")(r, who, m); err != nil {
		return err
	}
	o := r.operations[scheduling.OperationID(m.GetOperationId())]
	if o == nil {
		return nil
	}
	for _, change := range m.GetChanges() {
		for _, in := range o.record.GetTrees() {
			if change.Pool == nil || change.GetTree() != "" && change.GetTree() != in.GetTree() || change.GetPool() == in.GetPool() {
				continue
			}
			err := r.mayEnter(who, scheduling.TreeName(in.GetTree()), change.GetPool(), scheduling.User(o.record.GetUser()), o.record.GetSpec())
			if err != nil {
				return err
			}
		}
	}
	return nil
}
