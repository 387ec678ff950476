package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir/cluster/identity"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// The subjects of TestRightsOnEveryCall.
var subjectsOfTest = []string{"user/stranger", "user/ann", "user/reader", "user/submitter", "user/manager", "user/admin", "user/member", "operator/oda"}

// rightsSite is a site where operation op-1 of ann runs job j1 in pool ads, on which others have one
// right each. A user who is a member of group crew has all rights.
func rightsSite(t *testing.T) (s *site, operation string) {
	s = newSite(t)
	s.must(&commandpb.EditGroup{Group: "crew", Add: []string{"member"}})
	s.get("TreeService/Set", `{"options": {"acl": {"use": []}}}`)
	s.get("PoolService/Edit", `{"edits": [{"create": {"name": "ads", "options": {"acl": {
		"use": ["user:ann", "user:submitter", "group:crew"], "read": ["user:reader", "group:crew"], "manage": ["user:manager", "group:crew"],
		"administer": ["user:admin", "group:crew"]}}}}, {"create": {"name": "ads-prod", "parent": "ads"}}]}`)
	body := `{"spec": {"pool": "ads", "title": "secret title", "labels": {"key": "secret"}, "tasks": {"t": {"job_count": 2, "command": ["secret"], "memory_limit": "1MiB", "restart_completed_jobs": true}}}}`
	operation = at(t, s.get("OperationService/Start", body, roleHeader, "user/ann"), "operation_id").(string)
	s.leadsTo(operation, 2, "j1")
	return s, operation
}

// answered returns the answer of a call; of a stream the first line.
func (s *site) answered(procedure, body, subject string) string {
	if !knownProcedures()["/weir.api.v1."+procedure].streams {
		return s.post(procedure, body, roleHeader, subject).raw
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	res := s.open(ctx, http.MethodPost, procedure, "application/json", body, roleHeader, subject)
	if procedure == "EventService/Read" {
		all, err := io.ReadAll(res.Body)
		if err != nil {
			s.t.Fatalf("%s as %s: %v", procedure, subject, err)
		}
		return string(all)
	}
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		s.t.Fatalf("%s as %s: %v", procedure, subject, err)
	}
	return line + res.Header.Get(apipb.HeaderCode)
}

