package state

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// company is a cluster of several people: ann works in pool ads, which bob manages; carol
// administers research; dan, who is in group crew, may read ads.
func company(t testing.TB) *journal {
	j := newJournal(t)
	j.must(
		&commandpb.EditGroup{Group: "crew", Add: []string{"dan"}},
		treeEdit("", map[string]any{"acl": map[string]any{"use": []any{}}}),
		edit(
			creation("ads", "", acl("use", "user:ann", "manage", "user:bob", "read", "group:crew")),
			creation("ads-prod", "ads", acl("use", "user:eve")),
			creation("research", "", acl("administer", "user:carol", "use", "*")),
			creation("lab", "research", nil),
		),
	)
	spec := specOf(2)
	spec.Pool = "ads"
	j.must(&commandpb.StartOperation{OperationId: "anns", User: "ann", Spec: spec})
	return j
}

// acl returns options with rights: pairs of a right and a subject.
func acl(pairs ...string) map[string]any {
	given := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		given[pairs[i]] = append(anyList(given[pairs[i]]), pairs[i+1])
	}
	return map[string]any{"acl": given}
}

func anyList(v any) []any {
	list, _ := v.([]any)
	return list
}

func startAs(pool, user string) *commandpb.StartOperation {
	spec := specOf(1)
	spec.Pool = pool
	return &commandpb.StartOperation{OperationId: "new", User: user, Spec: spec}
}

// TestRightsInApply has commands refused to those who lack a right at that moment, whoever let them
// into the log.
func TestRightsInApply(t *testing.T) {
	toPool := func(pool string) *commandpb.UpdateOperation {
		return &commandpb.UpdateOperation{OperationId: "anns", Changes: []*commandpb.OperationChange{{Pool: &pool}}}
	}
	for _, test := range []struct {
		user  string
		msg   proto.Message
		wants string
	}{
		{"ann", startAs("ads", "ann"), ""},
		{"ann", startAs("ads-prod", "ann"), ""},
		{"eve", startAs("ads-prod", "eve"), ""},
		{"eve", startAs("ads", "eve"), `user "eve" may not use pool "ads": this needs the right use on pool "ads", held by user:ann`},
		{"bob", startAs("ads", "bob"), `may not use pool "ads"`},
		{"eve", startAs("lab", "eve"), ""},
		{"eve", startAs("own", "eve"), `may not use pool "own": this needs the right use on pool "<Root>", which only operators have`},
		{"eve", startAs("ads-prod", "ann"), "is in the name of user \"ann\""},
		{"ann", &commandpb.AbortOperation{OperationId: "anns", User: "ann"}, ""},
		{"bob", &commandpb.AbortOperation{OperationId: "anns", User: "bob"}, ""},
		{"dan", &commandpb.AbortOperation{OperationId: "anns", User: "dan"}, `may not abort operation anns of user "ann": this needs the right manage on pool "ads", held by user:bob`},
		{"carol", &commandpb.SuspendOperation{OperationId: "anns"}, "needs the right manage"},
		{"ann", toPool("lab"), ""},
		{"bob", toPool("lab"), ""},
		{"bob", toPool("ads-prod"), `may not use pool "ads-prod"`},
		{"ann", toPool("ads-prod"), ""},
		{"ann", toPool("<Root>"), `may not use pool "<Root>"`},
		{"carol", &commandpb.StopJobs{OperationId: "anns", JobIds: []string{"j"}, Order: &statepb.StopOrder{Reason: "user_request"}}, "needs the right manage"},
		{"carol", edit(creation("new", "research", acl("manage", "user:x"))), ""},
		{"carol", edit(creation("new", "lab", nil)), ""},
		{"carol", edit(poolChange("lab", map[string]any{"weight": 3})), ""},
		{"carol", edit(poolChange("research", map[string]any{"weight": 3})), `may not change pool "research": this needs the right administer on pool "<Root>"`},
		{"carol", edit(poolChange("research", acl("administer", "user:x"))), "needs the right administer"},
		{"carol", edit(creation("new", "", nil)), "needs the right administer"},
		{"carol", movePool("lab", "ads"), `may not move pool "lab": this needs the right administer on pool "ads"`},
		{"carol", movePool("ads", "research"), `may not move pool "ads": this needs the right administer on pool "<Root>"`},
		{"carol", edit(renaming("lab", "kitchen"), poolChange("kitchen", map[string]any{"weight": 3}), creation("sink", "kitchen", nil)), ""},
		{"carol", edit(creation("new", "research", nil), movePool("new", "ads").GetEdits()[0]), `needs the right administer on pool "ads"`},
		{"carol", edit(removal("lab")), ""},
		{"carol", edit(removal("ads-prod")), "needs the right administer"},
		{"carol", treeEdit("", map[string]any{"max_operation_count": 9}), "may not change the options of pool tree"},
		{"bob", edit(poolChange("lab", map[string]any{"weight": 3})), "held by user:carol"},
		{"ann", &commandpb.EditGroup{Group: "crew", Add: []string{"ann"}}, "only operators may"},
		{"ann", &commandpb.DrainNode{Node: "n1"}, "only operators may"},
		{"ann", &commandpb.BeginTerm{Term: 9, Replica: "r9"}, "is for the system alone"},
		{"ann", &commandpb.FinishJobs{OperationId: "anns", Epoch: 1}, "is for the system alone"},
	} {
		j := company(t)
		result, _ := ApplyBy(j.state, j.state.LastIndex()+1, &commandpb.Subject{User: test.user}, test.msg)
		code, message := result.GetRefusal().GetCode(), result.GetRefusal().GetMessage()
		switch {
		case test.wants == "" && code == CodeDenied, test.wants != "" && !strings.Contains(message, test.wants):
			t.Errorf("%s: %T: %s %q, want %q", test.user, test.msg, code, message, test.wants)
		case test.wants == "" && code != "" && code != CodeUnknownAllocation:
			t.Errorf("%s: %T is allowed and fails: %s %q", test.user, test.msg, code, message)
		}
	}
}

