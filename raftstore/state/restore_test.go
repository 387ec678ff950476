package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// findRecord returns the first record of a kind that want accepts.
func findRecord[T any](records []*statepb.Record, of func(*statepb.Record) T, want func(T) bool) T {
	for _, r := range records {
		if v := of(r); want(v) {
			return v
		}
	}
	panic("no such record")
}

func operationRecord(records []*statepb.Record, id string) *statepb.Operation {
	return findRecord(records, (*statepb.Record).GetOperation, func(o *statepb.Operation) bool { return o.GetId() == id })
}

func allocationRecord(records []*statepb.Record, job string) *statepb.Allocation {
	return findRecord(records, (*statepb.Record).GetAllocation, func(a *statepb.Allocation) bool { return a.GetJobId() == job })
}

func nodeRecord(records []*statepb.Record, id string) *statepb.Node {
	return findRecord(records, (*statepb.Record).GetNode, func(n *statepb.Node) bool { return n.GetId() == id })
}

func treeRecord(records []*statepb.Record) *statepb.PoolTree {
	return findRecord(records, (*statepb.Record).GetTree, func(t *statepb.PoolTree) bool { return t != nil })
}

func archiveRecord(records []*statepb.Record) *statepb.Archive {
	return findRecord(records, (*statepb.Record).GetArchive, func(a *statepb.Archive) bool { return a != nil })
}

type records = []*statepb.Record

// spoiled is a snapshot with one thing wrong.
type spoiled struct {
	spoil func(records) records
	want  string
}

// refuseSpoiled spoils the records of a snapshot in one place and
// expects to be told about it.
func refuseSpoiled(t *testing.T, cases map[string]spoiled) {
	t.Helper()
	frozen := busy(t).state.Freeze()
	for story, test := range cases {
		t.Run(story, func(t *testing.T) {
			_, err := restore(test.spoil(recordsOf(t, frozen)))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want it to say %q", err, test.want)
			}
		})
	}
}

// TestSnapshotsThatAreIncomplete spoils the order of the records, their header and their archive.
func TestSnapshotsThatAreIncomplete(t *testing.T) {
	refuseSpoiled(t, map[string]spoiled{
		"none":            {func(records) records { return nil }, "no header"},
		"no header":       {func(r records) records { return r[1:] }, "there must be exactly one header, as the first record"},
		"two headers":     {func(r records) records { return append(r[:1:1], r...) }, "there must be exactly one header, as the first record"},
		"another format":  {func(r records) records { r[0].GetHeader().Format = 3; return r }, "format 3, but cluster version 1 has only format 2"},
		"another version": {func(r records) records { r[0].GetHeader().Version = 7; return r }, "it needs cluster version 7"},
		"no archive":      {func(r records) records { return r[:len(r)-1] }, "the data end too early"},
		"two archives":    {func(r records) records { return append(r, r[len(r)-1]) }, "the archive comes twice"},
		"no tree":         {func(r records) records { return slices.Delete(r, 1, 2) }, `restore: the default pool tree "default" is missing`},
		"an empty record": {func(r records) records { return append(r, &statepb.Record{}) }, "unknown kind"},
		"a footer": {func(r records) records {
			return append(r, &statepb.Record{Record: &statepb.Record_Footer{Footer: &statepb.SnapshotFooter{}}})
		}, "unknown kind"},
		"limits below nothing": {func(r records) records { r[0].GetHeader().Limits.Operations = -1; return r }, "limit operations is -1"},
		"a time that is none":  {func(r records) records { r[0].GetHeader().LastTime.Nanos = -1; return r }, "last time"},
		"a tree twice":         {func(r records) records { return slices.Insert(r, 2, r[1]) }, `pool tree "default" comes twice`},
		"a node twice":         {func(r records) records { return slices.Insert(r, 3, r[2]) }, `node "n1" comes twice`},
		"every record twice": {func(r records) records {
			return append(r[:len(r)-1:len(r)-1], r[len(r)-2], r[len(r)-1])
		}, "comes twice"},
		"an operation twice": {func(r records) records {
			o := operationRecord(r, "ann")
			return append(r, &statepb.Record{Record: &statepb.Record_Operation{Operation: o}})
		}, `operation "ann" comes twice`},
		"out of order":                     {func(r records) records { operationRecord(r, "new").AcceptedIndex = 1e6; return r }, "not in order of acceptance"},
		"an archive without its operation": {func(r records) records { archiveRecord(r).OperationIds = []string{"gone"}; return r }, `archive: operation "gone"`},
		"an archive that is too short":     {func(r records) records { archiveRecord(r).OperationIds = nil; return r }, "archive holds 0 operations; 1 have ended"},
		"too many finished jobs": {func(r records) records {
			o := operationRecord(r, "done")
			for range 200 {
				o.FinishedJobs = append(o.FinishedJobs, o.FinishedJobs[0])
			}
			return r
		}, "201 finished jobs are kept, the limit is 200"},
	})
}

