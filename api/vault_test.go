package api

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/cluster/vault"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// recordOf returns the record of an operation, and its secrets as they are opened for an operation.
func (s *site) recordOf(operation, owner string) (op *statepb.Operation, secrets map[string]string, err error) {
	s.View(func(st *state.State) {
		found, ok := st.Operation(scheduling.OperationID(operation))
		if !ok {
			s.t.Fatalf("operation %s is missing", operation)
		}
		op = proto.CloneOf(found)
	})
	secrets, err = s.vault.Open(vault.OfOperation(owner), op.GetSpec().GetVault().GetSealed())
	return op, secrets, err
}

// TestSecretsAreSealed (T3) starts an operation with a secret: the state has it sealed for this
// operation, and no answer to anybody, and no line of the audit log, has it.
func TestSecretsAreSealed(t *testing.T) {
	s := newSite(t)
	s.must(&commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Change{Change: &commandpb.Changes{Values: map[string]*structpb.Value{
		"acl/read": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue("user:ann")}}),
	}}}}}})
	secret := "hunter2-hunter2"
	body := fmt.Sprintf(`{"spec": {"secure_vault": {"TOKEN": %q, "A": ""}, "tasks": {"t": {"job_count": 2, "command": ["run"], "max_attempts": 1}}}, "mutation_id": "m"}`, secret)
	first := s.runAs(body, 2, "j0", "j1")
	want(t, s.get("OperationService/Start", body), first, "operation_id")
	given := map[string]string{"TOKEN": secret, "A": ""}
	op, secrets, err := s.recordOf(first, first)
	if err != nil || !maps.Equal(secrets, given) {
		t.Errorf("opened %q, %v", secrets, err)
	}
	if strings.Contains(op.String(), secret) || fmt.Sprint(op.GetSpec().GetVault().GetNames()) != "[A TOKEN]" {
		t.Errorf("the record is %v", op)
	}
	if _, _, err := s.recordOf(first, "op-other"); err == nil {
		t.Error("the secrets are opened for another operation")
	}
	for _, who := range []string{"operator/oda", "user/ann", "user/bob"} {
		shown := s.post("OperationService/Get", `{"operation": "`+first+`"}`, roleHeader, who).raw
		if strings.Contains(shown, secret) || strings.Contains(shown, `"TOKEN":"(hidden)"`) != (who != "user/bob") {
			t.Errorf("%s sees %s", who, shown)
		}
	}
	s.get("OperationService/Update", `{"operation": "`+first+`", "changes": [{"options": {"weight": 2}}]}`)
	if _, secrets, err := s.recordOf(first, first); err != nil || !maps.Equal(secrets, given) {
		t.Errorf("after an update: %q, %v", secrets, err)
	}

	// When it has ended they are gone, and whoever retries it gives them again.
	s.finish(first, "j0", "failed")
	s.finish(first, "j1", "failed")
	s.ends(first, "failing", "failed")
	if op, _, _ := s.recordOf(first, first); len(op.GetSpec().GetVault().GetSealed()) > 0 {
		t.Errorf("after its end: %v", op.GetSpec().GetVault())
	}
	retry := `{"operation": "` + first + `", "jobs": "failed"%s}`
	for more, text := range map[string]string{
		"": "its secret A was removed when it ended", `, "secure_vault": {"TOKEN": "` + secret + `"}`: "its secret A was removed",
		`, "secure_vault": {"TOKEN": "` + secret + `\u0000", "A": ""}`: "NUL byte",
	} {
		got := s.post("OperationService/Retry", fmt.Sprintf(retry, more))
		if got.status == 200 || !strings.Contains(got.raw, text) || strings.Contains(got.raw, secret) {
			t.Errorf("retried with %q: %d %s", more, got.status, got.raw)
		}
	}
	second := at(t, s.get("OperationService/Retry", fmt.Sprintf(retry, `, "secure_vault": {"TOKEN": "`+secret+`", "A": ""}`)), "operation_id").(string)
	if _, secrets, err := s.recordOf(second, second); err != nil || !maps.Equal(secrets, given) {
		t.Errorf("the retry has %q, %v", secrets, err)
	}
	if lines := fmt.Sprintf("%+v", s.audited.taken(0)); strings.Contains(lines, secret) || !strings.Contains(lines, first) {
		t.Errorf("audited: %s", lines)
	}
}