// TestRightsOnEveryCall asks each call of the API as each subject: who is not in the list lacks the
// right to it, and is told so.
func TestRightsOnEveryCall(t *testing.T) {
	everyone := strings.Join(subjectsOfTest, " ")
	const (
		operator   = "operator/oda"
		readers    = "user/ann user/reader user/member operator/oda"
		managers   = "user/ann user/manager user/member operator/oda"
		submitters = "user/ann user/submitter user/member operator/oda"
		admins     = "user/admin user/member operator/oda"
		of         = `{"operation": "op-1"}`
		job        = `{"job_id": "j1"}`
	)
	table := map[string][2]string{
		"OperationService/Start": {`{"spec": {"pool": "ads", "tasks": {"t": {"job_count": 1, "command": ["x"], "memory_limit": "1MiB"}}}}`, submitters},
		// One who may start the jobs again must be allowed to read what they are.
		"OperationService/Retry": {`{"operation": "op-1", "jobs": "failed"}`, readers},
		"OperationService/List":  {`{}`, everyone}, "OperationService/Get": {of, everyone}, "OperationService/Names": {`{"ids": ["op-1"]}`, everyone}, "OperationService/Wait": {`{"operation": "op-1", "timeout_millis": 1}`, everyone},
		"OperationService/Abort": {of, managers}, "OperationService/Suspend": {of, managers}, "OperationService/Resume": {of, managers},
		"OperationService/Complete": {of, managers}, "OperationService/Update": {`{"operation": "op-1", "changes": [{"options": {"weight": 2}}]}`, managers},
		"OperationService/Events": {of, readers}, "OperationService/Instances": {of, readers}, "OperationService/Statistics": {of, readers},
		// What the caller may not read is left out: TestServices.
		"OperationService/Services": {`{}`, everyone},

		"JobService/List": {of, readers}, "JobService/Get": {job, readers}, "JobService/Statistics": {job, readers},
		"JobService/Output": {`{"job_id": "j1", "stream": "stdout"}`, readers},
		"JobService/File":   {job, managers},
		"JobService/Exec":   {`{"job_id": "j1", "session": "0123456789abcdef", "command": ["id"]}`, managers},
		"JobService/ExecIO": {`{"job_id": "j1", "session": "0123456789abcdef"}`, managers},
		"JobService/Abort":  {job, managers}, "JobService/Interrupt": {job, managers},
		"MemoryService/Profiles": {`{}`, everyone}, "MemoryService/Forget": {`{"all": true}`, operator},
		"PoolService/List": {`{}`, everyone}, "PoolService/Get": {`{"name": "ads"}`, everyone}, "PoolService/History": {`{"pool": "ads"}`, everyone},
		"PoolService/Ledger": {`{"pool": "ads"}`, everyone},
		"PoolService/Edit":   {`{"edits": [{"change": {"name": "ads-prod", "options": {"weight": 2}}}]}`, admins},
		"TreeService/List":   {`{}`, everyone}, "TreeService/Get": {`{}`, everyone}, "TreeService/WhatIf": {`{}`, everyone},
		"TreeService/Create": {`{"tree": "gpu", "options": {"nodes_filter": "gpu"}}`, operator}, "TreeService/Set": {`{"options": {"max_operation_count": 9}}`, operator},
		"TreeService/Remove": {`{"tree": "gpu"}`, operator}, "TreeService/SetDefault": {`{"tree": "default"}`, operator},
		"AttributeService/Get": {`{"path": "scheduler"}`, everyone}, "ExplainService/Explain": {of, everyone},
		"NodeService/List": {`{}`, everyone}, "NodeService/Get": {`{"node": "n1"}`, everyone}, "NodeService/Drain": {`{"node": "n1"}`, operator},
		"NodeService/Undrain": {`{"node": "n1"}`, operator}, "NodeService/Remove": {`{"node": "n1"}`, operator},
		"NodeService/Grants": {`{}`, everyone}, "NodeService/EditGrant": {`{"grant": {"pattern": "*"}, "force": true}`, operator},
		"ClusterService/Members": {`{}`, everyone}, "ClusterService/Status": {`{}`, everyone}, "ClusterService/Transfer": {`{}`, operator},
		"ClusterService/Add": {`{"id": "r9", "address": "h:1"}`, operator}, "ClusterService/Remove": {`{"id": "r9"}`, operator},
		"ClusterService/Promote": {`{"id": "r9"}`, operator}, "ClusterService/Demote": {`{"id": "r9"}`, operator},
		"ClusterService/Join":          {`{}`, ""},
		"ClusterService/UpgradeStatus": {`{}`, everyone}, "ClusterService/FinishUpgrade": {`{"version": 2}`, operator},
		"AccessService/WhoAmI": {`{}`, everyone}, "AccessService/MayI": {`{"right": "use", "pool": "ads"}`, everyone}, "AccessService/Groups": {`{}`, everyone},
		"AccessService/Revocations": {`{}`, operator}, "AccessService/Revoke": {`{"role": "user", "name": "mallory"}`, operator},
		"AccessService/Stores": {`{}`, operator}, "AccessService/EditStore": {storeBody("s", "hunter2"), operator},
		"AccessService/EditGroup": {`{"group": "other", "add": ["x"]}`, operator},
		"AccessService/Accounts":  {`{}`, everyone}, "AccessService/EditAccounts": {`{"subject": "*", "accounts": ["build"]}`, operator},
		// Each streams; TestStreamsAreGuarded has them.
		"OperationService/Watch": {}, "OperationService/WatchInstances": {}, "EventService/Read": {}, "ClusterService/Backup": {}, "AuditService/Read": {},
	}
	if listed := slices.Sorted(maps.Keys(table)); !slices.Equal(listed, procedures()) {
		t.Fatalf("the table has %q, the API %q", listed, procedures())
	}
	for procedure, row := range table {
		if row[0] == "" {
			continue
		}
		for _, subject := range subjectsOfTest {
			s, _ := rightsSite(t)
			got := s.post(procedure, row[0], roleHeader, subject)
			wantDenied := !slices.Contains(strings.Fields(row[1]), subject)
			denied := got.header.Get(apipb.HeaderCode) == apipb.CodePermissionDenied
			if denied != wantDenied || denied && got.status != http.StatusForbidden {
				t.Errorf("%s as %s: denied %t, want %t: %d %s", procedure, subject, denied, wantDenied, got.status, got.raw)
			}
		}
	}
}