func TestGroups(t *testing.T) {
	j := company(t)
	for _, test := range []struct {
		msg  proto.Message
		want string
	}{
		{&commandpb.EditGroup{Group: "a b"}, CodeInvalidGroup},
		{&commandpb.EditGroup{Group: "crew", Add: []string{"user:x"}}, CodeInvalidGroup},
		{&commandpb.EditGroup{Group: "crew", Remove: []string{"eve"}}, CodeInvalidGroup},
		{&commandpb.EditGroup{Group: "none", Remove: []string{"eve"}}, CodeUnknownGroup},
		{&commandpb.EditGroup{Group: "none", Delete: true}, CodeUnknownGroup},
		{&commandpb.EditGroup{Group: "crew", Delete: true}, CodeGroupInUse},
		{&commandpb.EditGroup{Group: "crew", Delete: true, Add: []string{"x"}}, CodeInvalidCommand},
		{edit(poolChange("lab", acl("use", "group:none"))), CodeUnknownGroup},
		{edit(poolChange("lab", acl("use", "somebody"))), CodeInvalidPool},
		{edit(poolChange("lab", acl("destroy", "user:ann"))), CodeInvalidPool},
		{&commandpb.StartOperation{OperationId: "new", User: "ann", Spec: &statepb.OperationSpec{Type: "vanilla", Tasks: specOf(1).GetTasks(), Acl: &statepb.OperationRights{Read: []string{"group:none"}}}}, CodeUnknownGroup},
	} {
		result, _ := j.apply(test.msg)
		if got := result.GetRefusal().GetCode(); got != test.want {
			t.Errorf("%v: %s %s, want %s", test.msg, got, result.GetRefusal().GetMessage(), test.want)
		}
	}
	j.must(&commandpb.EditGroup{Group: "empty"}, &commandpb.EditGroup{Group: "crew", Add: []string{"zoe", "dan", "abe"}, Remove: []string{"dan"}})
	var all []string
	for _, group := range RightsIn(mustRestore(t, j.state.Freeze())).Groups() {
		all = append(all, fmt.Sprint(group.GetName(), group.GetUsers()))
	}
	if want := []string{"crew[abe dan zoe]", "empty[]"}; !slices.Equal(all, want) {
		t.Errorf("%q, want %q", all, want)
	}
	j.must(edit(poolChange("ads", map[string]any{"acl": nil})), &commandpb.EditGroup{Group: "crew", Delete: true})
}

