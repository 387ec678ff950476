package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
)

// Ids of the same minute: the first digits are equal, and two of them end alike.
const (
	idAnn  = "01990000-aaaa-7000-8000-0000deadbeef"
	idTwin = "01990000-aaaa-7001-8000-1111deadbeef"
	idBen  = "01990000-bbbb-7000-8000-00000badcafe"
	jobOne = "01990000-cccc-7000-8000-00000000c0de"
	jobTwo = "01990000-cccc-7000-8000-00010000c0de"
)

// namedSite has operations of ann and of ben, who may not read those of each other.
func namedSite(t *testing.T) *site {
	s := newSite(t)
	s.get("TreeService/Set", `{"options": {"acl": {"use": [], "read": []}}}`)
	for id, user := range map[string]string{idAnn: "ann", idTwin: "ben", idBen: "ben"} {
		s.must(&commandpb.StartOperation{OperationId: id, User: user, Spec: &statepb.OperationSpec{
			Type: "vanilla", Pool: "default", Title: "title of " + id[24:28],
			Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: 2, Argv: []string{"run"}}},
		}})
	}
	s.leadsTo(idAnn, 2, jobOne, jobTwo)
	return s
}

// TestPartsOfIDs: an operation and a job are named by the first or the last digits of their ids; of a
// part that several have all are listed, as far as the caller may see them.
func TestPartsOfIDs(t *testing.T) {
	s := namedSite(t)
	for part, wantID := range map[string]string{
		"0badcafe": idBen, "badcafe": idBen, "0badca": idBen, "01990000-bb": idBen, "0000deadbeef": idAnn, idAnn: idAnn, idAnn[:30]: idAnn,
	} {
		got := s.get("OperationService/Get", `{"operation": "`+part+`"}`)
		want(t, got, wantID, "operation", "id")
	}
	for part, wantID := range map[string]string{"00010000c0de": jobTwo, "8000-00000000c0de": jobOne} {
		want(t, s.get("JobService/Get", `{"job_id": "`+part+`"}`, roleHeader, "user/ann"), wantID, "job", "id")
		want(t, s.get("ExplainService/Explain", `{"job": "`+part+`"}`, roleHeader, "user/ann"), wantID, "explanations", 0, "id")
	}
	several := s.post("JobService/Get", `{"job_id": "0000c0de"}`, roleHeader, "user/ann")
	if several.status != http.StatusBadRequest || !strings.Contains(several.raw, jobOne) || !strings.Contains(several.raw, jobTwo) {
		t.Errorf("a part of two jobs: %s", several.raw)
	}
	// Streams, and calls that change something, take parts as well.
	if line := s.answered("OperationService/Watch", `{"operation": "0badcafe"}`, "user/ben"); !strings.Contains(line, idBen) {
		t.Errorf("watch: %s", line)
	}
	if line := s.answered("OperationService/Watch", `{"operation": "deadbeef"}`, "user/ben"); !strings.Contains(line, "2 ids begin or end so") {
		t.Errorf("watch: %s", line)
	}
	s.get("OperationService/Abort", `{"operation": "0badcafe"}`, roleHeader, "user/ben")
	if lines := s.audited.taken(0); lines[len(lines)-1].Object != "operation "+idBen {
		t.Errorf("the abort was audited as %+v", lines[len(lines)-1])
	}
	// What is too short or fits nothing is not found.
	for _, name := range []string{"dcafe", "cafecafe", "0badcafe0"} {
		s.refused("OperationService/Get", `{"operation": "`+name+`"}`, state.CodeUnknownOperation)
	}
	s.refused("JobService/Get", `{"job_id": "feedfeed"}`, apipb.CodeNoSuchJob)
}

// TestPartsOfIDsOfOthers (T1): a part of an id tells nobody more of operations and jobs of others than lists do.
func TestPartsOfIDsOfOthers(t *testing.T) {
	s := namedSite(t)
	for subject, wantTitles := range map[string][]string{"user/ann": {"0000"}, "user/ben": {"1111"}, "user/eve": nil, "operator/oda": {"0000", "1111"}} {
		got := s.post("OperationService/Get", `{"operation": "deadbeef"}`, roleHeader, subject)
		if got.status != http.StatusBadRequest || !strings.Contains(got.raw, idAnn) || !strings.Contains(got.raw, idTwin) || strings.Contains(got.raw, idBen) {
			t.Errorf("as %s: %s", subject, got.raw)
		}
		if titles := strings.Count(got.raw, "title of"); titles != len(wantTitles) {
			t.Errorf("as %s: %d titles: %s", subject, titles, got.raw)
		}
		for _, title := range wantTitles {
			if !strings.Contains(got.raw, "title of "+title) {
				t.Errorf("as %s: no title of %s: %s", subject, title, got.raw)
			}
		}
		// Jobs of others are not there: neither one, nor several that would have to be told apart.
		for _, part := range []string{"00010000c0de", "0000c0de"} {
			for _, call := range []string{"JobService/Get", "JobService/Abort"} {
				got := s.post(call, `{"job_id": "`+part+`"}`, roleHeader, subject)
				hidden := got.header.Get(apipb.HeaderCode) == apipb.CodeNoSuchJob && !strings.Contains(got.raw, jobTwo)
				if may := subject == "user/ann" || subject == "operator/oda"; hidden == may {
					t.Errorf("%s %s as %s: %s", call, part, subject, got.raw)
				}
			}
		}
	}
}