func TestRefusalsSayWhoMay(t *testing.T) {
	s, operation := rightsSite(t)
	if got := s.post("ExplainService/Explain", `{"pool": "ads"}`, roleHeader, "user/stranger"); !strings.Contains(got.raw, `user \"stranger\" may not use pool \"ads\"`) {
		t.Errorf("the pool is explained as %s", got.raw)
	}
	for name, test := range map[string]struct{ procedure, body, want string }{
		"start": {"OperationService/Start", startBody(1, `, "pool": "ads"`), `user "stranger" may not use pool "ads": this needs the right use on pool "ads", held by group:crew, user:ann, user:submitter: it is given by weir pool acl 'ads' --tree default --allow user:stranger=use`},
		"abort": {"OperationService/Abort", fmt.Sprintf(`{"operation": %q}`, operation), `user "stranger" may not abort operation op-1 of user "ann": this needs the right manage on pool "ads", held by group:crew, user:manager: it is given by weir pool acl 'ads' --tree default --allow user:stranger=manage`},
		"pool":  {"PoolService/Edit", `{"edits": [{"remove": "ads-prod"}]}`, `user "stranger" may not remove pool "ads-prod": this needs the right administer on pool "ads", held by group:crew, user:admin: it is given by weir pool acl 'ads' --tree default --allow user:stranger=administer`},
		"drain": {"NodeService/Drain", `{"node": "n1"}`, `user "stranger" may not drain nodes: only operators may (certificates with role operator): ask one, or whoever keeps the authority's key for a certificate (weir tls issue --role operator)`},
	} {
		got := s.post(test.procedure, test.body, roleHeader, "user/stranger")
		if message := at(t, got.fields, "message"); message != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, message, test.want)
		}
	}
}

// TestAllThatIsLacking (T1): who asks whether edits of a tree are allowed hears of each reason why not, not of the first alone, also if
// a later edit needs what an earlier one would have made.
func TestAllThatIsLacking(t *testing.T) {
	s, _ := rightsSite(t)
	const edits = `{"edit": {"edits": [{"remove": "ads-prod"}, {"create": {"name": "new", "parent": "<Root>"}}, {"create": {"name": "newer", "parent": "new"}},
		{"change": {"name": "ads", "options": {"weight": 2}}}, {"tree_options": {"max_operation_count": 5}}]}}`
	const by = ": it is given by weir pool acl '"
	for subject, wanted := range map[string][]string{
		"operator/oda": nil,
		"user/admin": {
			`may not create pool "new": this needs the right administer on pool "<Root>", which only operators have`, `may not create pool "newer": this needs the right administer on pool "<Root>"`,
			`may not change pool "ads": this needs the right administer on pool "<Root>"`, `may not change the options of pool tree "default": only operators may`},
		"user/stranger": {
			`may not remove pool "ads-prod": this needs the right administer on pool "ads", held by group:crew, user:admin` + by + `ads' --tree default --allow user:stranger=administer`,
			`may not create pool "new"`, `may not create pool "newer"`, `may not change pool "ads"`, `may not change the options`},
	} {
		got := s.get("AccessService/MayI", edits, roleHeader, subject)
		var lacking []any
		if got["lacking"] != nil {
			lacking = got["lacking"].([]any)
		}
		if len(lacking) != len(wanted) || (got["allowed"] == true) != (len(wanted) == 0) {
			t.Errorf("%s: %v, want %q", subject, got, wanted)
			continue
		}
		for i, want := range wanted {
			if !strings.Contains(lacking[i].(string), want) {
				t.Errorf("%s: %q, want %q", subject, lacking[i], want)
			}
		}
	}
	if got := s.post("AccessService/MayI", `{"right": "use", "edit": {}}`); got.status != http.StatusBadRequest {
		t.Errorf("both: %d %s", got.status, got.raw)
	}
	if text := s.answered("ClusterService/Backup", `{}`, "user/stranger"); !strings.Contains(text, "weir tls issue --role operator") {
		t.Errorf("a refusal by role does not say who can help: %s", text)
	}
}

