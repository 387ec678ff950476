package api

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"weir/api/spec"
	"weir/messages/apipb"
	"weir/messages/commandpb"
)

// filed is an operation of a test of lists, as the test made it.
type filed struct {
	*apipb.Operation
	kinds  []string
	labels map[string]string
	// failures are when jobs of it failed, and when it did.
	failures []time.Time
}

// now returns the time of the last command.
func (s *site) now() time.Time { return begin.Add(time.Duration(s.Applied()) * time.Second) }

// fileOperations has operations of each type in each state, and returns them latest first.
func fileOperations(s *site) (all []filed) {
	for i := range operationsSearched + 26 {
		f := filed{kinds: []string{"vanilla"}, labels: map[string]string{"team": []string{"ads", "web"}[i%2], "level": fmt.Sprint(i % 3)}}
		task, more := "", ""
		switch i % 4 {
		case 1:
			f.kinds, task = append(f.kinds, "service"), `, "restart_completed_jobs": true, "readiness": {"exec": ["true"]}`
		case 2:
			f.kinds, more = append(f.kinds, "gang"), `, "is_gang": true`
		case 3:
			f.kinds, task = append(f.kinds, "service"), `, "readiness": {"exec": ["true"]}`
		}
		if i%7 == 0 {
			f.labels["urgent"] = "true"
			more += `, "annotations": {"team": "` + f.labels["team"] + `", "level": ` + f.labels["level"] + `, "urgent": true, "deep": {"urgent": "x"}}`
		} else {
			more += `, "labels": {"team": "` + f.labels["team"] + `", "level": ` + f.labels["level"] + `, "deep": {"urgent": true}, "none": null}`
		}
		failing := map[bool]int{true: 0, false: 5}[i%5 == 4]
		id := fmt.Sprintf("op-%d", i)
		startAtItsTime(s, id, fmt.Sprintf(`{"title": "%s %d", "max_failed_job_count": %d, "tasks": {"t": {"job_count": 2, "command": ["run"]%s}}%s}`,
			[]string{"red", "blue"}[i/3%2], i, failing, task, more))
		f.Operation = &apipb.Operation{Id: id}
		how := i % 5
		if i >= 35 && how < 2 {
			// A pool runs few at once.
			how = 3
		}
		f.failures = endOperation(s, id, how)
		all = append(all, f)
	}
	for i := range all {
		answer := &apipb.GetOperationResponse{}
		if err := protojson.Unmarshal([]byte(s.post("OperationService/Get", `{"operation": "`+all[i].GetId()+`"}`).raw), answer); err != nil {
			s.t.Fatal(err)
		}
		all[i].Operation = answer.GetOperation()
	}
	slices.Reverse(all)
	return all
}

// startAtItsTime starts an operation at the time of the test's log, not of the machine.
func startAtItsTime(s *site, id, body string) {
	document, err := spec.Read([]byte(body))
	if err != nil {
		s.t.Fatal(err)
	}
	described, _, err := document.Check()
	if err != nil {
		s.t.Fatal(err)
	}
	s.must(&commandpb.StartOperation{OperationId: id, User: "ann", Spec: described, CountFailures: true})
}

// endOperation leads an operation to one of five ends, and returns when something of it failed.
func endOperation(s *site, id string, how int) (failures []time.Time) {
	if how == 0 {
		return nil
	}
	s.leadsTo(id, 2, id+"-j")
	state := ""
	switch how {
	case 1:
		s.finish(id, id+"-j", "failed")
		return []time.Time{s.now()}
	case 2:
		s.must(&commandpb.CompleteOperation{OperationId: id, User: "ann"})
		state = "complet"
	case 3:
		s.must(&commandpb.AbortOperation{OperationId: id, User: "ann"})
		state = "abort"
	case 4:
		s.finish(id, id+"-j", "failed")
		failures, state = append(failures, s.now()), "fail"
	}
	if how != 4 {
		s.finish(id, id+"-j", "aborted")
	}
	s.must(&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: state + "ing", To: strings.TrimSuffix(state, "e") + "ed"})
	if how == 4 {
		failures = append(failures, s.now())
	}
	return failures
}