// TestNamesOfOperations (T1): ids are told apart by what people call them; titles are for those who may read.
func TestNamesOfOperations(t *testing.T) {
	s := namedSite(t)
	for subject, wantTitle := range map[string]any{"user/ann": nil, "user/ben": "title of 0000", "operator/oda": "title of 0000"} {
		got := s.get("OperationService/Names", `{"ids": ["`+idBen+`", "gone", "`+jobOne+`"]}`, roleHeader, subject)
		if all := at(t, got, "operations").([]any); len(all) != 1 {
			t.Errorf("as %s: %v", subject, all)
		}
		want(t, got, "ben", "operations", 0, "user")
		want(t, got, "default", "operations", 0, "pool")
		if title := at(t, got, "operations", 0).(map[string]any)["title"]; title != wantTitle && (title != "" || wantTitle != nil) {
			t.Errorf("as %s: title %v, want %v", subject, title, wantTitle)
		}
	}
	s.refused("OperationService/Names", `{"ids": [`+strings.Repeat(`"x", `, 1000)+`"x"]}`, apipb.CodeInvalidArgument)
}

// TestInProgressFirst pages through operations in progress, latest start first, and those that have ended, latest
// end first. One that ends between two pages is left out by neither.
func TestInProgressFirst(t *testing.T) {
	s := newSite(t)
	id := func(n int) string { return fmt.Sprintf("01990000-0000-7000-8000-%012d", n) }
	start := func(n int) {
		s.must(&commandpb.StartOperation{OperationId: id(n), User: "ann", Spec: &statepb.OperationSpec{
			Type: "vanilla", Pool: "default", Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: 1, Argv: []string{"run"}}},
		}})
	}
	end := func(n int) {
		s.must(&commandpb.AbortOperation{OperationId: id(n)}, &commandpb.AdvanceOperation{OperationId: id(n), Term: 1, From: "aborting", To: "aborted"})
	}
	for n := range 8 {
		start(n)
	}
	for _, n := range []int{5, 1, 3} {
		end(n)
	}
	// page returns the numbers of a page, and where the next one begins.
	page := func(limit int, after, more string) (all []int, next string) {
		got := s.get("OperationService/List", fmt.Sprintf(`{"in_progress_first": true, "limit": %d, "after": %q%s}`, limit, after, more))
		operations, _ := got["operations"].([]any)
		for _, op := range operations {
			n, _ := strconv.Atoi(strings.TrimPrefix(at(t, op, "id").(string), id(0)[:24]))
			all = append(all, n)
		}
		next, _ = got["next"].(string)
		return all, next
	}
	for limit := 1; limit <= 9; limit++ {
		var all []int
		for next, more := "", true; more; more = next != "" {
			var some []int
			some, next = page(limit, next, "")
			all = append(all, some...)
		}
		if want := []int{7, 6, 4, 2, 0, 3, 1, 5}; !slices.Equal(all, want) {
			t.Errorf("%d a page: %v, want %v", limit, all, want)
		}
	}
	if all, next := page(9, "", `, "in_progress": true`); !slices.Equal(all, []int{7, 6, 4, 2, 0}) || next != "" {
		t.Errorf("in progress: %v, and after %q", all, next)
	}
	first, next := page(2, "", "")
	// The last one that was shown ends, and one that comes after it.
	end(6)
	end(2)
	rest, more := page(9, next, "")
	if !slices.Equal(first, []int{7, 6}) || !slices.Equal(rest, []int{4, 0, 2, 6, 3, 1, 5}) || more != "" {
		t.Errorf("%v, then %v and after %q", first, rest, more)
	}
	// The id alone says no more than where the operation is now.
	if rest, _ := page(9, id(2), ""); !slices.Equal(rest, []int{6, 3, 1, 5}) {
		t.Errorf("after %s: %v", id(2), rest)
	}
	s.refused("OperationService/List", `{"after": "in_progress:`+id(7)+`"}`, state.CodeUnknownOperation)
}
