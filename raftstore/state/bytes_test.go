package state

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"weir/messages/bounds/boundstest"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestTextsOfCommandsAreBounded fills in every text of every command that carries what users and
// agents make: each is refused by the name of its field, and leaves the state as it was.
func TestTextsOfCommandsAreBounded(t *testing.T) {
	// These are made by replicas, of what is bounded where it comes in.
	byReplicas := map[string]bool{}
	for _, msg := range []proto.Message{
		&commandpb.BeginTerm{}, &commandpb.AdvanceOperation{}, &commandpb.SetPendingReason{}, &commandpb.AssignController{},
		&commandpb.PrepareOperation{}, &commandpb.DefineTasks{}, &commandpb.PublishOutput{}, &commandpb.StartAllocations{},
		&commandpb.FinishJobs{}, &commandpb.AbortAllocations{}, &commandpb.PreemptAllocations{}, &commandpb.HandOver{},
		&commandpb.SetNodeOffline{}, &commandpb.UpdateReserves{}, &commandpb.SaveMemoryProfiles{}, &commandpb.CheckpointVolumes{},
		&commandpb.AdmitOperation{}, &commandpb.CheckState{}, &commandpb.SetPace{},
	} {
		byReplicas[fmt.Sprintf("%T", msg)] = true
	}
	j := newJournal(t)
	before := contentOf(t, j.state)
	for of, h := range handlers {
		if h.bounded == byReplicas[of.String()] {
			t.Errorf("%s: bounded %t: is it made by replicas?", of, h.bounded)
		}
		if !h.bounded {
			continue
		}
		empty := reflect.New(of.Elem()).Interface().(proto.Message)
		boundstest.Oversized(empty, func(path string, msg proto.Message) {
			if m, ok := msg.(*commandpb.RegisterNode); ok {
				m.Term = 1
			}
			result, _ := j.state.Apply(1, msg)
			// The field, or what it is in and is bounded as a whole.
			said := result.GetRefusal().GetMessage()
			named := slices.ContainsFunc(strings.Split(path, "."), func(field string) bool { return strings.Contains(said, ": "+field+" has ") })
			if !named || len(said) > 1000 {
				t.Errorf("%T with a large %s: %.200q", msg, path, said)
			}
		})
	}
	if string(contentOf(t, j.state)) != string(before) {
		t.Error("refused commands have changed the state")
	}
}

// TestTextsOfOldLogsAreNotBounded applies a command of a log that began before texts were bounded.
func TestTextsOfOldLogsAreNotBounded(t *testing.T) {
	j := newJournal(t)
	j.must(&commandpb.BeginTerm{Term: 2, Replica: "r1", ClusterId: "c1", Limits: &statepb.Limits{Operations: 10}})
	j.must(&commandpb.StartOperation{OperationId: "op", User: "ann", Spec: specOf(1)})
	abort := &commandpb.AbortOperation{OperationId: "op", Reason: strings.Repeat("x", 1<<20)}
	j.must(abort)
	j.must(&commandpb.StartOperation{OperationId: "other", User: "ann", Spec: specOf(1)})
	j.must(&commandpb.BeginTerm{Term: 3, Replica: "r1", ClusterId: "c1", Limits: WithBytes(&statepb.Limits{Operations: 10})})
	result, _ := j.apply(&commandpb.AbortOperation{OperationId: "other", Reason: strings.Repeat("x", 1<<20)})
	if got := result.GetRefusal().GetMessage(); got != "abort operation: reason has 1048576 bytes, the limit is 4096 (4 KiB)" {
		t.Errorf("refused with %q", got)
	}
}

