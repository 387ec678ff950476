package state

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/scheduling"
	"weir/scheduling/cookies"
	"weir/scheduling/lifecycle"
)

// Restorer builds a State from the records of another State, in the order in which Frozen.Records
// yields them. It keeps the records, so they must not be changed afterwards.
type Restorer struct {
	state    *State
	header   bool
	archived bool
}

// NewRestorer returns a Restorer without records.
func NewRestorer() *Restorer {
	r := &Restorer{state: empty()}
	// Restored versions have generation 0, so that they are copied before they change.
	r.state.generation = 1
	return r
}

// UseShelf has the state keep the records of ended operations on a shelf: those that are added, and of those that end
// later all but the latest `most`.
func (r *Restorer) UseShelf(shelf Shelf, most int) { UseShelf(r.state, shelf, most) }

// Add adds one record. It returns an error if the record is invalid or contradicts earlier ones.
// After an error the Restorer is unusable.
func (r *Restorer) Add(record *statepb.Record) error {
	if err := r.add(record); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

func (r *Restorer) add(record *statepb.Record) error {
	if _, isHeader := record.GetRecord().(*statepb.Record_Header); isHeader == r.header {
		return errors.New("there must be exactly one header, as the first record")
	}
	switch m := record.GetRecord().(type) {
	case *statepb.Record_Header:
		return r.addHeader(m.Header)
	case *statepb.Record_Tree:
		return r.addTree(m.Tree)
	case *statepb.Record_Node:
		return add(r.state.nodes, "node", scheduling.NodeID(m.Node.GetId()), newNode(m.Node))
	case *statepb.Record_Group:
		return add(r.state.groups, "group", m.Group.GetName(), m.Group)
	case *statepb.Record_Revocation:
		return add(r.state.revocations, "revocation", revocationKey(m.Revocation), m.Revocation)
	case *statepb.Record_Accounts:
		return add(r.state.accounts, "accounts of subject", m.Accounts.GetSubject(), m.Accounts)
	case *statepb.Record_NodeGrant:
		return add(r.state.nodeGrants, "grant of nodes", m.NodeGrant.GetPattern(), m.NodeGrant)
	case *statepb.Record_Store:
		return add(r.state.stores, "store", m.Store.GetName(), m.Store)
	case *statepb.Record_Operation:
		return r.addOperation(m.Operation)
	case *statepb.Record_Allocation:
		return r.addAllocation(m.Allocation)
	case *statepb.Record_Profile:
		r.state.profileBytes += int64(proto.Size(m.Profile))
		return add(r.state.profiles, "memory profile", m.Profile.GetKey(), m.Profile)
	case *statepb.Record_Claim:
		return r.addClaim(m.Claim)
	case *statepb.Record_Rate:
		return r.addRate(m.Rate)
	case *statepb.Record_Archive:
		return r.addArchive(m.Archive)
	}
	return fmt.Errorf("record of unknown kind %T", record.GetRecord())
}

// add adds a value under a key that must be new.
func add[K ~string, V any](to map[K]*V, kind string, key K, value *V) error {
	if to[key] != nil {
		return fmt.Errorf("%s %q comes twice", kind, key)
	}
	to[key] = value
	return nil
}

// State returns the state, once all records are added. State.Verify checks it as a whole.
func (r *Restorer) State() (*State, error) {
	switch {
	case !r.header:
		return nil, errors.New("restore: no header")
	case !r.archived:
		return nil, errors.New("restore: the archive record is missing: the data end too early")
	case r.state.trees[r.state.defaultTree] == nil:
		return nil, fmt.Errorf("restore: the default pool tree %q is missing", r.state.defaultTree)
	}
	for _, o := range r.state.order {
		if !o.state.InProgress() {
			continue
		}
		if err := r.countOperation(o); err != nil {
			return nil, fmt.Errorf("restore: operation %q: %w", o.id(), err)
		}
	}
	for _, o := range r.state.order {
		weigh(r.state, o)
	}
	for _, id := range r.state.archive {
		// One that is missing is found below.
		if o := r.state.operations[scheduling.OperationID(id)]; o != nil {
			o.ended = r.state.ends()
		}
	}
	for _, n := range sorted(r.state.nodes) {
		n.resize()
		r.state.byName = append(r.state.byName, n)
	}
	restoreClaimants(r.state)
	for o, why := range RightsIn(r.state).deniedNow() {
		o.denied = why
	}
	remember(r.state)
	// What is on a shelf has been verified before it came there.
	if err := (verifier{State: r.state}).verify(); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return r.state, nil
}

// countOperation adds an operation in progress to the counts of its trees.
func (r *Restorer) countOperation(o *operation) error {
	for _, in := range o.record.GetTrees() {
		t := r.state.trees[scheduling.TreeName(in.GetTree())]
		switch {
		case t == nil:
			return fmt.Errorf("pool tree %q is missing", in.GetTree())
		case !t.pools.Has(scheduling.PoolName(in.GetPool())):
			return fmt.Errorf("tree %q: pool %q is missing", in.GetTree(), in.GetPool())
		}
		t.count(scheduling.PoolName(in.GetPool()), t.countOf(o, in, o.state))
	}
	r.state.inProgress = append(r.state.inProgress, o)
	return nil
}

func (r *Restorer) addHeader(h *statepb.SnapshotHeader) error {
	version := max(h.GetVersion(), versions.Oldest)
	if err := versions.Program.Check(version); err != nil {
		return err
	}
	if h.GetFormat() != Format(version) {
		return fmt.Errorf("format %d, but cluster version %d has only format %d", h.GetFormat(), version, Format(version))
	}
	limits, refused := completeLimits(h.GetLimits())
	if refused != nil {
		return fmt.Errorf("header: %w", refused)
	}
	s := r.state
	if h.GetPace() != nil && !validPace(h.GetPace()) {
		return fmt.Errorf("header: heartbeat period of %d ms, lease of %d ms", h.GetPace().GetHeartbeatMillis(), h.GetPace().GetLeaseMillis())
	}
	s.lastIndex, s.clusterID, s.limits, s.version, s.pace = h.GetIndex(), h.GetClusterId(), limits, version, h.GetPace()
	s.defaultTree, s.lastPool = scheduling.TreeName(h.GetDefaultTree()), scheduling.PoolID(h.GetLastPoolId())
	if h.GetTerm() != nil {
		s.term = h.GetTerm()
	}
	if h.GetLastTime() != nil {
		if err := h.GetLastTime().CheckValid(); err != nil {
			return fmt.Errorf("header: last time: %w", err)
		}
		s.lastTime = h.GetLastTime().AsTime()
	}
	r.header = true
	return nil
}

func (r *Restorer) addTree(record *statepb.PoolTree) error {
	for _, p := range record.GetPools() {
		delete(p.GetOptions().GetFields(), formerPoolOption)
	}
	pools, err := readTree(record)
	if err != nil {
		return fmt.Errorf("pool tree %q: %w", record.GetName(), err)
	}
	return add(r.state.trees, "pool tree", scheduling.TreeName(record.GetName()), restoredTree(record, pools))
}

func (r *Restorer) addOperation(record *statepb.Operation) error {
	id := scheduling.OperationID(record.GetId())
	if r.state.operations[id] != nil {
		return fmt.Errorf("operation %q comes twice", id)
	}
	state, err := lifecycle.ParseState(record.GetState())
	if err != nil {
		return fmt.Errorf("operation %q: %w", id, err)
	}
	v, err := restoredVersion(record, state)
	if err != nil {
		return fmt.Errorf("operation %q: %w", id, err)
	}
	o := r.state.insert(v)
	if r.state.shelves.shelf == nil || !state.Terminal() {
		return nil
	}
	o.weight = o.bytes(r.state.limits)
	if err := (verifier{State: r.state}).verifyAlone(o); err != nil {
		return fmt.Errorf("operation %q: %w", id, err)
	}
	o.weight = 0
	shelve(r.state, o)
	return nil
}

// restoredVersion separates the input and the work of tasks from a record.
func restoredVersion(record *statepb.Operation, state lifecycle.State) (*version, error) {
	v := &version{state: state, record: shallow(record), input: record.GetInput()}
	v.record.Input, v.history, v.given = nil, historyOf(record), givenBytes(record.GetSpec(), record.GetInput())
	if len(record.GetTasks()) == 0 {
		v.measure()
		return v, nil
	}
	if len(record.GetTasks()) != len(record.GetSpec().GetTasks()) {
		return nil, fmt.Errorf("it has %d tasks, but its specification has %d", len(record.GetTasks()), len(record.GetSpec().GetTasks()))
	}
	v.record.Tasks = slices.Clone(record.GetTasks())
	v.tasks = make([]work, len(record.GetTasks()))
	v.taskIndex = make(map[scheduling.TaskName]int, len(record.GetTasks()))
	for i, t := range record.GetTasks() {
		var err error
		if v.tasks[i], v.record.Tasks[i], err = restoredWork(t); err != nil {
			return nil, fmt.Errorf("task %q: %w", t.GetName(), err)
		}
		v.taskIndex[scheduling.TaskName(t.GetName())] = i
	}
	v.measure()
	return v, nil
}

// restoredWork separates the work of a task from its record.
func restoredWork(record *statepb.Task) (w work, without *statepb.Task, err error) {
	if record.GetCounters() == nil || record.GetTotals() == nil {
		return work{}, nil, errors.New("it has no counters or no totals")
	}
	var pending cookies.IntervalSet
	for _, part := range []struct {
		name    string
		records []*statepb.Interval
		set     *cookies.IntervalSet
	}{
		{"pending", record.GetPending(), &pending}, {"completed", record.GetCompleted(), &w.completed},
		{"given up", record.GetGivenUp(), &w.givenUp}, {"failed", record.GetFailed(), &w.failed},
	} {
		if *part.set, err = restoredSet(part.records); err != nil {
			return work{}, nil, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	// Reserves are added in the order of cookies. In another order, each addition would shift a
	// large part of the set.
	for cookie := range sorted(record.GetReserves()) {
		if c := scheduling.Cookie(cookie); pending.Remove(c) {
			w.pending.add(groupOf(record, c), c)
		}
	}
	w.pending.learned = pending
	if w.gang, err = restoredGang(record.GetGang()); err != nil {
		return work{}, nil, fmt.Errorf("gang: %w", err)
	}
	if w.slices, err = restoredSlices(record); err != nil {
		return work{}, nil, err
	}
	w.parts, w.statistics = record.GetParts(), restoredStatistics(record.GetStatistics())
	without = shallow(record)
	without.Pending, without.Completed, without.GivenUp, without.Failed = nil, nil, nil, nil
	without.Slices, without.Parts, without.Statistics = nil, nil, nil
	w.read = w.readBytes(record)
	return w, without, nil
}

// restoredGang returns a gang without jobs. The jobs are counted as their allocations are added.
func restoredGang(record *statepb.Gang) (gang, error) {
	completed, err := restoredSet(record.GetCompleted())
	if err != nil || record == nil {
		return gang{}, err
	}
	g := gang{size: record.GetSize()}
	g.begin()
	g.completed = completed
	for rank := range completed.All() {
		if !g.free.Remove(rank) {
			return gang{}, fmt.Errorf("completed rank %d is not in a gang of %d", rank, g.size)
		}
	}
	return g, nil
}

// restoredSlices returns the input of each cookie of a task; nil if its operation has ended.
func restoredSlices(record *statepb.Task) ([]*statepb.Slices, error) {
	if len(record.GetSlices()) == 0 && len(record.GetParts()) == 0 {
		return nil, nil
	}
	total := record.GetCounters().GetTotal()
	if total < int64(len(record.GetSlices())) || total > int64(len(record.GetSlices())+len(record.GetParts())) {
		return nil, fmt.Errorf("%d cookies, but %d have input to read and %d have completed", total, len(record.GetSlices()), len(record.GetParts()))
	}
	all := make([]*statepb.Slices, total)
	for cookie, s := range record.GetSlices() {
		if cookie < 0 || int64(cookie) >= total {
			return nil, fmt.Errorf("cookie %d of %d is out of range, but reads %s", cookie, total, slicesText(s.GetSlices()))
		}
		all[cookie] = s
	}
	return all, nil
}

func restoredSet(records []*statepb.Interval) (cookies.IntervalSet, error) {
	intervals := make([]cookies.Interval, len(records))
	for i, r := range records {
		intervals[i] = cookies.Interval{Begin: scheduling.Cookie(r.GetBegin()), End: scheduling.Cookie(r.GetEnd())}
	}
	return cookies.FromIntervals(intervals)
}

func (r *Restorer) addAllocation(a *statepb.Allocation) error {
	job := scheduling.JobID(a.GetJobId())
	n := r.state.nodes[scheduling.NodeID(a.GetNode())]
	o := r.state.operations[scheduling.OperationID(a.GetOperationId())]
	switch {
	case n == nil:
		return fmt.Errorf("allocation %q: node %q is missing", job, a.GetNode())
	case o == nil:
		return fmt.Errorf("allocation %q: operation %q is missing", job, a.GetOperationId())
	}
	if _, twice := r.state.allocations.of(job); twice {
		return fmt.Errorf("allocation %q comes twice", job)
	}
	r.state.allocations.put(a)
	o.allocate(a)
	n.hold(a)
	if i, found := o.taskIndex[scheduling.TaskName(a.GetTask())]; found && o.tasks[i].gang.exists() {
		o.tasks[i].gang.hold(a, o.record.GetTasks()[i].GetGang().GetIncarnation())
	}
	return nil
}

func (r *Restorer) addArchive(archive *statepb.Archive) error {
	if r.archived {
		return errors.New("the archive comes twice")
	}
	r.archived = true
	r.state.archive = archive.GetOperationIds()
	return nil
}
