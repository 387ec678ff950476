package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// granted is the cluster of company, in a term in which accounts need a grant.
func granted(t *testing.T) *journal {
	j := company(t)
	j.must(&commandpb.BeginTerm{Term: 2, Replica: "r1", ClusterId: "c1", Limits: WithGrants(WithBytes(nil))})
	return j
}

// startOf is the start of an operation of ann in pool ads, with tasks as one of them is.
func startOf(id string, task *statepb.TaskSpec) *commandpb.StartOperation {
	m := startAs("ads", "ann")
	m.OperationId = id
	m.Spec.Tasks[0].User, m.Spec.Tasks[0].Group, m.Spec.Tasks[0].Isolation = task.GetUser(), task.GetGroup(), task.GetIsolation()
	return m
}

// by applies a command that a subject asks for, and returns the code and the text of the refusal.
func (j *journal) by(who *commandpb.Subject, msg proto.Message) (code, text string) {
	j.entries = append(j.entries, msg)
	result, _ := ApplyBy(j.state, uint64(len(j.entries)), who, msg)
	return result.GetRefusal().GetCode(), result.GetRefusal().GetMessage()
}

var (
	ann  = &commandpb.Subject{User: "ann"}
	oda  = &commandpb.Subject{User: "oda", Operator: true}
	asX  = &statepb.TaskSpec{User: "x"}
	bare = &statepb.TaskSpec{Isolation: "none"}
)

// TestAccountsNeedAGrant (T2): what a specification asks for is refused unless a grant of the user, of
// a group of the user in this state, or of everyone has it.
func TestAccountsNeedAGrant(t *testing.T) {
	const tail = ": this needs a grant: an operator gives it with: weir account allow user:ann "
	for story, test := range map[string]struct {
		grants []*commandpb.EditAccounts
		by     *commandpb.Subject
		task   *statepb.TaskSpec
		want   string
	}{
		"nothing is asked for":   {nil, ann, &statepb.TaskSpec{Isolation: "strict"}, ""},
		"no grant, account":      {nil, ann, asX, `user "ann" may not have jobs run as user x` + tail + "--as x"},
		"no grant, group":        {nil, ann, &statepb.TaskSpec{Group: "docker"}, `may not have jobs run in group docker` + tail + "--group docker"},
		"no grant, no isolation": {nil, ann, bare, `may not have jobs run with isolation: none` + tail + "--isolation-none"},
		"an operator":            {nil, oda, asX, ""},
		"the system":             {nil, nil, asX, ""},
		"of the user":            {[]*commandpb.EditAccounts{{Subject: "user:ann", Accounts: []string{"x"}}}, ann, asX, ""},
		"of everyone":            {[]*commandpb.EditAccounts{{Subject: "*", IsolationNone: true}}, ann, bare, ""},
		"of another":             {[]*commandpb.EditAccounts{{Subject: "user:bob", Accounts: []string{"x"}, IsolationNone: true}}, ann, asX, "--as x"},
		"another account":        {[]*commandpb.EditAccounts{{Subject: "user:ann", Accounts: []string{"y", "xx"}, Groups: []string{"x"}, IsolationNone: true}}, ann, asX, "--as x"},
		"account without group":  {[]*commandpb.EditAccounts{{Subject: "user:ann", Accounts: []string{"x", "g"}}}, ann, &statepb.TaskSpec{User: "x", Group: "g"}, "--group g"},
		"grants add up": {[]*commandpb.EditAccounts{{Subject: "user:ann", Accounts: []string{"x"}}, {Subject: "group:crew", Groups: []string{"g"}}}, ann,
			&statepb.TaskSpec{User: "x", Group: "g"}, ""},
		"a group that a gateway tells": {[]*commandpb.EditAccounts{{Subject: "group:told", Accounts: []string{"x"}}},
			&commandpb.Subject{User: "ann", Groups: []string{"told"}}, asX, "--as x"},
	} {
		t.Run(story, func(t *testing.T) {
			j := granted(t)
			j.must(&commandpb.EditGroup{Group: "crew", Add: []string{"ann"}}, &commandpb.EditGroup{Group: "told"})
			for _, grant := range test.grants {
				j.must(grant)
			}
			m := startOf("new", test.task)
			if test.by == oda {
				m.User = "oda"
			}
			code, text := j.by(test.by, m)
			if test.want == "" && code != "" || test.want != "" && (code != CodeDenied || !strings.Contains(text, test.want)) {
				t.Errorf("%s %q, want %q", code, text, test.want)
			}
			// Only an operation that its user needed a grant for depends on it.
			op, _ := j.state.Operation("new")
			needs := len(test.grants) > 0
			if code == "" && op.GetNeedsGrant() != needs {
				t.Errorf("needs_grant %t, want %t", op.GetNeedsGrant(), needs)
			}
		})
	}
}

