package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/commandpb"
	"weir/scheduling/audit"
)

// auditFake is an audit log in memory.
type auditFake struct {
	mu    sync.Mutex
	lines []audit.Line
}

func (a *auditFake) Record(line audit.Line) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, line)
}

func (a *auditFake) Read(_ context.Context, after uint64, _ bool, send func([]string, uint64) error) error {
	for i, line := range a.taken(0)[after:] {
		raw, err := json.Marshal(line)
		if err == nil {
			err = send([]string{string(raw)}, after+uint64(i)+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// taken returns the lines from a place on.
func (a *auditFake) Latest(ctx context.Context, after, before uint64, n int, send func([]string, uint64) error) error {
	var latest []string
	_ = a.Read(ctx, after, false, func(lines []string, _ uint64) error {
		latest = append(latest, lines...)
		return nil
	})
	if before > 0 {
		latest = latest[:min(uint64(len(latest)), before-1-after)]
	}
	return send(latest[max(0, len(latest)-n):], after+uint64(len(latest)))
}

func (a *auditFake) taken(from int) []audit.Line {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.lines[from:])
}

// auditedText says what a line says, but for what differs between runs.
func auditedText(line audit.Line) string {
	text := fmt.Sprintf("%s %s %s %s [%s] needs %s%s", line.Role, line.User, line.Outcome, line.Method, line.Object, line.Right, put(": ", line.Code))
	if line.Gateway != "" {
		text += " gateway " + line.Gateway + " groups " + line.Groups
	}
	return text
}

// TestAudited (T8): which calls are audited, and what a line says of them.
func TestAudited(t *testing.T) {
	of := func(text string) string { return `{"operation": "op-1"` + text + `}` }
	const job = `{"job_id": "j1", "stream": "stdout"}`
	for name, test := range map[string]struct {
		subject, procedure, body string
		headers                  []string
		want                     string
	}{
		"start":                 {"user/ann", "OperationService/Start", startBody(1, `, "pool": "ads"`), nil, "user ann allowed OperationService/Start [operation op-2 pool ads] needs use"},
		"start, denied":         {"user/stranger", "OperationService/Start", startBody(1, `, "pool": "ads"`), nil, "user stranger denied OperationService/Start [pool ads] needs use: permission_denied"},
		"abort":                 {"user/manager", "OperationService/Abort", of(""), nil, "user manager allowed OperationService/Abort [operation op-1] needs manage"},
		"abort, denied":         {"user/reader", "OperationService/Abort", of(""), nil, "user reader denied OperationService/Abort [operation op-1] needs manage: permission_denied"},
		"abort, failed":         {"user/ann", "OperationService/Abort", `{"operation": "op-9"}`, nil, "user ann failed OperationService/Abort [operation op-9] needs manage: unknown_operation"},
		"retry needs read too":  {"user/submitter", "OperationService/Retry", of(`, "jobs": "failed"`), nil, "user submitter denied OperationService/Retry [operation op-1] needs read: permission_denied"},
		"output":                {"user/reader", "JobService/Output", job, nil, "user reader allowed JobService/Output [job j1] needs read"},
		"output, denied":        {"user/stranger", "JobService/Output", job, nil, "user stranger denied JobService/Output [job j1] needs read: permission_denied"},
		"file":                  {"user/manager", "JobService/File", `{"job_id": "j1", "path": "a b"}`, nil, "user manager allowed JobService/File [job j1] needs manage"},
		"file, denied":          {"user/reader", "JobService/File", `{"job_id": "j1"}`, nil, "user reader denied JobService/File [job j1] needs manage: permission_denied"},
		"output, failed":        {"user/ann", "JobService/Output", `{"job_id": "j9", "stream": "stdout"}`, nil, ""},
		"jobs":                  {"user/reader", "JobService/List", of(""), nil, ""},
		"jobs, denied":          {"user/stranger", "JobService/List", of(""), nil, "user stranger denied JobService/List [operation op-1] needs read: permission_denied"},
		"stream, denied":        {"user/stranger", "OperationService/WatchInstances", of(""), nil, "user stranger denied OperationService/WatchInstances [operation op-1] needs read: permission_denied"},
		"events":                {"user/stranger", "EventService/Read", "{}", nil, ""},
		"get":                   {"user/stranger", "OperationService/Get", of(""), nil, ""},
		"status":                {"operator/oda", "ClusterService/Status", "{}", nil, ""},
		"pool":                  {"user/admin", "PoolService/Edit", `{"edits": [{"remove": "ads-prod"}]}`, nil, "user admin allowed PoolService/Edit [pool ads-prod] needs administer"},
		"tree":                  {"operator/oda", "TreeService/Set", `{"options": {"max_operation_count": 9}}`, nil, "operator oda allowed TreeService/Set [tree by default] needs operator"},
		"tree, denied":          {"user/admin", "TreeService/Set", `{"options": {"max_operation_count": 9}}`, nil, "user admin denied TreeService/Set [tree by default] needs operator: permission_denied"},
		"drain":                 {"operator/oda", "NodeService/Drain", `{"node": "n1"}`, nil, "operator oda allowed NodeService/Drain [node n1] needs operator"},
		"group":                 {"operator/oda", "AccessService/EditGroup", `{"group": "g", "add": ["x"]}`, nil, "operator oda allowed AccessService/EditGroup [group g] needs operator"},
		"grant of nodes":        {"operator/oda", "NodeService/EditGrant", `{"grant": {"pattern": "gpu-*"}, "force": true}`, nil, "operator oda allowed NodeService/EditGrant [nodes gpu-*] needs operator"},
		"accounts":              {"operator/oda", "AccessService/EditAccounts", `{"subject": "user:ann", "accounts": ["x"]}`, nil, "operator oda allowed AccessService/EditAccounts [accounts of user:ann] needs operator"},
		"without a grant":       {"user/ann", "OperationService/Start", `{"spec": {"pool": "ads", "tasks": {"t": {"job_count": 1, "command": ["x"], "memory_limit": "1MiB", "user": "root"}}}}`, nil, "user ann denied OperationService/Start [pool ads] needs operator: permission_denied"},
		"store":                 {"operator/oda", "AccessService/EditStore", storeBody("s", "hunter2"), nil, "operator oda allowed AccessService/EditStore [store s] needs operator"},
		"at the door":           {"user/ann", "ClusterService/Transfer", "{}", nil, "user ann denied ClusterService/Transfer [] needs operator: permission_denied"},
		"another role":          {"agent/n1", "OperationService/List", "{}", nil, "agent n1 denied OperationService/List [] needs : permission_denied"},
		"a method that is none": {"agent/n1", "OperationService/Lots", "{}", nil, "agent n1 denied unknown [] needs : permission_denied"},
		"backup":                {"operator/oda", "ClusterService/Backup", "{}", nil, "operator oda allowed ClusterService/Backup [] needs operator"},
		"audit log":             {"operator/oda", "AuditService/Read", "{}", nil, "operator oda allowed AuditService/Read [] needs operator"},
		"audit log, denied":     {"user/admin", "AuditService/Read", "{}", nil, "user admin denied AuditService/Read [] needs operator: permission_denied"},
		"gateway": {"gateway/web", "OperationService/Abort", of(""), []string{apipb.HeaderOnBehalfOf, "zoe", apipb.HeaderGroups, "crew, x"},
			"user zoe allowed OperationService/Abort [operation op-1] needs manage gateway web groups crew,x"},
		"gateway for nobody": {"gateway/web", "OperationService/Abort", of(""), nil,
			"gateway web denied OperationService/Abort [] needs manage: permission_denied gateway web groups "},
		"no gateway": {"user/ann", "OperationService/List", "{}", []string{apipb.HeaderOnBehalfOf, "oda"}, "user ann denied OperationService/List [] needs : permission_denied"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := rightsSite(t)
			s.output = func(*actorpb.ReadOutput) (*actorpb.OutputPart, error) {
				return &actorpb.OutputPart{Data: []byte("x"), NextOffset: 1}, nil
			}
			before := len(s.audited.taken(0))
			headers := append([]string{roleHeader, test.subject, apipb.HeaderRequest, "my-request"}, test.headers...)
			if knownProcedures()["/weir.api.v1."+test.procedure].streams {
				s.answered(test.procedure, test.body, test.subject)
			} else if got := s.post(test.procedure, test.body, headers...); got.header.Get(apipb.HeaderRequest) != "my-request" {
				t.Errorf("request %q", got.header.Get(apipb.HeaderRequest))
			}
			var texts []string
			eventually(t, func() bool {
				// A stream is recorded when it ends, which may be after its client has the answer.
				texts = nil
				for _, line := range s.audited.taken(before) {
					texts = append(texts, auditedText(line))
				}
				return test.want == "" || len(texts) > 0
			})
			if got := strings.Join(texts, "; "); got != test.want {
				t.Errorf("%q\nwant %q", got, test.want)
			}
			for _, line := range s.audited.taken(before) {
				if line.Address != "127.0.0.1" || line.Time.IsZero() || line.Request == "" || (line.Outcome == audit.Allowed) != (line.Why == "") {
					t.Errorf("%+v", line)
				}
			}
		})
	}
}

// TestEveryChangeIsAudited (T8): each call that needs more than being a user is audited if it changes
// something; so are reads of output.
func TestEveryChangeIsAudited(t *testing.T) {
	reads := []string{apipbconnect.JobServiceOutputProcedure}
	for procedure, wanted := range needs {
		// A command in a job is audited once, when it is started.
		changes := (wanted == subjects || wanted == operatorsOnly) && procedure != apipbconnect.JobServiceExecIOProcedure
		if _, listed := audited[procedure]; listed != (changes || slices.Contains(reads, procedure)) {
			t.Errorf("%s: audited %t", procedure, listed)
		}
	}
	rights := slices.Sorted(maps.Values(audited))
	if got := strings.Join(slices.Compact(rights), " "); got != "administer manage operator read use" {
		t.Errorf("rights are %s", got)
	}
}

// TestDecisionsOfApplyAreAudited: a right that is lost while a command is on its way is a refusal too.
func TestDecisionsOfApplyAreAudited(t *testing.T) {
	s, _ := rightsSite(t)
	lose := func() { s.must(&commandpb.EditGroup{Group: "crew", Remove: []string{"member"}}) }
	s.before.Store(&lose)
	got := s.post("OperationService/Abort", `{"operation": "op-1"}`, roleHeader, "user/member")
	s.before.Store(nil)
	all := s.audited.taken(0)
	if last := all[len(all)-1]; got.status != http.StatusForbidden || last.Outcome != audit.Denied || last.Right != "manage" || !strings.Contains(last.Why, "may not abort operation op-1") {
		t.Errorf("%d: %+v", got.status, last)
	}
}

func TestAuditIsRead(t *testing.T) {
	s, _ := rightsSite(t)
	s.post("NodeService/Drain", `{"node": "n1"}`, roleHeader, "user/stranger")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := apipbconnect.NewAuditServiceClient(s.client, s.url)
	read := connect.NewRequest(&apipb.ReadAuditRequest{})
	stream, err := client.Read(ctx, read)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var lines []string
	after := uint64(0)
	for stream.Receive() {
		lines = append(lines, stream.Msg().GetLines()...)
		after = stream.Msg().GetAfter()
	}
	if stream.Err() != nil || len(lines) != int(after) || !slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(line, `"user":"stranger"`) && strings.Contains(line, `"method":"NodeService/Drain"`) && strings.Contains(line, "only operators may")
	}) {
		t.Errorf("%v: after %d: %q", stream.Err(), after, lines)
	}
}

