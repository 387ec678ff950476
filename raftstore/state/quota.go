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
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

const (
	// operationBytes is what an operation takes besides what its owner gave it, and what is kept of its
	// progress: its place in the indices, and what is alike in all records.
	operationBytes = 2 << 10
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

// bytes returns what an operation takes: at least what its record and those of its jobs take in a
// snapshot, where progress is counted.
func (o *operation) bytes(l *statepb.Limits) int64 {
	size := operationBytes + o.given + o.history.events + o.history.jobs
	if l.GetByProgress() {
		size += o.history.rest + o.progress.tasks + o.progress.head + o.live
	}
	return size
}

// startBytes returns what an operation of a specification takes when it starts.
func startBytes(l *statepb.Limits, spec *statepb.OperationSpec) int64 {
	size := operationBytes + givenBytes(spec, nil)
	if l.GetByProgress() {
		size += plannedBytes(spec) + placesBytes(spec)
	}
	return size
}

// placesBytes returns what an operation of a specification takes in its trees.
func placesBytes(spec *statepb.OperationSpec) int64 {
	size := max(1, len(spec.GetPoolTrees())) * (placeBytes + len(spec.GetPool()) + proto.Size(spec.GetOptions()))
	for _, own := range spec.GetOptionsPerTree() {
		size += proto.Size(own)
	}
	return int64(size)
}

// givenBytes returns what a specification and an input take.
func givenBytes(spec *statepb.OperationSpec, input *statepb.Input) int64 {
	return int64(proto.Size(spec) + proto.Size(input))
}

// weigh brings the counts up to date with what an operation takes. An operation that has ended has
// been counted as such.
func weigh(s *State, o *operation) {
	delta := o.bytes(s.limits) - o.weight
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

// settleBytes weighs the operations that the command has changed. Where their jobs have made the
// records grow, operations that have ended make room.
func settleBytes(c *change) {
	for o, head := range c.edited {
		if c.operations[o.id()] == o {
			if head {
				o.measureHead()
			}
			weigh(c.State, o)
		}
	}
	if !c.limits.GetByProgress() {
		return
	}
	grown := make(map[scheduling.User]bool)
	for o := range c.kept {
		grown[o.user()] = true
	}
	for user := range sorted(grown) {
		operationChange{treeChange{c}}.makeRoom(user)
	}
}

// room finds out whether there is room for more operations.
type room struct{ *State }

// CheckBytes returns an error if an operation of a user with this specification has no room. Those
// that have ended make room.
func CheckBytes(s *State, user scheduling.User, spec *statepb.OperationSpec) error {
	if refused := (room{s}).checkUser(user, startBytes(s.limits, spec)); refused != nil {
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

// checkGrowth refuses that an operation in progress takes more bytes for which there is no room in
// its pools or beside those of its user, where progress is counted.
func (c treeChange) checkGrowth(what string, o *operation, more int64) *refusal {
	if !c.limits.GetByProgress() || more <= 0 {
		return nil
	}
	for _, in := range o.record.GetTrees() {
		p := place{tree: c.trees[scheduling.TreeName(in.GetTree())], record: in}
		if refused := c.checkPoolBytes(what, p, more); refused != nil {
			return refused
		}
	}
	if refused := (room{c.State}).checkUser(o.user(), more); refused != nil {
		return refuse(refused.code, "%s: %s", what, refused.message)
	}
	return nil
}

// checkPlaces refuses places of an operation whose options have no room.
func (c treeChange) checkPlaces(what string, o *operation, places []place) *refusal {
	var more int64
	for i, p := range places {
		more += int64(proto.Size(p.record.GetOptions()) - proto.Size(o.record.GetTrees()[i].GetOptions()))
	}
	return c.checkGrowth(what, o, more)
}

// lacksRoom is the error of an operation that fails because its input, or its jobs, have no room.
func lacksRoom(what string, refused *refusal) *statepb.Error {
	return &statepb.Error{Code: int32(lifecycle.CodeFailedToPrepare), Message: fmt.Sprintf("no room for the operation's %s: %s", what, refused.message)}
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

// crowded reports whether the operations in progress of an operation's user, or of all, take more
// than they may. What jobs add to records cannot be refused, so less of it is kept.
func crowded(s *State, o *operation) bool {
	mine, whole := s.quotas.users[o.user()], s.quotas.whole
	return over(s.limits, mine.all-mine.ended, s.limits.GetOperationBytesPerUser()) || over(s.limits, whole.all-whole.ended, s.limits.GetOperationBytes())
}

// grows reports whether what ends of jobs teach about an operation may be added to its record.
func grows(s *State, o *operation) bool { return !s.limits.GetByProgress() || !crowded(s, o) }

// jobsBudget returns how many bytes the finished jobs of an operation may take.
func jobsBudget(s *State, o *operation) int64 {
	switch {
	case !crowded(s, o):
		return maxJobsBytes
	case s.limits.GetByProgress():
		return fewestJobsBytes
	}
	return fewJobsBytes
}

// eventsBudget returns how many bytes the events of an operation may take.
func eventsBudget(s *State, o *operation) int64 {
	if grows(s, o) {
		return maxEventsBytes
	}
	return fewEventsBytes
}

// makeRoom compacts, and then drops, the operations of a user, and of all, that ended first, until
// what is left is within the limits. It leaves some room, so that it is not called for with each
// start.
func (c operationChange) makeRoom(user scheduling.User) {
	if c.quotas.users[user].ended > 0 && over(c.limits, c.quotas.users[user].all, c.limits.GetOperationBytesPerUser()) {
		c.dropEnded(c.limits.GetOperationBytesPerUser(), func() int64 { return c.quotas.users[user].all }, func(o *operation) bool { return o.user() == user })
	}
	if c.quotas.whole.ended > 0 && over(c.limits, c.quotas.whole.all, c.limits.GetOperationBytes()) {
		c.dropEnded(c.limits.GetOperationBytes(), func() int64 { return c.quotas.whole.all }, func(*operation) bool { return true })
	}
}

// dropEnded makes room among the ended operations that match.
func (c operationChange) dropEnded(limit int64, taken func() int64, matches func(*operation) bool) {
	enough := limit - limit/8
	for _, id := range c.archive {
		if o := c.operations[scheduling.OperationID(id)]; taken() > enough && matches(o) {
			shelved := o.shelved != nil
			compact(c.State, o)
			if shelved {
				putBack(c.State, o)
			}
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
		if o.shelved != nil {
			c.shelves.due += o.weight
		}
		c.forget(o)
		c.emit(OperationArchived{ID: o.id()})
	}
	// A Frozen may have the former list.
	c.archive = left
}