// TestHistoryIsBoundedInBytes gives an operation as much of a history as its user can: reasons,
// errors and updates of the largest size.
func TestHistoryIsBoundedInBytes(t *testing.T) {
	j := newJournal(t)
	j.must(nodeOf("n1", 1000))
	spec := specOf(1000)
	spec.MaxFailedJobCount = 10000
	j.run("op", spec)
	long := strings.Repeat("x", 4<<10)
	j.must(createPool("ads", "", nil))
	for i := range 300 {
		job := fmt.Sprint("job", i)
		j.start("op", job)
		j.must(&commandpb.StopJobs{OperationId: "op", JobIds: []string{job}, Order: &statepb.StopOrder{Message: long}})
		epoch := j.operation("op").GetAssignment().GetEpoch()
		j.must(&commandpb.FinishJobs{OperationId: "op", Epoch: epoch, Jobs: []*statepb.FinishedJob{{
			JobId: job, State: "failed", Error: &statepb.Error{Message: strings.Repeat(long, 1000), Attributes: map[string]string{"stderr": long}},
		}}})
		j.must(&commandpb.UpdateOperation{OperationId: "op", User: strings.Repeat("u", 1000), Changes: []*commandpb.OperationChange{{Pool: to("ads")}, {Pool: to("default")}}})
	}
	op := j.operation("op")
	size := proto.Size(&statepb.Operation{Events: op.GetEvents(), FinishedJobs: op.GetFinishedJobs()})
	if size > 1<<20 || len(op.GetFinishedJobs()) < 100 || len(op.GetEvents()) < 50 {
		t.Errorf("%d finished jobs and %d events take %d bytes", len(op.GetFinishedJobs()), len(op.GetEvents()), size)
	}
	for _, finished := range op.GetFinishedJobs() {
		if message := finished.GetStop().GetMessage(); len(message) > maxOrderBytes || !strings.HasSuffix(message, "…") {
			t.Fatalf("the order of a job has %d bytes", len(message))
		}
	}
	j.must(&commandpb.AbortOperation{OperationId: "op", User: "ann", Reason: long})
	op = j.operation("op")
	if last := op.GetEvents()[len(op.GetEvents())-1]; last.GetAttributes()["reason"] != long || !strings.HasSuffix(op.GetResult().GetMessage(), long) {
		t.Errorf("the reason of an abort is cut: %d bytes", len(last.GetAttributes()["reason"]))
	}
}

// TestHistoryOfAnOldLogIsCut begins a term with bounds in bytes when there are records without.
func TestHistoryOfAnOldLogIsCut(t *testing.T) {
	j := newJournal(t)
	j.must(&commandpb.BeginTerm{Term: 2, Replica: "r1", ClusterId: "c1", Limits: &statepb.Limits{Operations: 10}})
	j.must(&commandpb.StartOperation{OperationId: "op", User: "ann", Spec: specOf(1)})
	j.must(&commandpb.AbortOperation{OperationId: "op", Reason: strings.Repeat("x", 1<<20)})
	j.must(&commandpb.BeginTerm{Term: 3, Replica: "r1", ClusterId: "c1", Limits: WithBytes(&statepb.Limits{Operations: 10})})
	events := j.operation("op").GetEvents()
	if size := len(events[len(events)-1].GetAttributes()["reason"]); size != 512 {
		t.Errorf("the reason has %d bytes", size)
	}
	mustRestore(t, j.state.Freeze())
}

// heavy returns the start of an operation of about these bytes.
func heavy(id, user string, bytes int) *commandpb.StartOperation {
	spec := specOf(1)
	spec.Tasks[0].Shell, spec.Tasks[0].Argv = strings.Repeat("x", bytes-operationBytes-200), nil
	spec.Tasks[0].Environment = map[string]string{"SECRET": "s"}
	return &commandpb.StartOperation{OperationId: id, User: user, Spec: spec}
}

// limited begins a term with limits of bytes.
func (j *journal) limited(user, pool, all int64) {
	j.must(&commandpb.BeginTerm{Term: j.state.Term().GetTerm() + 1, Replica: "r1", ClusterId: "c1", Limits: &statepb.Limits{
		ByBytes: true, ByProgress: true, OperationBytesPerUser: user, OperationBytesPerPool: pool, OperationBytes: all,
	}})
}

// aborted ends operations.
func (j *journal) aborted(ids ...string) {
	for _, id := range ids {
		j.must(&commandpb.AbortOperation{OperationId: id}, &commandpb.AdvanceOperation{
			OperationId: id, Term: j.state.Term().GetTerm(), From: "aborting", To: "aborted"})
	}
}

