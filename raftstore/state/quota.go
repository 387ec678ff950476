package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"weir/messages/bounds"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/pooltree"
)

const (
	// operationBytes is what an operation takes besides what its owner gave it: its place in the
	// indices, and what is kept of its progress.
	operationBytes = 2 << 10
	// compactBytes is up to which size the specification of an ended operation is kept whole, and
	// compactText what is kept of a command of a larger one.
	compactBytes = 16 << 10
	compactText  = 512
	// compactEntries is how many files, paths and intervals are kept of each list.
	compactEntries = 10
	// namedHolders is how many of the largest holders a refusal names.
	namedHolders = 3
)

// usage is what operations take, in bytes: all of them, and those that have ended.
type usage struct{ all, ended int64 }

// quotas counts what operations take, in whole and by user. The trees count what those in progress
// take by pool.
type quotas struct {
	whole usage
	users map[scheduling.User]usage
}

func (q *quotas) add(user scheduling.User, delta usage) {
	q.whole = usage{q.whole.all + delta.all, q.whole.ended + delta.ended}
	u := q.users[user]
	if u = (usage{u.all + delta.all, u.ended + delta.ended}); u == (usage{}) {
		delete(q.users, user)
		return
	}
	q.users[user] = u
}

// archive counts an operation as one that has ended.
func (q *quotas) archive(o *operation) { q.add(o.user(), usage{ended: o.weight}) }

// forget counts an ended operation no longer.
func (q *quotas) forget(o *operation) { q.add(o.user(), usage{-o.weight, -o.weight}) }

func (v *version) user() scheduling.User { return scheduling.User(v.record.GetUser()) }

// bytes returns what an operation takes.
func (v *version) bytes() int64 { return operationBytes + v.given + v.history.events + v.history.jobs }

// givenBytes returns what a specification and an input take.
func givenBytes(spec *statepb.OperationSpec, input *statepb.Input) int64 {
	return int64(proto.Size(spec) + proto.Size(input))
}

// weigh brings the counts up to date with what an operation takes. An operation that has ended has
// been counted as such.
func weigh(s *State, o *operation) {
	delta := o.bytes() - o.weight
	if delta == 0 {
		return
	}
	o.weight += delta
	if o.state.Terminal() && o.record.GetFinishTime() != nil {
		s.quotas.add(o.user(), usage{delta, delta})
		return
	}
	s.quotas.add(o.user(), usage{all: delta})
	for _, in := range o.record.GetTrees() {
		if o.state.InProgress() {
			s.trees[scheduling.TreeName(in.GetTree())].count(scheduling.PoolName(in.GetPool()), pooltree.Count{Bytes: delta})
		}
	}
}

// room finds out whether there is room for more operations.
type room struct{ *State }

// CheckBytes returns an error if an operation of a user with this specification has no room. Those
// that have ended make room.
func CheckBytes(s *State, user scheduling.User, spec *statepb.OperationSpec) error {
	if refused := (room{s}).checkUser(user, operationBytes+givenBytes(spec, nil)); refused != nil {
		return refused
	}
	return nil
}

// checkUser refuses an operation that has no room beside those of its user, or beside all.
func (s room) checkUser(user scheduling.User, size int64) *refusal {
	if !s.limits.GetByBytes() {
		return nil
	}
	mine, limit := s.quotas.users[user], s.limits.GetOperationBytesPerUser()
	if taken := mine.all - mine.ended; taken+size > limit {
		return s.full(fmt.Sprintf("operations of user %s", user), limitUserBytes, taken, size, limit,
			s.largest(func(o *operation) bool { return o.user() == user }))
	}
	whole, limit := s.quotas.whole, s.limits.GetOperationBytes()
	if taken := whole.all - whole.ended; taken+size > limit {
		return s.full("operations of all users", limitBytes, taken, size, limit, s.largestUsers())
	}
	return nil
}

// checkBytes refuses an operation that has no room in its pools or beside those of its user.
func (c treeChange) checkBytes(places []place, user scheduling.User, size int64) *refusal {
	for _, p := range places {
		if refused := c.checkPoolBytes("start operation", p, size); refused != nil {
			return refused
		}
	}
	if refused := (room{c.State}).checkUser(user, size); refused != nil {
		return refuse(refused.code, "start operation: %s", refused.message)
	}
	return nil
}

