package state

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// leaving is a state in which jobs of all sorts are about to go. Operation "svc" has
// "asked", which is preempted for "poor", "killed", which cannot be interrupted, and
// "stays"; its jobs have ports, and it has lost one. "poor" wants a job, "idle" is
// suspended, "done" has all that it wants, the job of "doomed" is killed. "going" is aborted gracefully with a job.
func leaving(t testing.TB) *journal {
	j := newJournal(t)
	node := nodeOf("n1", 8)
	node.Node.FirstPort, node.Node.PortCount = 21000, 5
	j.must(node, nodeOf("n2", 1), createPool("a", "", nil))
	svc := serviceOf(4)
	svc.Pool, svc.Tasks[0].PortCount = "a", 1
	svc.Tasks = append(svc.Tasks, &statepb.TaskSpec{Name: "u", JobCount: 1})
	j.run("svc", svc)
	j.start("svc", "asked", "stays", "lost")
	killed := grantOf("killed", "svc")
	killed.Task = "u"
	j.must(&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{killed}})
	j.finish("svc", "aborted", "lost")
	for _, id := range []string{"poor", "idle", "done"} {
		j.run(id, specOf(1))
	}
	j.must(&commandpb.SuspendOperation{OperationId: "idle"})
	j.start("done", "done-0")
	j.run("doomed", serviceOf(1))
	j.start("doomed", "doomed-0")
	j.must(&commandpb.SuspendOperation{OperationId: "doomed", AbortRunningJobs: true})
	j.must(orderFor("asked", beneficiary("poor")), orderFor("killed", nil))
	j.run("going", serviceOf(2))
	j.start("going", "going-0", "going-1")
	j.must(&commandpb.AbortOperation{OperationId: "going", User: "ann", InterruptMillis: 60000})
	return j
}

// serviceOf returns the specification of an operation whose jobs can be interrupted.
func serviceOf(jobs int32) *statepb.OperationSpec {
	spec := specOf(jobs)
	spec.Tasks[0].InterruptionSignal = "SIGTERM"
	return spec
}

// TestJobsWithInputAreAsked: they need no signal, and others do (J.3).
func TestJobsWithInputAreAsked(t *testing.T) {
	for story, test := range map[string]struct {
		reads     *statepb.MapSpec
		wantAsked bool
	}{
		"with input":    {&statepb.MapSpec{}, true},
		"without input": {nil, false},
	} {
		t.Run(story, func(t *testing.T) {
			spec := specOf(1)
			spec.Map = test.reads
			v := &version{record: &statepb.Operation{Spec: spec}, taskIndex: map[scheduling.TaskName]int{"t": 0}}
			order := &statepb.StopOrder{Reason: "preemption", Interruption: statepb.InterruptedByPreemption, GraceMillis: 15000}
			if got := v.possible(&statepb.Allocation{Task: "t"}, order); got.Interrupted() != test.wantAsked {
				t.Errorf("order %v, want it asked: %v", got, test.wantAsked)
			}
		})
	}
}

// preemption returns the command to preempt a job with 15 s to leave.
func orderFor(job string, who *statepb.Beneficiary) *commandpb.PreemptAllocations {
	return preemptionBy(job, &statepb.StopOrder{Preemption: "preemption", GraceMillis: 15000, PreemptedFor: who})
}

func preemptionBy(job string, order *statepb.StopOrder) *commandpb.PreemptAllocations {
	return &commandpb.PreemptAllocations{Term: 1, Preemptions: []*commandpb.Preemption{{JobId: job, Order: order}}}
}

func beneficiary(operation string) *statepb.Beneficiary {
	return &statepb.Beneficiary{OperationId: operation, Task: "t", Resources: jobSize()}
}

// TestLeavingOfOperation: who has to go is told from who may stay.
func TestLeavingOfOperation(t *testing.T) {
	s := leaving(t).state
	for id, want := range map[scheduling.OperationID]struct {
		jobs    int
		leaving []string
	}{
		"svc":    {3, []string{"asked", "killed"}},
		"done":   {1, nil},
		"doomed": {1, []string{"doomed-0"}},
		"going":  {2, []string{"going-0", "going-1"}},
		"none":   {0, nil},
	} {
		if got := s.AllocationCount(id); got != want.jobs {
			t.Errorf("%s has %d allocations, want %d", id, got, want.jobs)
		}
		if got := jobsOf(LeavingOfOperation(s, id)); !slices.Equal(got, want.leaving) {
			t.Errorf("of %s %v have to go, want %v", id, got, want.leaving)
		}
	}
}