// TestTreesThatAreWrong spoils pool trees, and what refers to them.
func TestTreesThatAreWrong(t *testing.T) {
	refuseSpoiled(t, map[string]spoiled{
		"a default tree that is none": {func(r records) records { r[0].GetHeader().DefaultTree = "gpu"; return r }, `pool tree "gpu" is missing`},
		"an operation of a tree that is none": {func(r records) records { operationRecord(r, "ann").Trees[0].Tree = "gpu"; return r },
			`operation "ann": pool tree "gpu" is missing`},
		"an option that is none": {func(r records) records {
			treeRecord(r).Pools[1].Options = optionsOf(map[string]any{"colour": "red"})
			return r
		}, "colour: unknown option"},
		"a pool below nothing": {func(r records) records { treeRecord(r).Pools[0].Parent = "gone"; return r }, `parent "gone"`},
		"pools out of order":   {func(r records) records { slices.Reverse(treeRecord(r).Pools); return r }, "differs from the recorded one"},
		"a pool of operations is missing": {func(r records) records {
			tree := treeRecord(r)
			tree.Pools = slices.DeleteFunc(tree.Pools, func(p *statepb.Pool) bool { return p.GetName() == "small" })
			return r
		}, `operation "ann": tree "default": pool "small" is missing`},
	})
}

// TestOperationsThatAreWrong spoils the state and the names of operations.
func TestOperationsThatAreWrong(t *testing.T) {
	refuseSpoiled(t, map[string]spoiled{
		"a state that is none":  {func(r records) records { operationRecord(r, "ann").State = "resting"; return r }, `unknown operation state "resting"`},
		"no state":              {func(r records) records { operationRecord(r, "ann").State = "none"; return r }, "operations in progress, but listed"},
		"no events":             {func(r records) records { operationRecord(r, "ann").Events = nil; return r }, "0 events"},
		"an end without a time": {func(r records) records { operationRecord(r, "done").FinishTime = nil; return r }, "completed with finish time"},
		"a suspended end":       {func(r records) records { operationRecord(r, "done").Suspended = true; return r }, "suspended, but completed"},
		"running without tasks": {func(r records) records { operationRecord(r, "held").Tasks = nil; return r }, "running without tasks"},
		"jobs before it runs":   {func(r records) records { operationRecord(r, "ann").State = "pending"; return r }, "pending with 2 allocations"},
		"an alias twice": {func(r records) records { operationRecord(r, "held").Spec.Alias = "*ann"; return r },
			`operation "ann" in progress has its alias "*ann"`},
		"a mutation id twice": {func(r records) records {
			for _, id := range []string{"new", "ann"} {
				operationRecord(r, id).User, operationRecord(r, id).MutationId = "ann", "m"
			}
			return r
		}, `has its mutation id "m"`},
	})
}