// checkPoolBytes refuses an operation that has no room in its pool of a tree.
func (c treeChange) checkPoolBytes(what string, p place, size int64) *refusal {
	tree, pool := p.tree.record.GetName(), p.record.GetPool()
	limit, taken := c.limits.GetOperationBytesPerPool(), p.tree.immediate[scheduling.PoolName(pool)].Bytes
	if !over(c.limits, taken+size, limit) {
		return nil
	}
	all := room{c.State}
	refused := all.full(fmt.Sprintf("operations of pool %s in tree %s", pool, tree), limitPoolBytes, taken, size, limit,
		all.largest(func(o *operation) bool {
			i := o.treeIndex(scheduling.TreeName(tree))
			return i >= 0 && o.record.GetTrees()[i].GetPool() == pool
		}))
	return refuse(refused.code, "%s: %s", what, refused.message)
}

func (s room) full(whose, name string, taken, size, limit int64, holders string) *refusal {
	return refuse(CodeTooManyBytes, "limit reached: %s take %s of %s (%s), and this one takes %s; abort or wait for %s",
		whose, bounds.Text(taken), bounds.Text(limit), name, bounds.Text(size), cmp.Or(holders, "others, or make it smaller"))
}

// holder is who takes bytes.
type holder struct {
	name  string
	bytes int64
}

// largest names the operations in progress that take most among those that match.
func (s room) largest(matches func(*operation) bool) string {
	var all []holder
	for _, o := range s.order {
		if o.state.InProgress() && matches(o) {
			all = append(all, holder{string(o.id()), o.weight})
		}
	}
	return holdersText(all)
}

// largestUsers names the users whose operations in progress take most.
func (s room) largestUsers() string {
	var all []holder
	for user, u := range s.quotas.users {
		if u.all > u.ended {
			all = append(all, holder{"user " + string(user), u.all - u.ended})
		}
	}
	return holdersText(all)
}

func holdersText(all []holder) string {
	slices.SortFunc(all, func(a, b holder) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name)) })
	var parts []string
	for _, h := range all[:min(len(all), namedHolders)] {
		parts = append(parts, fmt.Sprintf("%s (%s)", h.name, bounds.Text(h.bytes)))
	}
	if more := len(all) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("or one of %d more", more))
	}
	return strings.Join(parts, ", ")
}

// checkForest refuses a change after which a tree takes more bytes than it may, or all trees do.
func (c treeChange) checkForest(what string, t *tree, bytes int64) *refusal {
	if bytes <= t.bytes {
		return nil
	}
	var whole int64
	for _, other := range c.trees {
		whole += other.bytes
	}
	name, adds := t.record.GetName(), bytes-t.bytes
	full := func(whose, limit string, taken, most int64, holders []holder) *refusal {
		return refuse(CodeTooManyBytes, "%s: limit reached: %s take %s of %s (%s), and this change adds %s; remove pools, or shorten their options, such as rights, of %s",
			what, whose, bounds.Text(taken), bounds.Text(most), limit, bounds.Text(adds), cmp.Or(holdersText(holders), "this change"))
	}
	if limit := c.limits.GetPoolBytesPerTree(); over(c.limits, bytes, limit) {
		return full(fmt.Sprintf("pools of tree %s", name), limitTreeBytes, t.bytes, limit, t.subtrees())
	}
	if limit := c.limits.GetPoolBytes(); over(c.limits, whole+adds, limit) {
		var trees []holder
		for other, t := range sorted(c.trees) {
			trees = append(trees, holder{"tree " + string(other), t.bytes})
		}
		return full("pools of all trees", limitForestBytes, whole, limit, trees)
	}
	return nil
}

// subtrees returns what the pools below the root take, each with those below it.
func (t *tree) subtrees() []holder {
	taken := make(map[string]int64)
	for _, p := range t.record.GetPools() {
		path, err := t.pools.Path(scheduling.PoolName(p.GetName()))
		if err != nil {
			continue
		}
		for _, above := range path {
			taken[string(above)] += int64(proto.Size(p))
		}
	}
	var all []holder
	for _, top := range t.pools.Children(scheduling.RootPool) {
		all = append(all, holder{fmt.Sprintf("pool %s with those below it", top), taken[string(top)]})
	}
	return all
}

// jobsBudget returns how many bytes the finished jobs of an operation may take: fewer while the
// operations in progress of its user, or of all, take more than they may. What jobs add to records
// cannot be refused.
func jobsBudget(s *State, o *operation) int64 {
	mine, whole := s.quotas.users[o.user()], s.quotas.whole
	if over(s.limits, mine.all-mine.ended, s.limits.GetOperationBytesPerUser()) || over(s.limits, whole.all-whole.ended, s.limits.GetOperationBytes()) {
		return fewJobsBytes
	}
	return maxJobsBytes
}