// TestMayIOnSeveral (W1): one call says on which of several operations a right is missing, and why.
func TestMayIOnSeveral(t *testing.T) {
	s, operation := rightsSite(t)
	mine := at(t, s.get("OperationService/Start",
		`{"spec": {"pool": "ads", "alias": "*mine", "tasks": {"t": {"job_count": 1, "command": ["x"], "memory_limit": "1MiB"}}}}`, roleHeader, "user/submitter"), "operation_id").(string)
	asked := fmt.Sprintf(`{"right": "manage", "operations": [%q, %q, "*mine", "op-none"]}`, operation, mine)
	const gone = `operation "op-none" not found`
	for subject, want := range map[string]map[string]string{
		"user/manager":   {"op-none": gone},
		"user/submitter": {operation: `may not manage operation op-1 of user "ann": this needs the right manage on pool "ads"`, "op-none": gone},
		"user/stranger":  {operation: "the right manage", mine: "the right manage", "*mine": "the right manage", "op-none": gone},
	} {
		got := s.get("AccessService/MayI", asked, roleHeader, subject)
		refused, _ := got["refused"].(map[string]any)
		if got["allowed"] == true || len(refused) != len(want) {
			t.Errorf("%s: %v, want %q", subject, got, want)
		}
		for id, part := range want {
			if text, _ := refused[id].(string); !strings.Contains(text, part) {
				t.Errorf("%s on %s: %q, want %q", subject, id, text, part)
			}
		}
	}
	got := s.get("AccessService/MayI", fmt.Sprintf(`{"right": "manage", "operations": [%q]}`, operation), roleHeader, "user/ann")
	if refused, _ := got["refused"].(map[string]any); got["allowed"] != true || len(refused) > 0 {
		t.Errorf("the owner: %v", got)
	}
	for _, bad := range []string{
		`{"right": "manage", "operations": ["a"], "operation": "b"}`, `{"right": "manage", "operations": ["a"], "pool": "ads"}`, `{"operations": ["a"]}`,
		`{"right": "manage", "operations": [` + strings.Repeat(`"a",`, 1000) + `"a"]}`, `{"operations": ["a"], "edit": {}}`,
	} {
		if got := s.post("AccessService/MayI", bad, roleHeader, "user/ann"); got.status != http.StatusBadRequest {
			t.Errorf("%.60s: %d %s", bad, got.status, got.raw)
		}
	}
}