// TestTasksThatAreWrong spoils tasks, their counters and their cookies.
func TestTasksThatAreWrong(t *testing.T) {
	refuseSpoiled(t, map[string]spoiled{
		"a task too few":   {func(r records) records { operationRecord(r, "ann").Spec.Tasks = nil; return r }, "it has 1 tasks, but its specification has 0"},
		"another task":     {func(r records) records { operationRecord(r, "held").Tasks[0].Name = "u"; return r }, `task "u": not at its place`},
		"no counters":      {func(r records) records { operationRecord(r, "ann").Tasks[0].Counters = nil; return r }, "no counters"},
		"a count too high": {func(r records) records { operationRecord(r, "ann").Tasks[0].Counters.Pending++; return r }, "total is not pending + running + completed"},
		"counts exchanged": {func(r records) records {
			c := operationRecord(r, "ann").Tasks[0].Counters
			c.Pending, c.Completed = 0, 2
			return r
		}, "2 pending, 2 running, 0 completed, 0 given up cookies, but counted as"},
		"failed jobs that no task has": {func(r records) records { operationRecord(r, "ann").FailedJobCount = 3; return r }, "3 failed jobs, but the tasks count 0"},
		"aborted for no reason":        {func(r records) records { operationRecord(r, "ann").Tasks[0].Counters.Aborted = 1; return r }, "1 aborted attempts, but 0 by reason"},
		"attempts of what is done": {func(r records) records {
			operationRecord(r, "done").Tasks[0].Attempts = map[int32]int32{0: 1}
			return r
		}, "attempts of cookie 0"},
		"a cookie too few": {func(r records) records { operationRecord(r, "ann").Tasks[0].Pending[0].Begin++; return r }, "cookies"},
		"intervals out of order": {func(r records) records {
			operationRecord(r, "ann").Tasks[0].Pending = []*statepb.Interval{{Begin: 3, End: 4}, {Begin: 2, End: 3}}
			return r
		}, "cookie interval 1 [2, 3)"},
		"completed intervals that are none": {func(r records) records {
			operationRecord(r, "ann").Tasks[0].Completed = []*statepb.Interval{{Begin: 3, End: 3}}
			return r
		}, "completed: cookie interval 0"},
		"a cookie in two places": {func(r records) records {
			operationRecord(r, "ann").Tasks[0].Completed = []*statepb.Interval{{Begin: 2, End: 3}}
			return r
		}, "in more than one of the sets pending, running, completed and given up"},
	})
}

// TestAllocationsThatAreWrong spoils allocations and the node that they are on.
func TestAllocationsThatAreWrong(t *testing.T) {
	refuseSpoiled(t, map[string]spoiled{
		"a cookie that runs twice":      {func(r records) records { allocationRecord(r, "ann-1").Cookie = 0; return r }, "cookie 0 of task \"t\" runs twice"},
		"an allocation of no task":      {func(r records) records { allocationRecord(r, "ann-1").Task = "u"; return r }, `task "u" is missing`},
		"an allocation of no operation": {func(r records) records { allocationRecord(r, "ann-1").OperationId = "gone"; return r }, `operation "gone" is missing`},
		"an allocation on no node":      {func(r records) records { allocationRecord(r, "ann-1").Node = "gone"; return r }, `node "gone" is missing`},
		"an allocation of a later life": {func(r records) records { allocationRecord(r, "ann-1").NodeIncarnation = 2; return r }, "granted to incarnation 2"},
		"an allocation of the future":   {func(r records) records { allocationRecord(r, "ann-1").GrantIndex = 1e6; return r }, "in the future"},
		"a node in no state":            {func(r records) records { nodeRecord(r, "n1").State = "asleep"; return r }, `state "asleep"`},
	})
}

