package state

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// updateOperation changes an operation's options and pools in its trees: all changes, or none.
func (c operationChange) updateOperation(what string, o *operation, m *commandpb.UpdateOperation) *refusal {
	if len(m.GetChanges()) == 0 {
		return refuse(CodeInvalidCommand, "%s: there is nothing to change", what)
	}
	drafts := make([]update, len(o.record.GetTrees()))
	for i, t := range o.record.GetTrees() {
		drafts[i] = update{before: t, options: t.GetOptions().AsMap(), pool: t.GetPool()}
	}
	for _, change := range m.GetChanges() {
		if refused := takeUpdate(what, drafts, change); refused != nil {
			return refused
		}
	}
	places := make([]place, len(drafts))
	for i := range drafts {
		var refused *refusal
		if places[i], refused = c.placeUpdate(what, o, &drafts[i]); refused != nil {
			return refused
		}
	}
	before := o.record.GetTrees()
	for i, p := range places {
		if p.record.GetPool() == before[i].GetPool() {
			continue
		}
		if refused := c.checkPoolBytes(what, p, o.weight); refused != nil {
			return refused
		}
		if refused := c.checkStores(what, o.record.GetSpec(), []place{p}); refused != nil {
			return refused
		}
	}
	if refused := c.checkPlaces(what, o, places); refused != nil {
		return refused
	}
	c.edit(o)
	o.record.Trees = c.takePlaces(places)
	o.record.PendingReason = pendingText(o.record)
	c.count(o, before, o.state, o.state)
	c.note(o, NoteUpdated, updateAttributes(m))
	c.emit(OperationChanged{ID: o.id(), From: o.state, To: o.state, Suspended: o.record.GetSuspended()})
	c.result.Value = &commandpb.Result_UpdateOperation{UpdateOperation: &commandpb.UpdateOperationResult{Warnings: c.Bounded(o.record)}}
	return nil
}

// update holds the options and the pool of an operation in one tree while they are changed.
type update struct {
	before  *statepb.OperationTree
	options map[string]any
	pool    string
	// moved is set if the update names a pool, even if that is the current pool.
	moved bool
}

// takeUpdate applies one change to the drafts of the trees that the change names, or of all trees
// if it names none.
func takeUpdate(what string, drafts []update, m *commandpb.OperationChange) *refusal {
	if m.Pool == nil && len(m.GetOptions().GetValues()) == 0 {
		return refuse(CodeInvalidCommand, "%s: a change sets neither a pool nor an option", what)
	}
	found := false
	for i := range drafts {
		d := &drafts[i]
		if m.GetTree() != "" && m.GetTree() != d.before.GetTree() {
			continue
		}
		found = true
		if m.Pool != nil {
			d.pool, d.moved = m.GetPool(), true
		}
		for path, value := range sorted(m.GetOptions().GetValues()) {
			if err := option.Put(d.options, pooltree.OperationOptions{}, path, value.AsInterface()); err != nil {
				return refuse(CodeInvalidSpec, "%s: tree %q: %v", what, d.before.GetTree(), err)
			}
		}
	}
	if !found {
		return refuse(CodeUnknownTree, "%s: the operation is not in tree %q", what, m.GetTree())
	}
	return nil
}

// placeUpdate finds the place of an operation in a tree after an update.
func (c operationChange) placeUpdate(what string, o *operation, d *update) (place, *refusal) {
	t := c.trees[scheduling.TreeName(d.before.GetTree())]
	options, err := pooltree.ReadOperationOptions(d.options)
	if err != nil {
		return place{}, refuse(CodeInvalidSpec, "%s: tree %q: %v", what, d.before.GetTree(), err)
	}
	next := shallow(d.before)
	next.Options = document(options)
	p := place{tree: t, pools: t.pools, record: next}
	was := scheduling.PoolName(d.before.GetPool())
	if !d.moved || d.pool == d.before.GetPool() && !makesSubpools(t.pools, was) {
		return p, nil
	}
	if refused := c.enter(&p, what, t.left(was), d.pool, o.record.GetSpec(), scheduling.User(o.record.GetUser())); refused != nil {
		return place{}, refused
	}
	if next.GetPool() == d.before.GetPool() {
		return p, nil
	}
	next.PendingReason = ""
	if o.state.CountsAsRunning() && next.GetAdmitted() {
		if t.countOf(o, d.before, o.state).Running == 0 {
			was = ""
		}
		if refused := admitRun(what, p.pools, was, t.total, o.record.GetSpec(), next); refused != nil {
			return place{}, refused
		}
	}
	return p, nil
}

// makesSubpools reports whether operations that name the pool run in an ephemeral pool below it.
func makesSubpools(pools pooltree.Tree, name scheduling.PoolName) bool {
	p, _ := pools.Pool(name)
	return p.Options.CreateEphemeralSubpools != nil && *p.Options.CreateEphemeralSubpools
}

// left returns the tree's pools after one operation has left a pool. If the pool is ephemeral and
// the operation was its last one, the result lacks the pool.
func (t *tree) left(pool scheduling.PoolName) pooltree.Tree {
	p, _ := t.pools.Pool(pool)
	if p.Ephemeral == "" || t.total[pool].Operations > 1 {
		return t.pools
	}
	pools, err := t.pools.Remove(pool, 0)
	if err != nil {
		// The pool has got a child, so it stays.
		return t.pools
	}
	return pools
}

// updateAttributes returns the attributes for an update's event: the user and the new values.
func updateAttributes(m *commandpb.UpdateOperation) map[string]string {
	attributes := map[string]string{"user": m.GetUser()}
	for _, change := range m.GetChanges() {
		prefix := ""
		if change.GetTree() != "" {
			prefix = change.GetTree() + "/"
		}
		if change.Pool != nil {
			attributes[prefix+optionPool] = change.GetPool()
		}
		for path, value := range change.GetOptions().GetValues() {
			attributes[prefix+path] = valueText(value)
		}
	}
	return attributes
}

// maxValueBytes bounds a value in an event.
const maxValueBytes = 200

func valueText(v *structpb.Value) string {
	text, err := json.Marshal(v.AsInterface())
	switch {
	case err != nil:
		return "?"
	case len(text) > maxValueBytes:
		return strings.ToValidUTF8(string(text[:maxValueBytes]), "") + "…"
	}
	return string(text)
}