// TestOrdersToLeaveAreRefused shows commands that are refused as a whole.
func TestOrdersToLeaveAreRefused(t *testing.T) {
	stop := func(order *statepb.StopOrder) *commandpb.StopJobs {
		return &commandpb.StopJobs{OperationId: "svc", JobIds: []string{"stays"}, Order: order}
	}
	ports := func(first, count int32) *commandpb.RegisterNode {
		m := nodeOf("n2", 1)
		m.Node.FirstPort, m.Node.PortCount = first, count
		return m
	}
	checkRefusalsOf(t, leaving, map[string]refused{
		"preemptions of another leader": {&commandpb.PreemptAllocations{Term: 2}, CodeStaleTerm, "preempt allocations: proposed in term 2"},
		"a preemption by a user":        {stop(&statepb.StopOrder{Interruption: "preemption"}), CodeInvalidCommand, "only the leader preempts jobs, with a command of its own"},
		"a kind of preemption by a user": {stop(&statepb.StopOrder{Interruption: "user_request", Preemption: "preemption"}),
			CodeInvalidCommand, "only the leader preempts jobs, with a command of its own"},
		"an interruption for no known reason": {stop(&statepb.StopOrder{Interruption: "mood"}), CodeInvalidCommand, `interruption "mood": use user_request`},
		"a grace of years":                    {stop(&statepb.StopOrder{GraceMillis: math.MaxInt64}), CodeInvalidCommand, "exceeds the limit"},
		"an abort with less than no time": {&commandpb.AbortOperation{OperationId: "svc", InterruptMillis: -1},
			CodeInvalidCommand, `abort operation "svc": grace of -1 ms is negative`},
		"a drain with less than no time": {&commandpb.DrainNode{Node: "n1", InterruptMillis: -1}, CodeInvalidCommand, `drain node "n1": grace of -1 ms`},
		"an operation that is aborted gracefully is suspended": {&commandpb.SuspendOperation{OperationId: "going"},
			CodeInvalidOperationState, "it is aborting already"},
		"ports below the first":      {ports(0, 5), CodeInvalidCommand, `register node "n2": 5 ports from 0 on: ports must be from 1 to 65535`},
		"ports beyond the last":      {ports(65530, 7), CodeInvalidCommand, "7 ports from 65530 on"},
		"less than no ports":         {ports(21000, -1), CodeInvalidCommand, "-1 ports from 21000 on"},
		"a first port without ports": {ports(21000, 0), CodeInvalidCommand, "0 ports from 21000 on"},
		"jobs with less than no ports": {startWith(func(s *statepb.OperationSpec) { s.Tasks[0].PortCount = -1 }),
			CodeInvalidSpec, `tasks: "t": port_count -1: it must be from 0 to 65535`},
		"jobs with more than all ports": {startWith(func(s *statepb.OperationSpec) { s.Tasks[0].PortCount = 65536 }), CodeInvalidSpec, "port_count 65536"},
	})
}

// TestPreemptionsAreRefusedOneByOne shows that a preemption that cannot be leaves the
// others of its command alone.
func TestPreemptionsAreRefusedOneByOne(t *testing.T) {
	preempted := func(change func(*statepb.StopOrder)) *commandpb.PreemptAllocations {
		m := orderFor("stays", beneficiary("poor"))
		change(m.GetPreemptions()[0].GetOrder())
		return m
	}
	for story, test := range map[string]struct {
		command     *commandpb.PreemptAllocations
		wantRefusal string
		wantMessage string
	}{
		"a good one":           {orderFor("stays", beneficiary("poor")), "", ""},
		"for nobody":           {orderFor("stays", nil), "", ""},
		"one that leaves":      {orderFor("asked", beneficiary("gone")), "", ""},
		"one that has ended":   {orderFor("lost", nil), CodeUnknownAllocation, `job "lost" has no allocation`},
		"without an order":     {preemptionBy("stays", nil), CodeInvalidCommand, `unknown kind of preemption ""`},
		"of no kind":           {preempted(func(o *statepb.StopOrder) { o.Preemption = "none" }), CodeInvalidCommand, `kind of preemption "none"`},
		"of an unknown kind":   {preempted(func(o *statepb.StopOrder) { o.Preemption = "mood" }), CodeInvalidCommand, `kind of preemption "mood"`},
		"with another reason":  {preempted(func(o *statepb.StopOrder) { o.Reason = "other" }), CodeInvalidCommand, `abort reason "other": for kind preemption it must be preemption`},
		"for a user":           {preempted(func(o *statepb.StopOrder) { o.Interruption = "user_request" }), CodeInvalidCommand, `interruption "user_request"`},
		"with a grace of -1":   {preempted(func(o *statepb.StopOrder) { o.GraceMillis = -1 }), CodeInvalidCommand, "grace of -1 ms"},
		"for one that is gone": {orderFor("stays", beneficiary("gone")), CodeUnknownOperation, `preempt job "stays" for operation "gone": no such operation`},
		"for one that is going": {orderFor("stays", beneficiary("going")), CodeInvalidOperationState,
			"that operation is aborting, not running"},
		"for one that is suspended": {orderFor("stays", beneficiary("idle")), CodeOperationSuspended, "is suspended"},
		"for one that has all":      {orderFor("stays", beneficiary("done")), CodeNoPendingJob, `all jobs of its task "t"`},
		"for no task":               {preempted(func(o *statepb.StopOrder) { o.PreemptedFor.Task = "x" }), CodeUnknownTask, `no task "x"`},
		"for less than nothing": {preempted(func(o *statepb.StopOrder) { o.PreemptedFor.Resources = &statepb.Resources{Gpu: -1} }),
			CodeInvalidCommand, "resource gpu: negative amount -1"},
		"one that is killed already": {orderFor("doomed-0", nil), CodeInvalidOperationState, "its operation already has it killed at once"},
		"planned by another tree": {&commandpb.PreemptAllocations{Term: 1, Tree: "gpu", Preemptions: orderFor("stays", nil).GetPreemptions()},
			CodeNotAdmitted, `pool tree "gpu" has planned it, but its node "n1" belongs to tree "default"`},
	} {
		t.Run(story, func(t *testing.T) {
			j := leaving(t)
			test.command.Preemptions = append(test.command.Preemptions, orderFor("done-0", nil).GetPreemptions()...)
			if test.command.GetTree() != "" {
				test.command.Preemptions = test.command.GetPreemptions()[:1]
			}
			result, _ := j.apply(test.command)
			answers := result.GetFinishJobs().GetJobs()
			if got := answers[0]; got.GetRefusal() != test.wantRefusal || !strings.Contains(got.GetMessage(), test.wantMessage) {
				t.Errorf("got %v, want %s: …%s…", got, test.wantRefusal, test.wantMessage)
			}
			if len(answers) != len(test.command.GetPreemptions()) || answers[len(answers)-1].GetRefusal() != "" && len(answers) > 1 {
				t.Errorf("answers %v: one is missing, or the good preemption was refused", answers)
			}
		})
	}
}