// makeRoom compacts, and then drops, the operations of a user, and of all, that ended first, until
// what is left is within the limits. It leaves some room, so that it is not called for with each
// start.
func (c operationChange) makeRoom(user scheduling.User) {
	if over(c.limits, c.quotas.users[user].all, c.limits.GetOperationBytesPerUser()) {
		c.dropEnded(c.limits.GetOperationBytesPerUser(), func() int64 { return c.quotas.users[user].all }, func(o *operation) bool { return o.user() == user })
	}
	if over(c.limits, c.quotas.whole.all, c.limits.GetOperationBytes()) {
		c.dropEnded(c.limits.GetOperationBytes(), func() int64 { return c.quotas.whole.all }, func(*operation) bool { return true })
	}
}

// dropEnded makes room among the ended operations that match.
func (c operationChange) dropEnded(limit int64, taken func() int64, matches func(*operation) bool) {
	enough := limit - limit/8
	for _, id := range c.archive {
		if o := c.operations[scheduling.OperationID(id)]; taken() > enough && matches(o) {
			compact(c.State, o)
		}
	}
	if taken() <= limit {
		return
	}
	left := make([]string, 0, len(c.archive))
	for _, id := range c.archive {
		o := c.operations[scheduling.OperationID(id)]
		if taken() <= enough || !matches(o) {
			left = append(left, id)
			continue
		}
		c.forget(o)
		c.emit(OperationArchived{ID: o.id()})
	}
	// A Frozen may have the former list.
	c.archive = left
}

// compact keeps of a large specification of an ended operation what people read.
func compact(s *State, o *operation) {
	if !s.limits.GetByBytes() || o.record.GetSpecCut() || proto.Size(o.record.GetSpec()) <= compactBytes {
		return
	}
	s.edit(o)
	o.record.Spec, o.record.SpecCut = compactSpec(o.record.GetSpec()), true
	o.given = givenBytes(o.record.GetSpec(), nil)
	weigh(s, o)
}

// compactSpec returns a specification with the beginnings of its commands and lists, and without
// environments.
func compactSpec(spec *statepb.OperationSpec) *statepb.OperationSpec {
	spec = shallow(spec)
	tasks := make([]*statepb.TaskSpec, len(spec.GetTasks()))
	for i, t := range spec.GetTasks() {
		t = shallow(t)
		t.Argv, t.Shell, t.Environment = firstTexts(t.GetArgv()), bounds.Cut(t.GetShell(), compactText), nil
		t.Files, t.Outputs, t.Cookies = first(t.GetFiles()), first(t.GetOutputs()), first(t.GetCookies())
		if t.GetReadiness() != nil {
			t.Readiness = shallow(t.GetReadiness())
			t.Readiness.Exec = firstTexts(t.GetReadiness().GetExec())
		}
		tasks[i] = t
	}
	spec.Tasks = tasks
	if spec.GetMap() != nil {
		spec.Map = shallow(spec.GetMap())
		spec.Map.InputPaths = first(spec.GetMap().GetInputPaths())
	}
	return spec
}

// firstTexts returns the first texts of a command, compactText bytes of them.
func firstTexts(texts []string) (kept []string) {
	left := compactText
	for _, text := range texts {
		if left <= 0 {
			break
		}
		kept = append(kept, bounds.Cut(text, max(left, len("…"))))
		left -= len(text)
	}
	return kept
}

func first[T any](list []T) []T { return list[:min(len(list), compactEntries)] }

// verifyQuotas checks that what operations take is counted.
func (s verifier) verifyQuotas() error {
	var b breach
	counted := quotas{users: make(map[scheduling.User]usage)}
	for _, o := range s.order {
		b.when(o.given != givenBytes(o.record.GetSpec(), o.input) || o.weight != o.bytes(),
			"operation %q takes %d bytes, given %d, but is counted with %d, given %d", o.id(), o.bytes(), givenBytes(o.record.GetSpec(), o.input), o.weight, o.given)
		ended := int64(0)
		if o.state.Terminal() {
			ended = o.weight
		}
		counted.add(o.user(), usage{o.weight, ended})
	}
	b.when(counted.whole != s.quotas.whole, "operations take %+v bytes, counted are %+v", counted.whole, s.quotas.whole)
	for user, u := range counted.users {
		b.when(s.quotas.users[user] != u, "operations of user %q take %+v bytes, counted are %+v", user, u, s.quotas.users[user])
	}
	b.when(len(counted.users) != len(s.quotas.users), "%d users have operations, counted are %d", len(counted.users), len(s.quotas.users))
	return b.err
}
