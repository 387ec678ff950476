package events

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/eventpb"
	"weir/messages/statepb"
)

// always are fields that every event may have, whatever its kind.
var always = []string{"index", "position", "time", "kind", "tree", "pool", "places"}

// row is what docs/events.md says of some kinds of events.
type row struct{ kinds, fields []string }

// promised returns what docs/events.md says of kinds of events.
func promised(t *testing.T) (rows []row) {
	t.Helper()
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	fields := (&eventpb.Event{}).ProtoReflect().Descriptor().Fields()
	named := func(text string) (out []string) {
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(text, -1) {
			if fields.ByName(protoreflect.Name(m[1])) != nil {
				out = append(out, m[1])
			}
		}
		return out
	}
	_, ofJobs, found := strings.Cut(string(page), "The job's fields are")
	if !found {
		t.Fatal("docs/events.md does not say what the job's fields are")
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(line, "| `") {
			continue
		}
		r := row{fields: named(cells[3])}
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			r.kinds = append(r.kinds, m[1])
		}
		if strings.Contains(cells[3], "the job's") {
			r.fields = append(r.fields, named(ofJobs)...)
		}
		rows = append(rows, r)
	}
	return rows
}

// TestFieldsAreAsPromised produces events of every kind. Each field that docs/events.md
// promises is there in one event at least of the kinds that it is promised of, and no
// event has another one. 0 is the first cookie, and the first attempt.
func TestFieldsAreAsPromised(t *testing.T) {
	h, has := newHistory(t), map[string][]string{}
	for _, step := range append(life(t), rest(t)...) {
		for _, e := range h.apply(step.msg) {
			if has[e.GetKind()] = append(has[e.GetKind()], "kind"); e.GetTask() != "" {
				has[e.GetKind()] = append(has[e.GetKind()], "cookie", "attempt")
			}
			e.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
				if name := string(field.Name()); name != "cookie" && name != "attempt" {
					has[e.GetKind()] = append(has[e.GetKind()], name)
				}
				return true
			})
		}
	}
	described := map[string]bool{}
	for _, row := range promised(t) {
		var seen []string
		for _, kind := range row.kinds {
			if described[kind] = true; has[kind] == nil && slices.Contains(Kinds(), kind) {
				t.Errorf("no event %s was produced", kind)
			}
			seen = append(seen, has[kind]...)
		}
		slices.Sort(seen)
		seen = slices.Compact(seen)
		for _, field := range row.fields {
			if len(seen) > 0 && !slices.Contains(seen, field) {
				t.Errorf("%v: docs/events.md promises %s, and no event has it", row.kinds, field)
			}
		}
		for _, field := range seen {
			if !slices.Contains(row.fields, field) && !slices.Contains(always, field) && field != "cookie" && field != "attempt" {
				t.Errorf("%v: events have %s, and docs/events.md does not say so", row.kinds, field)
			}
		}
	}
	for _, kind := range Kinds() {
		if !described[kind] {
			t.Errorf("docs/events.md does not describe %s", kind)
		}
	}
}