// TestRepeatedPreemptionIsAnsweredAlike shows that a leader may propose again what it
// does not know the end of.
func TestRepeatedPreemptionIsAnsweredAlike(t *testing.T) {
	j := leaving(t)
	first, _ := j.apply(orderFor("stays", beneficiary("poor")))
	before, _ := j.state.Allocation("stays")
	j.start("poor", "poor-0")
	again, events := j.apply(orderFor("stays", beneficiary("poor")))
	if !proto.Equal(first.GetFinishJobs(), again.GetFinishJobs()) || len(events) > 0 {
		t.Errorf("the first answer is %v, the second %v with events %v", first, again, events)
	}
	if after, _ := j.state.Allocation("stays"); after != before {
		t.Errorf("the repeated preemption changed %v to %v", before, after)
	}
}

// TestOrderOfAllocation follows the deadline of a job through orders.
func TestOrderOfAllocation(t *testing.T) {
	j := leaving(t)
	a, _ := j.state.Allocation("asked")
	first := a.GetStop()
	if want := first.GetTime().AsTime().Add(15 * time.Second); !first.Deadline().Equal(want) || first.GetReason() != "preemption" ||
		first.GetInterruption() != statepb.InterruptedByPreemption || first.GetPreemptedFor().GetOperationId() != "poor" {
		t.Fatalf("order %v with deadline %v, want %v", first, first.Deadline(), want)
	}
	j.must(&commandpb.DrainNode{Node: "n1", User: "bob", InterruptMillis: 1})
	a, _ = j.state.Allocation("asked")
	if got := a.GetStop(); !got.Deadline().Before(first.Deadline()) || got.GetPreemptedFor() != first.GetPreemptedFor() || got.GetPreemption() != "preemption" {
		t.Errorf("order %v after a drain, want the earlier deadline and else %v", got, first)
	}
	if a, _ := j.state.Allocation("stays"); a.GetStop().GetInterruption() != statepb.InterruptedByDrain || a.GetStop().GetMessage() != `node "n1" is drained by user "bob"` {
		t.Errorf("order %v, want that of the drain", a.GetStop())
	}
	if a, _ := j.state.Allocation("killed"); a.GetStop().GetGraceMillis() != 0 || a.GetStop().Interrupted() || !strings.Contains(a.GetStop().GetMessage(), "nor an interruption_signal") {
		t.Errorf("order %v of a job that cannot be interrupted", a.GetStop())
	}
}