// selected reports whether a request selects an operation, by what the test knows of it.
func (f filed) selected(m *apipb.ListOperationsRequest) bool {
	within := func(at, since, before *timestamppb.Timestamp) bool {
		if since == nil && before == nil {
			return true
		}
		return at != nil && (since == nil || at.AsTime().Compare(since.AsTime()) >= 0) && (before == nil || at.AsTime().Compare(before.AsTime()) < 0)
	}
	for _, label := range m.GetLabels() {
		name, value, equal := strings.Cut(label, "=")
		bare := strings.TrimSuffix(name, "!")
		got, has := f.labels[bare]
		if !equal && !has || equal && bare == name && got != value || bare != name && has && got == value {
			return false
		}
	}
	return (m.GetState() == "" || m.GetState() == f.GetState()) && (m.GetType() == "" || slices.Contains(f.kinds, m.GetType())) &&
		(!m.GetInProgress() || f.GetFinishTime() == nil) && strings.Contains(f.GetTitle(), m.GetTitle()) &&
		(strings.Contains(f.GetTitle(), m.GetFilter()) || strings.Contains(f.GetId(), m.GetFilter())) &&
		within(f.GetStartTime(), m.GetStartedSince(), m.GetStartedBefore()) && within(f.GetFinishTime(), m.GetFinishedSince(), m.GetFinishedBefore()) &&
		(m.GetFailedSince() == nil || slices.ContainsFunc(f.failures, func(at time.Time) bool { return !at.Before(m.GetFailedSince().AsTime()) }))
}