// TestSubjectsStayWithinTheirRights has subjects ask for any commands over random trees, groups and
// rights, also such as only the system may propose. What has changed after each command must be
// what the subject had the right to change before it, and nothing if it was refused.
func TestSubjectsStayWithinTheirRights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := New()
		state.Apply(1, treeEdit("", map[string]any{"acl": map[string]any{"use": []any{}}}))
		state.limits = WithGrants(state.limits)
		for i := range rapid.IntRange(1, 80).Draw(t, "steps") {
			msg := drawCommand(t, state, i)
			user := rapid.SampledFrom([]string{"", "ann", "bob", "eve"}).Draw(t, "subject")
			if user == "" {
				state.Apply(uint64(i+2), msg)
				continue
			}
			if field := msg.ProtoReflect().Descriptor().Fields().ByName("user"); field != nil {
				msg.ProtoReflect().Set(field, protoreflect.ValueOfString(user))
			}
			before, content := recordsOf(t, state.Freeze()), contentOf(t, state)
			result, _ := ApplyBy(state, uint64(i+2), &commandpb.Subject{User: user}, proto.CloneOf(msg))
			switch after := recordsOf(t, state.Freeze()); {
			case result.GetRefusal() == nil:
				checkChanges(t, newPowers(before, user), before, after, msg)
			case !bytes.Equal(content, contentOf(t, state)):
				t.Fatalf("user %s was refused (%v), and %T %v changed the state", user, result.GetRefusal(), msg, msg)
			}
		}
	})
}

// powers are what a user may do in a state, found in its records.
type powers struct {
	user   string
	groups []string
	pools  map[string]*statepb.Pool
	trees  map[string]*statepb.PoolTree
	// as has the accounts and groups of the machines; ruled says that they need a grant.
	as    map[string]bool
	ruled bool
}

func newPowers(records []*statepb.Record, user string) powers {
	p := powers{user: user, pools: map[string]*statepb.Pool{}, trees: map[string]*statepb.PoolTree{}, as: map[string]bool{}}
	for _, r := range records {
		if slices.Contains(r.GetGroup().GetUsers(), user) {
			p.groups = append(p.groups, r.GetGroup().GetName())
		}
		if tree := r.GetTree(); tree != nil {
			p.trees[tree.GetName()] = tree
			for _, pool := range tree.GetPools() {
				p.pools[tree.GetName()+"/"+pool.GetName()] = pool
			}
		}
	}
	for _, r := range records {
		p.ruled = p.ruled || r.GetHeader().GetLimits().GetByGrant() > 0
		subject := r.GetAccounts().GetSubject()
		group, isGroup := strings.CutPrefix(subject, "group:")
		if subject == "*" || subject == "user:"+user || isGroup && slices.Contains(p.groups, group) {
			for _, name := range slices.Concat(r.GetAccounts().GetAccounts(), r.GetAccounts().GetGroups()) {
				p.as[name] = true
			}
		}
	}
	return p
}

// checkAccounts fails if a new operation runs as somebody without a grant.
func (p powers) checkAccounts(t *rapid.T, op *statepb.Operation) {
	for _, task := range op.GetSpec().GetTasks() {
		for _, name := range []string{task.GetUser(), task.GetGroup()} {
			if p.ruled && name != "" && !p.as[name] {
				t.Fatalf("%s has started operation %s as %q, with %v", p.user, op.GetId(), name, p.as)
			}
		}
	}
}

// has reports whether the user has a right on a pool. An ephemeral pool that is not there yet is
// below its parent: of pool$user that is the pool, of others the root, or default_parent_pool.
func (p powers) has(right, tree, pool string) bool {
	given := func(acl any) bool {
		list, _ := acl.(map[string]any)
		for _, subject := range anyList(list[right]) {
			if subject == "*" || subject == "user:"+p.user || slices.ContainsFunc(p.groups, func(g string) bool { return subject == "group:"+g }) {
				return true
			}
		}
		return false
	}
	root, isSet := p.trees[tree].GetOptions().AsMap()["acl"]
	if given(root) || !isSet && right == "use" {
		return true
	}
	for range 50 {
		record := p.pools[tree+"/"+pool]
		if given(record.GetOptions().AsMap()["acl"]) {
			return true
		}
		if pool = record.GetParent(); pool == "" || pool == "<Root>" {
			return false
		}
	}
	return false
}