// TestAuditLatest (W1): an operator can ask for the latest lines alone, and for those before them.
func TestAuditLatest(t *testing.T) {
	s, _ := rightsSite(t)
	for _, node := range []string{"n1", "n2", "n3"} {
		s.post("NodeService/Drain", `{"node": "`+node+`"}`, roleHeader, "user/stranger")
	}
	written := uint64(len(s.audited.taken(0)))
	client := apipbconnect.NewAuditServiceClient(s.client, s.url)
	read := func(request *apipb.ReadAuditRequest) (lines []string, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		stream, err := client.Read(ctx, connect.NewRequest(request))
		if err != nil {
			return nil, err
		}
		defer stream.Close()
		for stream.Receive() {
			lines = append(lines, stream.Msg().GetLines()...)
		}
		return lines, stream.Err()
	}
	for want, request := range map[string]*apipb.ReadAuditRequest{
		"node n2|node n3": {Latest: 2, Before: written + 1}, "node n1": {Latest: 1, Before: written - 1}, "": {Latest: 1000, After: written, Before: written + 1},
	} {
		lines, err := read(request)
		for i, line := range lines {
			_, object, _ := strings.Cut(line, `"object":"`)
			lines[i], _, _ = strings.Cut(object, `"`)
		}
		if got := strings.Join(lines, "|"); err != nil || got != want {
			t.Errorf("%v: %s %v, want %s", request, got, err, want)
		}
	}
	for _, request := range []*apipb.ReadAuditRequest{{Latest: -1}, {Latest: mostLatest + 1}, {Latest: 1, Follow: true}, {Before: 5}} {
		if lines, err := read(request); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %q %v, want a refusal", request, lines, err)
		}
	}
}

// TestRequestIDs: a client can give a request an id, within limits.
func TestRequestIDs(t *testing.T) {
	s := newSite(t)
	for given, want := range map[string]bool{"abc-1": true, strings.Repeat("x", maxRequestID): true, strings.Repeat("x", maxRequestID+1): false, "a b": false, "ä": false} {
		got := s.post("ClusterService/Status", "{}", apipb.HeaderRequest, given).header.Get(apipb.HeaderRequest)
		if (got == given) != want || got == "" {
			t.Errorf("%q: %q", given, got)
		}
	}
}
