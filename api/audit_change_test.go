package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"weir/messages/apipb"
)

// TestAuditSaysWhatChanged (T8): a line says what a call has changed, with the values before.
func TestAuditSaysWhatChanged(t *testing.T) {
	acl := func(changes string) string {
		return `{"edits": [{"change": {"name": "ads-prod", "options": {` + changes + `}}}]}`
	}
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf("user%04d", i)
	}
	for name, test := range map[string]struct{ procedure, body, want string }{
		"rights":          {"PoolService/Edit", acl(`"acl/read": ["user:bob", "*"], "acl/manage": ["user:bob"]`), "*=read on pool ads-prod; user:bob=read,manage on pool ads-prod"},
		"rights are lost": {"PoolService/Edit", `{"edits": [{"change": {"name": "ads", "options": {"acl/use": ["user:ann"], "acl/manage": null}}}]}`, "no more group:crew=use,manage on pool ads; no more user:manager=manage on pool ads; no more user:submitter=use on pool ads"},
		"all rights":      {"PoolService/Edit", `{"edits": [{"change": {"name": "ads", "options": {"acl": null}}}]}`, "no more group:crew=read,use,manage,administer on pool ads; no more user:admin=administer on pool ads; no more user:ann=use on pool ads; no more user:manager=manage on pool ads; no more user:reader=read on pool ads; no more user:submitter=use on pool ads"},
		"settings":        {"PoolService/Edit", acl(`"weight": 5`), "weight default -> 5 on pool ads-prod"},
		"settings again":  {"PoolService/Edit", `{"edits": [{"change": {"name": "old", "options": {"weight": null, "max_operation_count": 3}}}]}`, "max_operation_count 2 -> 3 on pool old; weight 4 -> default on pool old"},
		"pools": {
			"PoolService/Edit", `{"edits": [{"create": {"name": "new", "parent": "ads", "options": {"weight": 2}}}, {"change": {"name": "new", "parent": "old"}}, {"rename": {"from": "new", "to": "newer"}}, {"remove": "newer"}]}`,
			"created pool new below ads; weight default -> 2 on pool new; moved pool new from <Root> to old; renamed pool new to newer; removed pool newer",
		},
		"tree":      {"TreeService/Set", `{"options": {"max_operation_count": 9, "acl/use": null}}`, "max_operation_count default -> 9 on pool <Root>; *=use on pool <Root>"},
		"no tree":   {"PoolService/Edit", `{"tree": "none", "edits": [{"change": {"name": "x", "parent": "y", "options": {"weight": 5}}}]}`, "moved pool x from <Root> to y; weight default -> 5 on pool x"},
		"group":     {"AccessService/EditGroup", `{"group": "ads-team", "add": ["ann", "bob"]}`, "group ads-team + ann, bob"},
		"leaves":    {"AccessService/EditGroup", `{"group": "crew", "remove": ["member"]}`, "group crew - member"},
		"accounts":  {"AccessService/EditAccounts", `{"subject": "user:ann", "accounts": ["ann"], "groups": ["ads"], "isolation_none": true}`, "accounts of user:ann + ann, group ads, isolation none"},
		"disallow":  {"AccessService/EditAccounts", `{"subject": "user:ann", "disallow": true}`, "accounts of user:ann removed"},
		"nodes":     {"NodeService/EditGrant", `{"grant": {"pattern": "gpu-*", "tags": ["gpu"], "max": {"cpu": 128}}, "force": true}`, "nodes gpu-*: tags gpu, cpu 128 at most, by force"},
		"no nodes":  {"NodeService/EditGrant", `{"grant": {"pattern": "gpu-*"}, "disallow": true}`, "grant of nodes gpu-* removed"},
		"store":     {"AccessService/EditStore", storeBody("s", "hunter2"), "store s at http://h:9000, access key AK, a secret key, prefixes s3://ads/, pools ads"},
		"revoked":   {"AccessService/Revoke", `{"role": "user", "name": "ann", "reason": "lost"}`, "revoked user ann: lost"},
		"serial":    {"AccessService/Revoke", `{"serial": "ab12", "lift": true}`, "lifted the revocation of serial ab12"},
		"operation": {"OperationService/Update", `{"operation": "op-1", "changes": [{"pool": "ads-prod", "options": {"weight": 2}}]}`, "moved to pool ads-prod; weight default -> 2"},
		"file":      {"JobService/File", `{"job_id": "j1", "path": "a b"}`, `read "a b" of the workspace`},
		"kept file": {"JobService/File", `{"job_id": "j1", "path": "x", "kept": true}`, `read "x" of what was kept`},
		"drain":     {"NodeService/Drain", `{"node": "n1", "reason": "new kernel"}`, "drained: new kernel"},
		"too long":  {"AccessService/EditGroup", fmt.Sprintf(`{"group": "g", "add": ["%s"]}`, strings.Join(many, `", "`)), "group g + user0000, user0001"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := rightsSite(t)
			s.get("PoolService/Edit", `{"edits": [{"create": {"name": "old", "options": {"weight": 4, "max_operation_count": 2}}}]}`)
			before := len(s.audited.taken(0))
			s.post(test.procedure, test.body)
			lines := s.audited.taken(before)
			if len(lines) != 1 || lines[0].Change != test.want && (name != "too long" || !strings.HasPrefix(lines[0].Change, test.want) || len(lines[0].Change) > 1000) {
				t.Errorf("%+v\nwant %q", lines, test.want)
			}
		})
	}
	s, _ := rightsSite(t)
	// One who was refused has changed nothing, and the line tells what was tried.
	before := len(s.audited.taken(0))
	if got := s.post("PoolService/Edit", acl(`"weight": 5`), roleHeader, "user/stranger"); got.status != http.StatusForbidden {
		t.Fatal(got.raw)
	}
	if lines := s.audited.taken(before); len(lines) != 1 || lines[0].Change != "weight default -> 5 on pool ads-prod" || lines[0].Outcome != "denied" {
		t.Errorf("%+v", lines)
	}
	if a, b := manyTexts(s, many), manyTexts(s, append(many, "z")); a == b {
		t.Error("different long changes have the same text")
	}
}

func manyTexts(s *site, users []string) string {
	return s.handler.server.changeOf(&apipb.EditGroupRequest{Group: "g", Add: users})
}

// TestLargeChangesAreNotToldWhole (T8) has one without rights ask for thousands of edits: a line tells
// the first of them, and is another one if another edit differs.
func TestLargeChangesAreNotToldWhole(t *testing.T) {
	s, _ := rightsSite(t)
	told := func(last int) string {
		before := len(s.audited.taken(0))
		edits := strings.Repeat(`{"change": {"name": "ads", "options": {"weight": 5}}}, `, 5000)
		body := fmt.Sprintf(`{"edits": [%s{"change": {"name": "ads", "options": {"weight": %d}}}]}`, edits, last)
		if got := s.post("PoolService/Edit", body, roleHeader, "user/stranger"); got.status != http.StatusForbidden {
			t.Fatal(got.raw)
		}
		lines := s.audited.taken(before)
		if len(lines) != 1 {
			t.Fatalf("%d lines, want one", len(lines))
		}
		return lines[0].Change
	}
	first, second := told(6), told(7)
	if n := strings.Count(first, " on pool ads"); n != mostTold || first == second || !strings.Contains(first, "checksum") {
		t.Errorf("%d edits are told, want %d:\n%s\n%s", n, mostTold, first, second)
	}
}