// TestWhatOthersSee: who may not read an operation sees where it is and how far, and nothing that
// its owner wrote.
func TestWhatOthersSee(t *testing.T) {
	s, operation := rightsSite(t)
	s.get("OperationService/Start", `{"spec": {"pool": "ads", "tasks": {"t": {"job_count": 1, "command": ["x"], "memory_limit": "1MiB", "port_count": 1}}}}`, roleHeader, "user/ann")
	of := fmt.Sprintf(`{"operation": %q}`, operation)
	for _, subject := range subjectsOfTest {
		reads := slices.Contains([]string{"user/ann", "user/reader", "user/member", "operator/oda"}, subject)
		for _, call := range []struct{ procedure, body string }{
			{"OperationService/Get", of}, {"OperationService/List", `{}`}, {"OperationService/Wait", `{"operation": "op-1", "timeout_millis": 1}`},
			{"AttributeService/Get", `{"path": "scheduler/pool_trees/default/operations/op-1"}`},
			{"OperationService/Watch", of}, {"EventService/Read", `{}`},
		} {
			text := s.answered(call.procedure, call.body, subject)
			if !strings.Contains(text, operation) {
				t.Errorf("%s as %s does not show the operation: %s", call.procedure, subject, text)
			}
			if strings.Contains(text, "secret") && !reads {
				t.Errorf("%s as %s shows what the owner wrote: %s", call.procedure, subject, text)
			}
			if !strings.Contains(text, "secret") && reads && call.procedure != "EventService/Read" {
				t.Errorf("%s as %s does not show what the owner wrote: %s", call.procedure, subject, text)
			}
		}
		for _, filter := range []string{`"filter": "secret"`, `"title": "secret"`, `"labels": ["key=secret"]`, `"labels": ["other!=x"]`, `"type": "service"`} {
			filtered := s.get("OperationService/List", "{"+filter+"}", roleHeader, subject)
			if found := len(at(t, filtered, "operations").([]any)); (found > 0) != reads {
				t.Errorf("as %s a filter by %s finds %d operations", subject, filter, found)
			}
		}
	}
}

// TestStreamsAreGuarded: streams are refused like calls, and one that is open ends for who loses the
// right.
func TestStreamsAreGuarded(t *testing.T) {
	s, operation := rightsSite(t)
	of := fmt.Sprintf(`{"operation": %q}`, operation)
	for _, procedure := range []string{"OperationService/WatchInstances", "ClusterService/Backup", "AuditService/Read"} {
		if text := s.answered(procedure, of, "user/stranger"); !strings.Contains(text, apipb.CodePermissionDenied) {
			t.Errorf("%s: %s", procedure, text)
		}
	}
}

// TestRightsOfTheMomentCount: a right that is taken away, or a group that is left, counts from then on.
func TestRightsOfTheMomentCount(t *testing.T) {
	s, operation := rightsSite(t)
	suspend := func(subject string) bool {
		got := s.post("OperationService/Suspend", fmt.Sprintf(`{"operation": %q}`, operation), roleHeader, subject)
		if got.status == http.StatusOK {
			s.get("OperationService/Resume", fmt.Sprintf(`{"operation": %q}`, operation), roleHeader, subject)
		}
		return got.status == http.StatusOK
	}
	if !suspend("user/member") || !suspend("user/manager") || suspend("user/stranger") {
		t.Fatal("rights are not as they were given")
	}
	s.get("AccessService/EditGroup", `{"group": "crew", "remove": ["member"], "add": ["stranger"]}`)
	s.get("PoolService/Edit", `{"edits": [{"change": {"name": "ads", "options": {"acl/manage": ["group:crew"]}}}]}`)
	if suspend("user/member") || suspend("user/manager") || !suspend("user/stranger") {
		t.Error("rights are not as they were changed")
	}
	// A command that was under way when the right was taken away is refused where it is applied.
	taken := func() {
		s.before.Store(nil)
		s.must(&commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Set{Set: &statepb.Pool{Name: "ads", Parent: "<Root>"}}}}})
	}
	s.before.Store(&taken)
	got := s.post("OperationService/Suspend", fmt.Sprintf(`{"operation": %q}`, operation), roleHeader, "user/stranger")
	if got.status != http.StatusForbidden || at(t, s.get("OperationService/Get", fmt.Sprintf(`{"operation": %q}`, operation)), "operation", "suspended") == true {
		t.Errorf("%d %s", got.status, got.raw)
	}
}