// TestQuotasInBytes starts operations until a user, a pool and the cluster have no more room.
func TestQuotasInBytes(t *testing.T) {
	const size, little = 512 << 10, 10 << 10
	for name, test := range map[string]struct {
		user, pool, all   int64
		want, wantLargest string
	}{
		"of a user": {3 * size, 100 * size, 100 * size,
			"operations of user ann take 1.3 MiB of 1.5 MiB (operation_bytes_per_user)", `big \(77\d\.\d KiB\), small \(52\d\.\d KiB\)`},
		"of a pool": {100 * size, 3 * size, 100 * size,
			"operations of pool default in tree default take 1.3 MiB of 1.5 MiB (operation_bytes_per_pool)", `big \(77\d\.\d KiB\), small \(52\d\.\d KiB\)`},
		"of all": {100 * size, 100 * size, 3 * size,
			"operations of all users take 1.3 MiB of 1.5 MiB (operation_bytes)", `user ann \(1\.3 MiB\)`},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			j.limited(test.user, test.pool, test.all)
			j.must(heavy("small", "ann", size+little), heavy("big", "ann", size+size/2+little))
			more := heavy("more", "ann", size-size/4)
			result, _ := j.apply(more)
			r := result.GetRefusal()
			want := regexp.MustCompile(`^start operation: limit reached: ` + regexp.QuoteMeta(test.want) + `, and this one takes 38\d\.\d KiB; abort or wait for ` + test.wantLargest + `$`)
			if r.GetCode() != CodeTooManyBytes || !want.MatchString(r.GetMessage()) {
				t.Errorf("refused with %s %q, want %s", r.GetCode(), r.GetMessage(), want)
			}
			j.must(heavy("little", "ann", size/4))
			j.aborted("big")
			j.must(more)
		})
	}
}

// TestMovesIntoAPoolWithoutRoom moves an operation into a pool whose operations take what they may.
func TestMovesIntoAPoolWithoutRoom(t *testing.T) {
	j := newJournal(t)
	j.limited(10<<20, 2<<20, 10<<20)
	j.must(createPool("ads", "", nil), heavy("there", "ann", 1<<20), heavy("mover", "bob", 1<<19))
	moving := &commandpb.UpdateOperation{OperationId: "mover", Changes: []*commandpb.OperationChange{{Pool: to("ads")}}}
	j.must(moving)
	large := heavy("large", "ann", 1<<20)
	large.Spec.Pool = "ads"
	j.must(large, heavy("here", "ann", 1<<19))
	moving = &commandpb.UpdateOperation{OperationId: "there", Changes: []*commandpb.OperationChange{{Pool: to("ads")}}}
	result, _ := j.apply(moving)
	if got := result.GetRefusal(); got.GetCode() != CodeTooManyBytes {
		t.Errorf("moved into a pool without room: %v", got)
	}
}

// TestEndedOperationsMakeRoom starts and aborts large operations, as a script does for an hour: each
// start is accepted, and what the state takes stays within the quota. Those that ended first are
// compacted, and then dropped; those of other users stay.
func TestEndedOperationsMakeRoom(t *testing.T) {
	j := newJournal(t)
	const quota, size = 1 << 20, 256 << 10
	j.limited(quota, quota, 100<<20)
	j.must(heavy("other", "bob", size))
	j.aborted("other")
	frozen := j.state.Freeze()
	before := bytesOf(t, frozen)
	dropped := 0
	for i := range 500 {
		id := fmt.Sprint("op", i)
		j.must(heavy(id, "ann", size))
		j.aborted(id)
		// Its last events come on top.
		if taken := j.state.quotas.users["ann"].all; taken > quota+(4<<10) {
			t.Fatalf("operations of ann take %d bytes", taken)
		}
		if i >= 100 && dropped == 0 && j.state.operations["op0"] == nil {
			dropped = i
		}
		if i == 100 {
			op := j.operation("op0")
			task := op.GetSpec().GetTasks()[0]
			if !op.GetSpecCut() || len(task.GetShell()) != compactText || task.GetEnvironment() != nil || task.GetName() != "t" {
				t.Errorf("the operation that ended first has the specification %.700v", op.GetSpec())
			}
		}
	}
	if dropped < 150 || j.state.operations["other"] == nil || j.operation("other").GetSpecCut() {
		t.Errorf("the first operation was dropped after %d others", dropped)
	}
	if size := len(bytesOf(t, j.state.Freeze())); size > 2*quota {
		t.Errorf("a snapshot has %d bytes", size)
	}
	if string(bytesOf(t, frozen)) != string(before) {
		t.Error("what was frozen has changed")
	}
	mustRestore(t, j.state.Freeze())
}