// TestJobsWaitForAGrant (T2): when the grant is taken away, nothing of the operation is demanded any more; its running jobs and those
// of others are as before. When it is given again, what is left is demanded. The grant of a group counts, too.
func TestJobsWaitForAGrant(t *testing.T) {
	j := company(t)
	j.must(&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "c1", Limits: WithGrants(WithBytes(nil))})
	j.must(nodeOf("n1", 8), &commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"x"}})
	for id, task := range map[string]*statepb.TaskSpec{"as-x": asX, "plain": {}} {
		m := startOf(id, task)
		m.Spec.Tasks[0].JobCount = 3
		if code, text := j.by(ann, m); code != "" {
			t.Fatalf("%s: %s", code, text)
		}
		j.must(roadOf(id, m.Spec)...)
		grant := grantOf(id+"-0", id)
		grant.Task = m.Spec.GetTasks()[0].GetName()
		j.must(&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{grant}})
	}
	task := scheduling.TaskName(startOf("x", asX).Spec.GetTasks()[0].GetName())
	runs := 1
	tells := func(moment string, msg proto.Message, wanted ...int64) {
		t.Helper()
		var want []Event
		for _, n := range wanted {
			want = append(want, DemandChanged{ID: "as-x", Task: task, Pending: n})
		}
		if events := j.must(msg); !slices.Equal(events, want) {
			t.Errorf("%s: told %v, want %v", moment, events, want)
		}
		for _, s := range []*State{j.state, mustRestore(t, j.state.Freeze())} {
			for _, n := range wanted {
				if got := s.Demand("as-x"); len(got) != 1 || got[0].Pending != n {
					t.Errorf("%s: demand %v, want %d", moment, got, n)
				}
			}
			if got := s.Demand("plain"); len(got) != 1 || got[0].Pending != 2 {
				t.Errorf("%s: demand of the other operation is %v", moment, got)
			}
			if n := s.AllocationCount("as-x"); n != runs {
				t.Errorf("%s: %d jobs run, want %d", moment, n, runs)
			}
		}
	}
	tells("taken away", &commandpb.EditAccounts{Subject: "user:ann", Disallow: true}, 0)
	tells("another account", &commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"y"}})
	tells("given again", &commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"x"}}, 2)
	tells("a group", &commandpb.EditGroup{Group: "crew", Add: []string{"ann"}})
	tells("a grant of the group", &commandpb.EditAccounts{Subject: "group:crew", Accounts: []string{"x"}})
	tells("hers is taken away", &commandpb.EditAccounts{Subject: "user:ann", Disallow: true})
	tells("out of the group", &commandpb.EditGroup{Group: "crew", Remove: []string{"ann"}}, 0)
	// The cookie of a job that its agent refuses to start waits, too.
	runs = 0
	j.must(&commandpb.FinishJobs{OperationId: "as-x", Epoch: 1, Jobs: []*statepb.FinishedJob{{JobId: "as-x-0", State: "aborted", AbortReason: "get_spec_failed"}}})
	op, _ := j.state.Operation("as-x")
	if c := op.GetTasks()[0].GetCounters(); c.GetPending() != 3 || c.GetFailed() != 0 || op.GetState() != "running" {
		t.Errorf("%v, %s", c, op.GetState())
	}
	tells("back in the group", &commandpb.EditGroup{Group: "crew", Add: []string{"ann"}}, 3)
}

// TestGrantsThatEnd (T2): jobs start as long as the grant is there, also after a restore. Operations of
// operators, and those from before grants, never ask.
func TestGrantsThatEnd(t *testing.T) {
	j := company(t)
	if code, text := j.by(ann, startOf("former", asX)); code != "" {
		t.Fatalf("a log of old: %s %s", code, text)
	}
	j.must(&commandpb.BeginTerm{Term: 2, Replica: "r1", ClusterId: "c1", Limits: WithGrants(WithBytes(nil))},
		&commandpb.EditGroup{Group: "crew", Add: []string{"ann"}}, &commandpb.EditAccounts{Subject: "group:crew", Accounts: []string{"x"}})
	if code, text := j.by(ann, startOf("anns-x", asX)); code != "" {
		t.Fatalf("with a grant: %s %s", code, text)
	}
	byOda := startOf("odas", asX)
	byOda.User = "oda"
	if code, text := j.by(oda, byOda); code != "" {
		t.Fatalf("by an operator: %s %s", code, text)
	}
	why := func(s *State, id string) string {
		for op := range s.Operations() {
			if op.GetId() == id {
				return RightsIn(s).Ungranted(op)
			}
		}
		return "it is gone"
	}
	check := func(moment, want string) {
		t.Helper()
		for _, s := range []*State{j.state, mustRestore(t, j.state.Freeze())} {
			for _, id := range []string{"former", "odas", "anns"} {
				if got := why(s, id); got != "" {
					t.Errorf("%s: %s: %s", moment, id, got)
				}
			}
			if got := why(s, "anns-x"); got != want {
				t.Errorf("%s: %q, want %q", moment, got, want)
			}
		}
	}
	const denied = `user "ann" may not have jobs run as user x: this needs a grant: an operator gives it with: weir account allow user:ann --as x`
	check("with a grant", "")
	j.must(&commandpb.EditGroup{Group: "crew", Remove: []string{"ann"}})
	check("out of the group", denied)
	j.must(&commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"x"}})
	check("with a grant of her own", "")
	j.must(&commandpb.EditAccounts{Subject: "user:ann", Disallow: true})
	check("taken away", denied)
}