// checkChanges fails unless the user had the right to every change.
func checkChanges(t *rapid.T, p powers, before, after []*statepb.Record, msg proto.Message) {
	was := map[string]*statepb.Record{}
	for _, r := range before {
		was[keyOf(r)] = r
	}
	for _, now := range after {
		key := keyOf(now)
		old := was[key]
		delete(was, key)
		if proto.Equal(old, now) {
			continue
		}
		switch {
		case now.GetHeader() != nil:
			// Only the index, the time and the last id of a pool.
			if now.GetHeader().GetDefaultTree() != old.GetHeader().GetDefaultTree() || now.GetHeader().GetTerm().GetTerm() != old.GetHeader().GetTerm().GetTerm() {
				t.Fatalf("%s: %T %v changed the header", p.user, msg, msg)
			}
		case now.GetOperation() != nil:
			p.checkOperation(t, old.GetOperation(), now.GetOperation(), after, msg)
		case now.GetTree() != nil && old != nil:
			p.checkTree(t, old.GetTree(), now.GetTree(), msg)
		case now.GetAllocation() != nil, now.GetArchive() != nil, now.GetClaim() != nil, now.GetRate() != nil:
			// They change with operations.
		default:
			t.Fatalf("%s: %T %v made %v", p.user, msg, msg, now)
		}
	}
	for key, gone := range was {
		if gone.GetClaim() == nil && gone.GetRate() == nil && gone.GetOperation() == nil && gone.GetAllocation() == nil {
			t.Fatalf("%s: %T %v removed %s", p.user, msg, msg, key)
		}
	}
}

func keyOf(r *statepb.Record) string {
	return fmt.Sprintf("%T/%s/%s/%s/%s/%s/%s/%s/%s/%s", r.GetRecord(), r.GetTree().GetName(), r.GetNode().GetId(), r.GetOperation().GetId(),
		r.GetAllocation().GetJobId(), r.GetGroup().GetName(), r.GetProfile().GetKey(), r.GetAccounts().GetSubject(), r.GetNodeGrant().GetPattern(), r.GetStore().GetName())
}

func (p powers) checkOperation(t *rapid.T, old, now *statepb.Operation, after []*statepb.Record, msg proto.Message) {
	next := newPowers(after, p.user)
	if old == nil {
		p.checkAccounts(t, now)
	}
	for i, in := range now.GetTrees() {
		entered := old == nil || i < len(old.GetTrees()) && old.GetTrees()[i].GetPool() != in.GetPool()
		// An ephemeral pool of the operation is made by the command.
		_, edits := msg.(*commandpb.EditTree)
		if entered && !edits && !next.has("use", in.GetTree(), in.GetPool()) {
			t.Fatalf("%s: %T %v put operation %s into pool %s/%s", p.user, msg, msg, now.GetId(), in.GetTree(), in.GetPool())
		}
	}
	if _, edits := msg.(*commandpb.EditTree); edits {
		// A pool of it was renamed.
		return
	}
	allowed := now.GetUser() == p.user
	for _, in := range old.GetTrees() {
		allowed = allowed || p.has("manage", in.GetTree(), in.GetPool())
	}
	if !allowed {
		t.Fatalf("%s: %T %v changed operation %s of %s", p.user, msg, msg, now.GetId(), now.GetUser())
	}
}

func (p powers) checkTree(t *rapid.T, old, now *statepb.PoolTree, msg proto.Message) {
	if !proto.Equal(old.GetOptions(), now.GetOptions()) {
		t.Fatalf("%s: %T %v changed the options of tree %s", p.user, msg, msg, now.GetName())
	}
	pools := map[uint64]*statepb.Pool{}
	for _, pool := range old.GetPools() {
		pools[pool.GetId()] = pool
	}
	may := func(pool *statepb.Pool) {
		if pool != nil && pool.GetEphemeralUser() == "" && !p.has("administer", now.GetName(), pool.GetParent()) && !p.has("administer", now.GetName(), now.GetName()) {
			t.Fatalf("%s: %T %v changed pool %s below %q", p.user, msg, msg, pool.GetName(), pool.GetParent())
		}
	}
	for _, pool := range now.GetPools() {
		was := pools[pool.GetId()]
		delete(pools, pool.GetId())
		if was != nil && proto.Equal(withoutTimes(was), withoutTimes(pool)) {
			continue
		}
		may(was)
		if was == nil {
			// Its parent may have been made or renamed by the same command.
			above := pool.GetParent()
			if _, known := p.pools[now.GetName()+"/"+above]; !known && above != "" && above != string(scheduling.RootPool) {
				continue
			}
		}
		may(pool)
	}
	for _, gone := range pools {
		may(gone)
	}
}

func withoutTimes(pool *statepb.Pool) *statepb.Pool {
	pool = proto.CloneOf(pool)
	pool.CreatedTime, pool.ModifiedTime = nil, nil
	return pool
}