// TestQuotasHold is a property: whatever is started, moved, noted, ended and forgotten, the counts
// are those of the records (Verify looks at each step), also after a restore, and operations in
// progress are within the limits.
func TestQuotasHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := newJournal(t)
		const user, pool, all = 200 << 10, 250 << 10, 400 << 10
		j.limited(user, pool, all)
		j.must(createPool("ads", "", nil), createPool("web", "ads", nil))
		users := []string{"ann", "bob", "carol"}
		pools := []string{"default", "ads", "web"}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			known := []string{"none"}
			for op := range j.state.Operations() {
				known = append(known, op.GetId())
			}
			id := rapid.SampledFrom(known).Draw(t, "operation")
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				start := heavy(fmt.Sprint("op", i), rapid.SampledFrom(users).Draw(t, "user"), rapid.IntRange(4<<10, 120<<10).Draw(t, "bytes"))
				start.Spec.Pool = rapid.SampledFrom(pools).Draw(t, "pool")
				j.apply(start)
			case 2:
				name := rapid.SampledFrom(pools).Draw(t, "to")
				j.apply(&commandpb.UpdateOperation{OperationId: id, Changes: []*commandpb.OperationChange{{Pool: &name}}})
			case 3:
				j.apply(&commandpb.AbortOperation{OperationId: id, Reason: strings.Repeat("r", 4<<10)})
			case 4:
				j.apply(&commandpb.AdvanceOperation{OperationId: id, Term: 2, From: "aborting", To: "aborted"})
			case 5:
				j.apply(&commandpb.SuspendOperation{OperationId: id, User: strings.Repeat("u", 100)})
			}
			for name, u := range j.state.quotas.users {
				// Events are added to operations that are there.
				if u.all-u.ended > user+maxEventsBytes {
					t.Fatalf("operations of %s take %d bytes", name, u.all-u.ended)
				}
			}
		}
		restored := mustRestore(t, j.state.Freeze())
		if restored.quotas.whole != j.state.quotas.whole || !maps.Equal(restored.quotas.users, j.state.quotas.users) {
			t.Fatalf("restored: %+v, before: %+v", restored.quotas, j.state.quotas)
		}
	})
}

// withACL returns options of a pool of about these bytes.
func withACL(bytes int) map[string]any {
	const most, entry = 250, 75
	acl := map[string]any{}
	for _, right := range []string{"read", "use", "manage", "administer"} {
		var users []any
		for i := range min(most, bytes/entry) {
			users = append(users, fmt.Sprintf("user:%04d-%s", i, strings.Repeat("u", 55)))
		}
		if bytes -= len(users) * entry; len(users) > 0 {
			acl[right] = users
		}
	}
	return map[string]any{"acl": acl}
}