// TestLeavingRecordsThatAreWrong spoils what a snapshot says of jobs that leave.
func TestLeavingRecordsThatAreWrong(t *testing.T) {
	type records = []*statepb.Record
	frozen := leaving(t).state.Freeze()
	mustRestore(t, frozen)
	for story, test := range map[string]struct {
		spoil func(records)
		want  string
	}{
		"an order without a time":     {func(r records) { allocationRecord(r, "asked").Stop.Time = nil }, "stop order without a valid deadline"},
		"an order with negative time": {func(r records) { allocationRecord(r, "asked").Stop.GraceMillis = -1 }, "stop order without a valid deadline"},
		"an order for ever":           {func(r records) { allocationRecord(r, "asked").Stop.GraceMillis = math.MaxInt64 }, "stop order without a valid deadline"},
		"a graceful abort of what runs": {func(r records) { operationRecord(r, "svc").Stop = operationRecord(r, "going").Stop },
			"running, with a stop order that is invalid or out of place"},
		"a graceful abort without a time": {func(r records) { operationRecord(r, "going").Stop.Time = nil }, "aborting, with a stop order that is invalid or out of place"},
		"a port of two jobs":              {func(r records) { allocationRecord(r, "asked").Ports = allocationRecord(r, "stays").Ports }, "has port 21001, which is out of range or also held by job"},
		"a port that is none":             {func(r records) { allocationRecord(r, "asked").Ports[0] = 0 }, "has port 0, which is out of range or also held by job"},
		"a port twice in a job":           {func(r records) { allocationRecord(r, "asked").Ports = []int32{21000, 21000} }, `which is out of range or also held by job "asked"`},
		"a node with ports that are none": {func(r records) { nodeRecord(r, "n1").PortCount = 65535 }, "65535 ports from 21000 on"},
		"waste of a pool that is none":    {func(r records) { treeRecord(r).Waste[0].Pool = "gone" }, `waste of pool "gone", but that pool is missing`},
		"less waste than none":            {func(r records) { treeRecord(r).Waste[0].GpuSeconds = -1 }, "amount -1 must be finite and not negative"},
		"waste that is no number":         {func(r records) { operationRecord(r, "svc").Waste[0].CpuCoreSeconds = math.NaN() }, "amount NaN must be"},
		"endless waste":                   {func(r records) { operationRecord(r, "svc").Waste[0].MemoryByteSeconds = math.Inf(1) }, "amount +Inf must be"},
		"waste of no jobs":                {func(r records) { operationRecord(r, "svc").Waste[0].Jobs = 0 }, "invalid cause or job counts, 0 lost and 0 saved"},
		"waste by nothing":                {func(r records) { operationRecord(r, "svc").Waste[0].Cause = "" }, `by "": invalid cause or job counts, 1 lost and`},
		"waste twice": {func(r records) {
			o := operationRecord(r, "svc")
			o.Waste = append(o.Waste, o.Waste[0])
		}, "twice or out of order"},
	} {
		t.Run(story, func(t *testing.T) {
			spoiled := recordsOf(t, frozen)
			test.spoil(spoiled)
			if _, err := restore(spoiled); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want it to say %q", err, test.want)
			}
		})
	}
}

// TestOldRecordsGoOn restores a snapshot from before jobs had ports and pools.
func TestOldRecordsGoOn(t *testing.T) {
	j := leaving(t)
	records := recordsOf(t, j.state.Freeze())
	for _, job := range []string{"asked", "stays", "killed"} {
		allocationRecord(records, job).Pool, allocationRecord(records, job).Ports = "", nil
	}
	nodeRecord(records, "n1").NextPort, nodeRecord(records, "n1").FirstPort, nodeRecord(records, "n1").PortCount = 0, 0, 0
	treeRecord(records).Waste, operationRecord(records, "svc").Waste = nil, nil
	restored, err := restore(records)
	if err != nil {
		t.Fatal(err)
	}
	j.state = restored
	j.finish("svc", "aborted", "killed")
	tree, _ := restored.Tree("default")
	if w := tree.GetWaste(); len(w) != 1 || w[0].GetPool() != "a" || w[0].GetJobs() != 1 {
		t.Errorf("ledger %v, want one job of pool a, in which its operation is", w)
	}
}

// TestFrozenLedgersStay shows that what a snapshot holds of lost work is not changed by
// what is lost later.
func TestFrozenLedgersStay(t *testing.T) {
	j := leaving(t)
	frozen := j.state.Freeze()
	want := bytesOf(t, frozen)
	j.finish("svc", "aborted", "killed", "stays")
	j.start("svc", "more")
	j.must(&commandpb.AbortAllocations{Term: 1, Reason: "node_offline", JobIds: []string{"asked", "more", "going-0"}})
	if got := bytesOf(t, frozen); string(got) != string(want) {
		t.Error("a ledger that was frozen has changed")
	}
	tree, _ := j.state.Tree("default")
	if len(tree.GetWaste()) < 3 || tree.GetRevision() != 2 {
		t.Errorf("ledger %v at revision %d, want more in it and the revision of the last edit", tree.GetWaste(), tree.GetRevision())
	}
}