// TestVerifySeesWhatARestoreCannot spoils what is not in the records.
func TestVerifySeesWhatARestoreCannot(t *testing.T) {
	tests := map[string]struct {
		spoil func(*State)
		want  string
	}{
		"usage of a node": {func(s *State) { s.nodes["n1"].usage.GPU++ }, "allocations hold"},
		"a node that has too much": {func(s *State) {
			n := s.nodes["n1"]
			n.record = shallow(n.record)
			n.record.Resources = &statepb.Resources{}
		}, "shrunk: false"},
		"a node under another name": {func(s *State) { s.nodes["n2"].record = &statepb.Node{Id: "n3"} }, `recorded as "n3"`},
		"operations of a pool":      {func(s *State) { delete(s.trees["default"].total, "small") }, "counted"},
		"pools that are no record":  {func(s *State) { s.trees["default"].record = &statepb.PoolTree{Name: "default"} }, "but 0 recorded"},
		"a tree under another name": {func(s *State) { s.trees["default"].record = &statepb.PoolTree{} }, `recorded as ""`},
		"options that are no record": {func(s *State) {
			s.trees["default"].record.Options = optionsOf(map[string]any{"max_operation_count": 3000})
		}, "options differ from the recorded ones"},
		"a default tree that is none": {func(s *State) { s.defaultTree = "gone" }, `pool tree "gone" is the default, but is missing`},
		"a node of another tree":      {func(s *State) { s.nodes["n2"].record.Tree = "" }, `node "n2": in pool tree "", which contradicts the filter of tree`},
		"a volume of no pool": {func(s *State) {
			s.trees["default"].record.Volumes = []*statepb.PoolVolume{{Pool: "gone"}}
		}, `volume of pool "gone"`},
		"an operation that nobody lets run": {func(s *State) { s.operations["ann"].record.Trees[0].Admitted = false }, "but admitted to a tree: false"},
		"an operation in no tree":           {func(s *State) { s.operations["new"].record.Trees = nil }, "in no pool tree"},
		"a reason to wait for nothing":      {func(s *State) { s.operations["waiting"].record.PendingReason = "x" }, `pending reason is "x", but its trees give`},
		"operations in progress":            {func(s *State) { s.inProgress = s.inProgress[1:] }, "operations in progress, but listed"},
		"a node that is not listed":         {func(s *State) { s.byName = s.byName[1:] }, "nodes, but listed"},
		"operations in order":               {func(s *State) { s.order = s.order[1:] }, "operations in the order of acceptance"},
		"an operation under another":        {func(s *State) { s.order[0] = s.order[1] }, "not in order of acceptance"},
		"an allocation lost by id":          {func(s *State) { s.allocations.remove("ann-0") }, "allocations"},
		"an allocation twice":               {func(s *State) { s.allocations.put(&statepb.Allocation{JobId: "x"}) }, "4 allocations, but 3 by operation and"},
		"an allocation of a node": {func(s *State) {
			s.nodes["n1"].allocations["ann-0"] = proto.CloneOf(s.nodes["n1"].allocations["ann-0"])
		}, `allocation "ann-0": missing from the allocations of its node`},
		"an allocation of an operation": {func(s *State) {
			s.operations["ann"].allocations["ann-0"] = proto.CloneOf(s.nodes["n1"].allocations["ann-0"])
		}, `allocation "ann-0": missing from the allocations of its operation`},
		"an alias":         {func(s *State) { delete(s.aliases, "*ann") }, "aliases"},
		"a mutation id":    {func(s *State) { s.mutations[mutation{id: "m"}] = "ann" }, "mutation ids"},
		"state and record": {func(s *State) { s.operations["ann"].state++ }, `recorded as "running"`},
		"cookies in a record": {func(s *State) {
			s.operations["ann"].record.Tasks[0].Pending = []*statepb.Interval{{Begin: 0, End: 1}}
		}, "its work is in the record itself"},
		"tasks and cookies": {func(s *State) { s.operations["ann"].tasks = nil }, "1 tasks, but work of 0, and"},
	}
	for story, test := range tests {
		t.Run(story, func(t *testing.T) {
			j := busy(t)
			test.spoil(j.state)
			if err := j.state.Verify(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want it to say %q", err, test.want)
			}
		})
	}
}

// TestRestoreOfAnythingGoesOn restores a state that has all there is and goes on
// with both.
func TestRestoreOfAnythingGoesOn(t *testing.T) {
	j := busy(t)
	restored := mustRestore(t, j.state.Freeze())
	next := &commandpb.FinishJobs{OperationId: "ann", Epoch: 1, Jobs: []*statepb.FinishedJob{{JobId: "ann-0", State: "failed"}}}
	index := j.state.LastIndex() + 1
	want, _ := j.state.Apply(index, next)
	got, _ := restored.Apply(index, next)
	if !proto.Equal(got, want) || got.GetRefusal() != nil {
		t.Errorf("the restored state answers %v, the first one %v", got, want)
	}
	if a, b := j.state.Counts(), restored.Counts(); a != b {
		t.Errorf("the restored state has %+v, the first one %+v", b, a)
	}
	if a, b := j.state.NodeUsage("n1"), restored.NodeUsage("n1"); a != b || a.UserSlots != 2 {
		t.Errorf("usage of the node is %v after a restore, %v before", b, a)
	}
	if !restored.LastTime().Equal(j.state.LastTime()) || restored.ClusterID() != "c1" || restored.Term().GetTerm() != 1 {
		t.Errorf("restored: last time %v, cluster %q, term %v", restored.LastTime(), restored.ClusterID(), restored.Term())
	}
}