// TestPoolsAreBoundedInBytes (T4) adds pools with long lists of rights until a tree, or all trees,
// have no more room. What makes a tree smaller is accepted, also when it has more than it may.
func TestPoolsAreBoundedInBytes(t *testing.T) {
	for name, test := range map[string]struct {
		tree, all int64
		want      string
	}{
		"of a tree": {1 << 20, 100 << 20, `pools of tree default take 9\d\d(\.\d)? KiB of 1 MiB \(pool_bytes_per_tree\), and this change adds \d\d\.\d KiB; ` +
			`remove pools, or shorten their options, such as rights, of pool ads with those below it \(9\d\d(\.\d)? KiB\), pool default with those below it \(\d+ bytes\)`},
		"of all trees": {100 << 20, 1 << 20, `pools of all trees take 9\d\d(\.\d)? KiB of 1 MiB \(pool_bytes\), and this change adds \d\d\.\d KiB; ` +
			`remove pools, or shorten their options, such as rights, of tree default \(9\d\d(\.\d)? KiB\), tree gpu \(\d+ bytes\)`},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			j.must(treeEdit("", map[string]any{"nodes_filter": "!gpu"}), &commandpb.CreateTree{Tree: "gpu", Options: structOf(map[string]any{"nodes_filter": "gpu"})})
			limits := WithBytes(&statepb.Limits{PoolBytesPerTree: test.tree, PoolBytes: test.all})
			j.must(&commandpb.BeginTerm{Term: 2, Replica: "r1", ClusterId: "c1", Limits: limits}, createPool("ads", "", nil))
			pools := 0
			var r *commandpb.Refusal
			for ; r == nil && pools < 100; pools++ {
				result, _ := j.apply(createPool(fmt.Sprint("p", pools), "ads", withACL(40<<10)))
				r = result.GetRefusal()
			}
			want := regexp.MustCompile(`^edit pool tree: limit reached: ` + test.want + `$`)
			if r.GetCode() != CodeTooManyBytes || !want.MatchString(r.GetMessage()) {
				t.Fatalf("pool %d is refused with %s %q, want %s", pools, r.GetCode(), r.GetMessage(), want)
			}
			refused, _ := j.apply(changePool("default", withACL(60<<10)))
			if got := refused.GetRefusal().GetCode(); got != CodeTooManyBytes {
				t.Errorf("an option of a pool that is there: %q", got)
			}
			// A lower limit holds for what is added.
			limits.PoolBytesPerTree, limits.PoolBytes = test.tree/2, test.all/2
			j.must(&commandpb.BeginTerm{Term: 3, Replica: "r1", ClusterId: "c1", Limits: limits},
				changePool("p0", map[string]any{"acl": nil}), edit(removal("p1"), removal("p2")))
			if refused, _ := j.apply(createPool("one", "", withACL(1000))); refused.GetRefusal() == nil {
				t.Error("a pool is added where there is no room")
			}
			mustRestore(t, j.state.Freeze())
		})
	}
}

// TestEphemeralPoolsAreBoundedInBytes has each ephemeral pool take many bytes: the start that needs
// one too many is refused.
func TestEphemeralPoolsAreBoundedInBytes(t *testing.T) {
	j := newJournal(t)
	j.must(&commandpb.BeginTerm{Term: 2, Replica: "r1", ClusterId: "c1", Limits: WithBytes(&statepb.Limits{PoolBytesPerTree: 2 << 10})},
		createPool("hub", "", map[string]any{"create_ephemeral_subpools": true}))
	started := 0
	for ; started < 100; started++ {
		spec := specOf(1)
		spec.Pool = "hub"
		result, _ := j.apply(&commandpb.StartOperation{OperationId: fmt.Sprint("op", started), User: fmt.Sprint("user", started), Spec: spec})
		if r := result.GetRefusal(); r != nil {
			if r.GetCode() != CodeTooManyBytes || !strings.Contains(r.GetMessage(), limitTreeBytes) {
				t.Errorf("refused with %s %q", r.GetCode(), r.GetMessage())
			}
			break
		}
	}
	if started < 5 || started == 100 {
		t.Errorf("%d starts were accepted", started)
	}
}

// TestMemoryProfilesAreBoundedInBytes (T4) saves large profiles: those updated longest ago go.
func TestMemoryProfilesAreBoundedInBytes(t *testing.T) {
	j := newJournal(t)
	j.must(&commandpb.BeginTerm{Term: 2, Replica: "r1", ClusterId: "c1", Limits: WithBytes(&statepb.Limits{MemoryProfileBytes: 1 << 20})})
	for i := range 30 {
		key := fmt.Sprintf("ann:p%02d", i)
		setProfile(j.state, key, &statepb.MemoryProfile{Key: key, UserDigest: make([]byte, 100<<10), UpdatedTime: timestamppb.New(epochStart.Add(time.Duration(i) * time.Hour))})
		c := &change{State: j.state}
		memoryChange{c}.trimProfiles()
		if j.state.profileBytes > 1<<20 {
			t.Fatalf("profiles take %d bytes", j.state.profileBytes)
		}
		if _, kept := j.state.Profile(key); !kept {
			t.Fatalf("the latest profile %s is gone", key)
		}
	}
	if n := len(j.state.Profiles()); n != 10 {
		t.Errorf("%d profiles of 100 KiB are kept in 1 MiB", n)
	}
	restored := mustRestore(t, j.state.Freeze())
	if restored.profileBytes != j.state.profileBytes {
		t.Errorf("%d bytes after a restore, %d before", restored.profileBytes, j.state.profileBytes)
	}
}