// rest goes on behind life with what that leaves out.
func rest(t *testing.T) []step {
	edit := func(edits ...*commandpb.TreeEdit) step {
		return step{msg: &commandpb.EditTree{Tree: "gpu", User: "oda", Edits: edits}}
	}
	create := func(name string) *commandpb.TreeEdit {
		return &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: name}}}
	}
	order := func(o *statepb.StopOrder) *statepb.StopOrder {
		o.Time = timestamppb.New(epoch)
		return o
	}
	above := "top"
	steps := []step{
		{msg: &commandpb.CreateTree{Tree: "cpu", User: "oda", Options: structOf(t, map[string]any{"nodes_filter": "cpu"})}},
		{msg: &commandpb.RegisterNode{Term: 2, Node: &statepb.Node{Id: "n2", Incarnation: 1, Resources: &statepb.Resources{UserSlots: 10, CpuHundredths: 1000, Memory: 1 << 30}}}},
		edit(create("top"), create("ads")),
		edit(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_ChangePool{ChangePool: &commandpb.PoolChange{Name: "ads", Parent: &above}}}),
		{msg: &commandpb.StartOperation{OperationId: "last", User: "ann", Spec: &statepb.OperationSpec{
			Type: "vanilla", Pool: "ads", PoolTrees: []string{"gpu", "cpu"}, MaxFailedJobCount: 3,
			Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: 5, Argv: []string{"true"}, InterruptionSignal: "SIGTERM"}},
		}}},
	}
	for _, msg := range []proto.Message{
		&commandpb.AdvanceOperation{OperationId: "last", Term: 2, From: "starting", To: "waiting_for_agent"},
		&commandpb.AssignController{Term: 2, Assignments: []*commandpb.ControllerAssignment{{OperationId: "last", Replica: "r2", Epoch: 1}}},
		&commandpb.PrepareOperation{OperationId: "last", Epoch: 1},
		&commandpb.AdvanceOperation{OperationId: "last", Term: 2, From: "pending", To: "materializing", Trees: []string{"gpu"}},
		&commandpb.DefineTasks{OperationId: "last", Epoch: 1, Tasks: []*commandpb.TaskDefinition{{Name: "t", JobCount: 5, JobResources: size}}},
		&commandpb.AdmitOperation{OperationId: "last", Term: 2, Trees: []string{"cpu"}},
	} {
		steps = append(steps, step{msg: msg})
	}
	grants := &commandpb.StartAllocations{Term: 2}
	for _, job := range []string{"c", "d", "e"} {
		grants.Grants = append(grants.Grants, &commandpb.Grant{JobId: job, OperationId: "last", Task: "t", Node: "n2", NodeIncarnation: 1, Resources: size})
	}
	return append(steps,
		edit(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Rename{Rename: &commandpb.RenamePool{From: "ads", To: "shop"}}}),
		step{msg: grants},
		step{msg: &commandpb.StopJobs{OperationId: "last", JobIds: []string{"c"}, User: "ann", Order: order(&statepb.StopOrder{Reason: "user_request", Message: "enough"})}},
		step{msg: &commandpb.PreemptAllocations{Term: 2, Tree: "gpu", Preemptions: []*commandpb.Preemption{{JobId: "d", Order: order(&statepb.StopOrder{
			Reason: "preemption", Message: "why", GraceMillis: 15000, Interruption: "preemption", Preemption: "aggressive_preemption",
			PreemptedFor: &statepb.Beneficiary{OperationId: "last", Task: "t", Resources: size}})}}}},
		step{msg: &commandpb.FinishJobs{OperationId: "last", Epoch: 1, Jobs: []*statepb.FinishedJob{
			{JobId: "c", State: "aborted", AbortReason: "user_request", ExitCode: -1, Error: &statepb.Error{Message: "killed"}},
			{JobId: "d", State: "completed", Rerun: true},
		}}},
		step{msg: &commandpb.SuspendOperation{OperationId: "last", User: "ann", AbortRunningJobs: true}},
		step{msg: &commandpb.ResumeOperation{OperationId: "last", User: "ann"}},
		step{msg: &commandpb.DrainNode{Node: "n2", User: "oda", Reason: "a disk"}},
		step{msg: &commandpb.UndrainNode{Node: "n2", User: "oda"}},
		step{msg: &commandpb.StartOperation{OperationId: "mine", User: "bob", Spec: &statepb.OperationSpec{
			Type: "vanilla", Pool: "bobs", MaxFailedJobCount: 1, Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: 1, Argv: []string{"true"}}}}}},
		step{msg: &commandpb.AbortOperation{OperationId: "last", User: "ann", Reason: "no more"}},
		step{msg: &commandpb.AbortAllocations{Term: 2, Node: "n2", JobIds: []string{"c", "d", "e"}, Reason: "disappeared_from_node"}},
		step{msg: &commandpb.AdvanceOperation{OperationId: "last", Term: 2, From: "aborting", To: "aborted"}},
		edit(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Remove{Remove: "shop"}}),
		step{msg: &commandpb.SetDefaultTree{Tree: "cpu", User: "oda"}},
		step{msg: &commandpb.BeginTerm{Term: 3, Replica: "r2", ClusterId: "c", Limits: &statepb.Limits{ArchivedOperations: 1}}},
	)
}