func TestEditAccounts(t *testing.T) {
	j := granted(t)
	many := make([]string, maxAccounts+1)
	for i := range many {
		many[i] = fmt.Sprint(1000 + i)
	}
	j.must(&commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"x", "a", "x"}, Groups: []string{"g"}})
	for _, test := range []struct {
		msg  *commandpb.EditAccounts
		want string
	}{
		{&commandpb.EditAccounts{Subject: "ann", Accounts: []string{"x"}}, CodeInvalidAccount},
		{&commandpb.EditAccounts{Subject: "user:ann"}, CodeInvalidAccount},
		{&commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"a b"}}, CodeInvalidAccount},
		{&commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"007"}}, CodeInvalidAccount},
		{&commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"4294967295"}}, CodeInvalidAccount},
		{&commandpb.EditAccounts{Subject: "user:ann", Groups: []string{""}}, CodeInvalidAccount},
		{&commandpb.EditAccounts{Subject: "user:ann", Accounts: many}, CodeInvalidAccount},
		{&commandpb.EditAccounts{Subject: "group:none", Accounts: []string{"x"}}, CodeUnknownGroup},
		{&commandpb.EditAccounts{Subject: "user:bob", Disallow: true}, CodeUnknownAccount},
		{&commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"a", "y"}, Disallow: true}, CodeUnknownAccount},
		{&commandpb.EditAccounts{Subject: "user:ann", Groups: []string{"x"}, Disallow: true}, CodeUnknownAccount},
		{&commandpb.EditAccounts{Subject: "user:ann", IsolationNone: true, Disallow: true}, CodeUnknownAccount},
	} {
		before := contentOf(t, j.state)
		result, _ := j.apply(test.msg)
		if got := result.GetRefusal().GetCode(); got != test.want {
			t.Errorf("%v: %s %s, want %s", test.msg, got, result.GetRefusal().GetMessage(), test.want)
		}
		if string(contentOf(t, j.state)) != string(before) {
			t.Errorf("%v is refused and has changed the state", test.msg)
		}
	}
	all := func() (lines []string) {
		for _, a := range RightsIn(mustRestore(t, j.state.Freeze())).Accounts() {
			lines = append(lines, fmt.Sprintf("%s%v%v%t", a.GetSubject(), a.GetAccounts(), a.GetGroups(), a.GetIsolationNone()))
		}
		return lines
	}
	for _, step := range []struct {
		msg  proto.Message
		want []string
	}{
		{&commandpb.EditAccounts{Subject: "*", IsolationNone: true}, []string{"*[][]true", "user:ann[a x][g]false"}},
		{&commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"b"}, IsolationNone: true}, []string{"*[][]true", "user:ann[a b x][g]true"}},
		{&commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"a", "x"}, Groups: []string{"g"}, Disallow: true}, []string{"*[][]true", "user:ann[b][]true"}},
		{&commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"b"}, IsolationNone: true, Disallow: true}, []string{"*[][]true"}},
		{&commandpb.EditAccounts{Subject: "*", Disallow: true}, nil},
		{&commandpb.EditAccounts{Subject: "group:crew", Accounts: []string{"x"}}, []string{"group:crew[x][]false"}},
		{edit(poolChange("ads", map[string]any{"acl": nil})), []string{"group:crew[x][]false"}},
	} {
		j.must(step.msg)
		if got := all(); !slices.Equal(got, step.want) {
			t.Errorf("%v: %q, want %q", step.msg, got, step.want)
		}
	}
	result, _ := j.apply(&commandpb.EditGroup{Group: "crew", Delete: true})
	if got := result.GetRefusal(); got.GetCode() != CodeGroupInUse || !strings.Contains(got.GetMessage(), "weir account disallow group:crew") {
		t.Errorf("%v", got)
	}
	j.must(&commandpb.BeginTerm{Term: 3, Replica: "r1", ClusterId: "c1", Limits: &statepb.Limits{ByGrant: 1}})
	if result, _ = j.apply(&commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"x"}}); result.GetRefusal().GetCode() != CodeTooManyGrants {
		t.Errorf("%v", result)
	}
	j.must(&commandpb.EditAccounts{Subject: "group:crew", Accounts: []string{"y"}})
}