// TestSecretsWithoutAKey (T3) refuses a vault at a replica that cannot seal it, by an error that names
// the file and the command.
func TestSecretsWithoutAKey(t *testing.T) {
	s := &server{}
	err := s.seal("start operation", "op", &statepb.OperationSpec{Vault: &statepb.Vault{}}, map[string]string{"TOKEN": "hunter2"})
	for _, text := range []string{"vault.key", "weir tls vault-key"} {
		if err == nil || connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v, want %q", err, text)
		}
	}
	if refused, ok := errors.AsType[*connect.Error](err); !ok || refused.Meta().Get(apipb.HeaderCode) != apipb.CodeNoVaultKey {
		t.Errorf("error %v", err)
	}
	if err := s.seal("start operation", "op", &statepb.OperationSpec{}, nil); err != nil {
		t.Errorf("an operation without secrets: %v", err)
	}
}

// storeBody returns a request that makes an object store of pool ads.
func storeBody(name, secret string) string {
	return fmt.Sprintf(`{"store": {"name": %q, "endpoint": "http://h:9000", "access_key": "AK", "prefixes": ["s3://ads/"], "pools": ["ads"]}, "secret_key": %q, "create": true}`, name, secret)
}

// TestStores (T3) makes an object store: its secret key is sealed, and shown by nothing; what is not
// given in a change stays as it is.
func TestStores(t *testing.T) {
	s := newSite(t)
	s.must(createAds)
	keyOf := func() string {
		var sealed []byte
		s.View(func(st *state.State) { sealed = state.StoresIn(st).All()[0].GetSealed() })
		opened, err := s.vault.Open(vault.OfStore("s"), sealed)
		if err != nil {
			t.Error(err)
		}
		return opened[vault.SecretKey]
	}
	s.get("AccessService/EditStore", storeBody("s", "hunter2"))
	if key := keyOf(); key != "hunter2" {
		t.Errorf("the key is %q", key)
	}
	s.get("AccessService/EditStore", `{"store": {"name": "s", "region": "eu-1"}}`)
	shown := s.get("AccessService/Stores", `{}`)
	for field, value := range map[string]string{"endpoint": "http://h:9000", "region": "eu-1", "access_key": "AK"} {
		want(t, shown, value, "stores", 0, field)
	}
	want(t, shown, "s3://ads", "stores", 0, "prefixes", 0)
	if raw := s.post("AccessService/Stores", `{}`).raw; keyOf() != "hunter2" || strings.Contains(raw, "hunter2") || strings.Contains(raw, "sealed") {
		t.Errorf("key %q; shown is %s", keyOf(), raw)
	}
	s.get("AccessService/EditStore", `{"store": {"name": "s"}, "secret_key": "other"}`)
	if key := keyOf(); key != "other" {
		t.Errorf("the key is %q", key)
	}
	for body, text := range map[string]string{
		storeBody("s", "hunter2"):                                      "there is one already",
		strings.Replace(storeBody("t", "hunter2"), "http://h", "h", 1): "endpoint: write http://HOST:PORT",
		storeBody("t", "hunter2"):                                      `prefix \"s3://ads\" belongs to store \"s\"`,
		storeBody("t", ""):                                             "secret key are required",
		`{"store": {"name": "t"}}`:                                     "there is none: create it (weir store add)",
		`{"store": {"name": "s", "pools": ["none"]}}`:                  `has no pool \"none\" that stays`,
		`{"store": {"name": "s", "prefixes": ["/data"]}}`:              "write s3://BUCKET or s3://BUCKET/KEY",
		storeBody("t", strings.Repeat("hunter2", 100)):                 "more than 512 bytes",
	} {
		if got := s.post("AccessService/EditStore", body); got.status == 200 || !strings.Contains(got.raw, text) || strings.Contains(got.raw, "hunter2") {
			t.Errorf("%s: %d %s, want %q", body, got.status, got.raw, text)
		}
	}
	s.get("AccessService/EditStore", `{"store": {"name": "s"}, "delete": true}`)
	if raw := s.post("AccessService/Stores", `{}`).raw; strings.Contains(raw, "AK") {
		t.Errorf("after its removal: %s", raw)
	}
	if lines := fmt.Sprintf("%+v", s.audited.taken(0)); strings.Contains(lines, "hunter2") {
		t.Errorf("audited: %s", lines)
	}
}

// createAds makes pool ads.
var createAds = &commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: "ads"}}}}}