// TestGatewayPassesNothingOn (T1): a gateway that adds its headers to those that its own caller has sent would
// let that caller be anybody.
func TestGatewayPassesNothingOn(t *testing.T) {
	for name, header := range map[string]http.Header{
		"users":  {apipb.HeaderOnBehalfOf: {"ann", "mallory"}},
		"groups": {apipb.HeaderOnBehalfOf: {"mallory"}, apipb.HeaderGroups: {"admins", "all"}},
	} {
		r := &http.Request{Header: http.Header{}}
		for key, values := range header {
			for _, value := range values {
				r.Header.Add(key, value)
			}
		}
		if by, err := callerOf(identity.Identity{Cluster: "c1", Role: identity.Gateway, Name: "web"}, r); err == nil || !strings.Contains(err.Message(), "is there twice") {
			t.Errorf("%s: it asks for %q with groups %q, %v", name, by.Name, by.groups, err)
		}
	}
}

// TestWhoAmIShowsAccounts (T2): those of the caller, of its groups and of everyone, together; none of others. An operator needs none.
func TestWhoAmIShowsAccounts(t *testing.T) {
	s := newSite(t)
	s.must(
		&commandpb.EditGroup{Group: "crew", Add: []string{"ann"}},
		&commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"ann", "web"}},
		&commandpb.EditAccounts{Subject: "group:crew", Accounts: []string{"ads", "web"}, Groups: []string{"ads"}},
		&commandpb.EditAccounts{Subject: "*", IsolationNone: true},
		&commandpb.EditAccounts{Subject: "user:bob", Accounts: []string{"bob"}},
	)
	for who, given := range map[string]string{
		"user/ann":     `"accounts":{"subject":"user:ann","accounts":["ads","ann","web"],"groups":["ads"],"isolation_none":true`,
		"user/carol":   `"accounts":{"subject":"user:carol","accounts":[],"groups":[],"isolation_none":true`,
		"operator/oda": "",
	} {
		got := s.post("AccessService/WhoAmI", `{}`, roleHeader, who)
		if text := strings.ReplaceAll(got.raw, " ", ""); !strings.Contains(text, given) || given == "" && strings.Contains(text, "accounts") {
			t.Errorf("%s: %d %s, want %s", who, got.status, got.raw, given)
		}
	}
}

// TestGatewaySpeaksForUsers: a gateway asks for a user whom it names, never for more.
func TestGatewaySpeaksForUsers(t *testing.T) {
	s, _ := rightsSite(t)
	for name, test := range map[string]struct {
		headers []string
		want    string
	}{
		"a user":             {[]string{roleHeader, "gateway/web", apipb.HeaderOnBehalfOf, "reader"}, `"user":"reader"`},
		"with groups":        {[]string{roleHeader, "gateway/web", apipb.HeaderOnBehalfOf, "x", apipb.HeaderGroups, "crew, other"}, `"groups":["crew","other"]`},
		"never an operator":  {[]string{roleHeader, "gateway/web", apipb.HeaderOnBehalfOf, "oda"}, `"role":"user"`},
		"nobody":             {[]string{roleHeader, "gateway/web"}, "does not say for whom"},
		"a bad name":         {[]string{roleHeader, "gateway/web", apipb.HeaderOnBehalfOf, "a b"}, "user \\\"a b\\\": must be 1 to 63"},
		"a bad group":        {[]string{roleHeader, "gateway/web", apipb.HeaderOnBehalfOf, "x", apipb.HeaderGroups, "a,*"}, "group \\\"*\\\": must be"},
		"who is no gateway":  {[]string{roleHeader, "user/mallory", apipb.HeaderOnBehalfOf, "ann"}, "is for gateways"},
		"an operator either": {[]string{roleHeader, "operator/oda", apipb.HeaderGroups, "crew"}, "is for gateways"},
	} {
		got := s.post("AccessService/WhoAmI", `{}`, test.headers...)
		if text := strings.ReplaceAll(got.raw, " ", ""); !strings.Contains(text, strings.ReplaceAll(test.want, " ", "")) {
			t.Errorf("%s: %d %s, want %s", name, got.status, got.raw, test.want)
		}
	}
	s.get("OperationService/Abort", `{"operation": "op-1"}`, roleHeader, "gateway/web", apipb.HeaderOnBehalfOf, "y", apipb.HeaderGroups, "crew")
}