// TestFrozenStaysWhileTheStateGoesOn reads a snapshot while commands change all
// that is in it. The race detector watches.
func TestFrozenStaysWhileTheStateGoesOn(t *testing.T) {
	j := busy(t)
	frozen := j.state.Freeze()
	want := bytesOf(t, frozen)
	read := make(chan []byte)
	go func() { read <- bytesOf(t, frozen) }()
	j.finish("ann", "failed", "ann-0", "ann-1")
	j.start("ann", "x0", "x1", "x2")
	j.must(
		&commandpb.StopJobs{OperationId: "ann", JobIds: []string{"x0"}, Order: &statepb.StopOrder{Reason: "preemption"}},
		changePool("small", map[string]any{"weight": 2}),
		&commandpb.UpdateOperation{OperationId: "held", Changes: []*commandpb.OperationChange{{Options: changesOf(map[string]any{"weight": 3})}}},
		&commandpb.SetNodeOffline{Term: 1, Node: "n1", Incarnation: 1},
		&commandpb.AbortOperation{OperationId: "new", User: "ann"},
		&commandpb.ResumeOperation{OperationId: "held"},
		&commandpb.SetPendingReason{OperationId: "waiting", Term: 1, Reasons: map[string]string{"default": "slow"}},
		&commandpb.BeginTerm{Term: 2, Replica: "r2", Limits: &statepb.Limits{ArchivedOperations: 1, EventsPerOperation: 3}},
		&commandpb.AdvanceOperation{OperationId: "new", Term: 2, From: "aborting", To: "aborted"},
	)
	if got := <-read; string(got) != string(want) {
		t.Error("what was read during the changes is not what was frozen")
	}
	if got := bytesOf(t, frozen); string(got) != string(want) {
		t.Error("what is read after the changes is not what was frozen")
	}
	if got := bytesOf(t, j.state.Freeze()); string(got) == string(want) {
		t.Error("the changes changed nothing")
	}
}

// TestRestoredStateLeavesItsRecordsAlone restores a state of the very records of
// another one, which a change must not reach.
func TestRestoredStateLeavesItsRecordsAlone(t *testing.T) {
	j := busy(t)
	frozen := j.state.Freeze()
	want := bytesOf(t, frozen)
	r := NewRestorer()
	if err := frozen.Records(r.Add); err != nil {
		t.Fatal(err)
	}
	restored, err := r.State()
	if err != nil {
		t.Fatal(err)
	}
	j.state = restored
	j.finish("ann", "failed", "ann-0")
	j.start("ann", "x0")
	j.must(&commandpb.SuspendOperation{OperationId: "ann"})
	if got := bytesOf(t, frozen); string(got) != string(want) {
		t.Error("a change of the restored state reached the records that it was made of")
	}
}

// TestRecordsStopAtAnError shows that every kind of record can be the last one.
func TestRecordsStopAtAnError(t *testing.T) {
	frozen := busy(t).state.Freeze()
	full := errors.New("disk full")
	for last := range recordsOf(t, frozen) {
		n := 0
		err := frozen.Records(func(*statepb.Record) error {
			n++
			if n > last {
				return full
			}
			return nil
		})
		if !errors.Is(err, full) || n != last+1 {
			t.Errorf("an error at record %d: got %v after %d records", last+1, err, n)
		}
	}
}

// TestRecordsPause shows that there are pauses while records are put in order, and before each of them.
func TestRecordsPause(t *testing.T) {
	nodes := make([]*statepb.Node, 2*portion)
	for i := range nodes {
		nodes[i] = &statepb.Node{Id: fmt.Sprint(i)}
	}
	frozen := &Frozen{parts: []part{unordered(slices.Values(nodes), compareNodes, func(n *statepb.Node) *statepb.Record {
		return &statepb.Record{Record: &statepb.Record_Node{Node: n}}
	})}}
	paused, first, records := 0, 0, 0
	frozen.Pause = func() { paused++ }
	err := frozen.Records(func(*statepb.Record) error {
		if records++; records == 1 {
			first = paused
		}
		return nil
	})
	if err != nil || first < 3 || paused != first+records-1 || records != len(nodes) {
		t.Errorf("%d pauses before the first of %d records, %d in all, error %v", first, records, paused, err)
	}
}