// drawFilter draws a request; each filter is set in few of them. Its times are some of those at which something happened:
// bounds that are one too far show.
func drawFilter(t *rapid.T, times []time.Time) *apipb.ListOperationsRequest {
	text := func(name string, values ...string) string {
		return rapid.SampledFrom(append(make([]string, 2*len(values)), values...)).Draw(t, name)
	}
	moment := func(name string) *timestamppb.Timestamp {
		if rapid.IntRange(0, 3).Draw(t, name+" set") > 0 {
			return nil
		}
		return timestamppb.New(rapid.SampledFrom(times).Draw(t, name))
	}
	m := &apipb.ListOperationsRequest{
		State: text("state", "starting", "running", "completed", "aborted", "failed"), Type: text("type", "vanilla", "service", "gang", "map"),
		Title: text("title", "red", "blue", " 1"), Filter: text("filter", "ed", "op-1", "zzz"), InProgress: rapid.IntRange(0, 4).Draw(t, "live") == 0,
		StartedSince: moment("started since"), StartedBefore: moment("started before"), FinishedSince: moment("finished since"),
		FinishedBefore: moment("finished before"), FailedSince: moment("failed since"), Limit: rapid.Int32Range(1, 9).Draw(t, "limit"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "labels") {
		m.Labels = append(m.Labels, rapid.SampledFrom([]string{"team=ads", "team!=ads", "team", "level=1", "level!=2", "urgent", "urgent=true", "urgent!=true", "deep", "none"}).Draw(t, "label"))
	}
	return m
}

// TestListFilters lists operations with filters drawn by chance: the pages, joined, are what the filter selects of all
// operations, in their order; no page is empty while more follow, and none ends early but for its bytes.
func TestListFilters(t *testing.T) {
	s := newDirectSite(t, func(l *Limits) { l.AnswerBytes = 3 << 10 })
	all := fileOperations(s)
	var times []time.Time
	for _, f := range all {
		times = append(times, f.failures...)
		for _, at := range []*timestamppb.Timestamp{f.GetStartTime(), f.GetFinishTime()} {
			if at != nil {
				times = append(times, at.AsTime())
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m := drawFilter(t, times)
		if _, err := filterOf(m); err != nil {
			t.Skip("no time is between two of the request")
		}
		var wanted, got []string
		for _, f := range all {
			if f.selected(m) {
				wanted = append(wanted, f.GetId())
			}
		}
		for more := true; more; {
			body, err := protojson.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			reply, page := s.post("OperationService/List", string(body)), &apipb.ListOperationsResponse{}
			if err := protojson.Unmarshal([]byte(reply.raw), page); err != nil || reply.status != http.StatusOK {
				t.Fatalf("%s: %d %s %v", body, reply.status, reply.raw, err)
			}
			if more = page.GetIncomplete(); more && len(page.GetOperations()) == 0 || len(page.GetOperations()) > int(m.GetLimit()) {
				t.Fatalf("%s: %d operations, more follow: %t", body, len(page.GetOperations()), more)
			}
			for _, op := range page.GetOperations() {
				got = append(got, op.GetId())
				m.After = op.GetId()
			}
		}
		if !slices.Equal(got, wanted) {
			t.Fatalf("%v: %v, want %v", m, got, wanted)
		}
	})
}

// TestLabelsAndSince wants that operations are shown with their labels, and since when they are in their state.
func TestLabelsAndSince(t *testing.T) {
	s := newSite(t)
	for _, f := range fileOperations(s) {
		for name := range f.labels {
			if f.GetLabels()[name] != f.labels[name] || len(f.GetLabels()) != len(f.labels) {
				t.Errorf("%s has labels %v, want %v", f.GetId(), f.GetLabels(), f.labels)
			}
		}
		began := cmp.Or(f.GetFinishTime(), f.GetStartTime())
		if since := f.GetStateSince().AsTime(); f.GetState() == "running" && !since.After(began.AsTime()) || f.GetState() != "running" && !since.Equal(began.AsTime()) {
			t.Errorf("%s, started or ended at %s, is %s since %s", f.GetId(), began.AsTime(), f.GetState(), since)
		}
	}
	// An operation has failed when it ends, later than its last job.
	id := at(t, s.get("OperationService/List", `{"state": "failed", "limit": 1}`), "operations", 0, "id").(string)
	ended := at(t, s.get("OperationService/Get", `{"operation": "`+id+`"}`), "operation", "finish_time").(string)
	want(t, s.get("OperationService/List", `{"state": "failed", "failed_since": "`+ended+`"}`), id, "operations", 0, "id")
	// What happens in a state does not begin it.
	id = at(t, s.get("OperationService/List", `{"state": "running", "limit": 1}`), "operations", 0, "id").(string)
	since := at(t, s.get("OperationService/Get", `{"operation": "`+id+`"}`), "operation", "state_since")
	s.get("OperationService/Suspend", `{"operation": "`+id+`"}`)
	want(t, s.get("OperationService/Get", `{"operation": "`+id+`"}`), since, "operation", "state_since")
}

// TestListedAsRead wants a list to say of operations that ended, wherever their records are, what reading each says.
func TestListedAsRead(t *testing.T) {
	s := newSite(t)
	fileOperations(s)
	listed := at(t, s.get("OperationService/List", `{"limit": 1000}`), "operations").([]any)
	ended := 0
	for _, one := range listed {
		listed, id := one.(map[string]any), at(t, one, "id").(string)
		read := at(t, s.get("OperationService/Get", `{"operation": "`+id+`"}`), "operation").(map[string]any)
		if listed["finish_time"] != nil {
			ended++
		}
		for _, name := range []string{"state_since", "labels", "progress", "tasks", "result", "controller", "trees"} {
			if got, want := listed[name], read[name]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is listed as %v, read as %v", id, name, got, want)
			}
		}
	}
	if ended == 0 || ended == len(listed) {
		t.Errorf("%d of %d operations have ended", ended, len(listed))
	}
}

// TestListRefusals wants that a filter that cannot be meant is refused, with what to write.
func TestListRefusals(t *testing.T) {
	s := newDirectSite(t)
	for body, wanted := range map[string]string{
		`{"type": "batch"}`:                                    `type "batch": must be one of vanilla, map, service, gang`,
		`{"labels": ["team ads"]}`:                             `label "team ads": write NAME=VALUE, NAME!=VALUE or NAME`,
		`{"labels": ["=ads"]}`:                                 `label "=ads": write NAME=VALUE`,
		`{"labels": ["a=` + strings.Repeat("x", 257) + `"]}`:   `label "a": its value has 257 bytes, and those of labels have at most 256`,
		`{"labels": ["a"` + strings.Repeat(`, "a"`, 16) + `]}`: `17 labels: at most 16`,
		`{"started_since": "2026-01-02T00:00:00Z", "started_before": "2026-01-02T00:00:00Z"}`:   `started_since is not earlier than started_before`,
		`{"finished_since": "2026-01-02T00:00:00Z", "finished_before": "2026-01-01T00:00:00Z"}`: `finished_since is not earlier than finished_before`,
		`{"failed_since": "0000-01-01T00:00:00Z"}`:                                              `Timestamp`,
	} {
		reply := s.post("OperationService/List", body)
		if text := fmt.Sprint(reply.fields["message"]); reply.status != http.StatusBadRequest || !strings.Contains(text, wanted) {
			t.Errorf("%s: %d %s, want %s", body, reply.status, reply.raw, wanted)
		}
	}
}
