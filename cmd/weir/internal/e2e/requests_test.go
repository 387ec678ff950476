package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir/messages/apipb"
)

// startAndRead is what the readme does with curl: start, wait, list, read stderr.
func startAndRead(t *testing.T, c *cluster) {
	post := func(method, body string) map[string]any {
		t.Helper()
		status, data := c.answered(t, "user-ann", "r3", method, body)
		if status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, body, status, data)
		}
		var answer map[string]any
		if err := json.Unmarshal(data, &answer); err != nil {
			t.Fatalf("%s: %v in %s", method, err, data)
		}
		return answer
	}
	started := post("OperationService/Start",
		`{"spec": {"tasks": {"hi": {"job_count": 1, "shell": true, "command": "echo hello >&2; echo $WEIR_TASK_NAME $WEIR_JOB_COOKIE of $WEIR_TASK_JOB_COUNT", "memory_limit": "64MiB"}}}}`)
	operation := started["operation_id"]
	until(t, "it has ended", func() string {
		if waited := post("OperationService/Wait", fmt.Sprintf(`{"operation": %q, "timeout_millis": 10000}`, operation)); waited["done"] != true {
			return fmt.Sprint(waited)
		}
		return ""
	})
	jobs := post("JobService/List", fmt.Sprintf(`{"operation": %q}`, operation))["jobs"].([]any)
	if len(jobs) != 1 {
		t.Fatalf("jobs: %v", jobs)
	}
	job := jobs[0].(map[string]any)["id"]
	for stream, want := range map[string]string{"stderr": "hello\n", "stdout": "hi 0 of 1\n"} {
		if got := post("JobService/Output", fmt.Sprintf(`{"job_id": %q, "stream": %q}`, job, stream)); got["text"] != want {
			t.Errorf("%s: %v, want %q", stream, got, want)
		}
	}
	if got := post("OperationService/Get", fmt.Sprintf(`{"operation": %q}`, operation))["operation"].(map[string]any); got["user"] != "ann" || got["state"] != "completed" {
		t.Errorf("operation: %v, want completed, of ann", got)
	}
}

// badRequests are refused, each with words that help, and harm nobody.
func badRequests(t *testing.T, c *cluster) {
	alias := "*taken"
	holder := c.start(t, one(small(1, "run", c.folder(t), "1h"), object{"alias": alias}))
	task := func(fields string) string {
		return `{"spec": {"tasks": {"sort": {"job_count": 1, "command": ["true"], ` + fields + `}}}}`
	}
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf(`"t%d": {"job_count": 1, "command": ["true"]}`, i)
	}
	for name, test := range map[string]struct {
		method, body string
		wantCode     string
		// want are parts of the message.
		want []string
	}{
		"unknown field of the request": {"OperationService/Start", `{"specs": {}}`, "invalid_argument", []string{`unknown field`, `specs`}},
		"no JSON":                      {"OperationService/Start", `{"spec": `, "invalid_argument", nil},
		"empty body":                   {"OperationService/Start", ``, "invalid_argument", []string{"empty"}},
		"no spec":                      {"OperationService/Start", `{}`, "invalid_argument", []string{"spec is needed"}},
		"unknown field of the spec": {"OperationService/Start", `{"spec": {"tasks": {"sort": {"job_count": 1, "command": ["true"]}}, "titel": "x"}}`,
			"invalid_argument", []string{"titel: unknown option", "did you mean title"}},
		"unknown field of a task": {"OperationService/Start", task(`"memory": 5`), "invalid_argument", []string{"tasks.sort.memory: unknown option", "memory_limit"}},
		"unknown type":            {"OperationService/Start", `{"spec": {"type": "reduce", "tasks": {"sort": {"job_count": 1, "command": ["true"]}}}}`, "invalid_argument", []string{"type:", "vanilla"}},
		"text for a number":       {"OperationService/Start", `{"spec": {"tasks": {"sort": {"job_count": "five", "command": ["true"]}}}}`, "invalid_argument", []string{"tasks.sort.job_count", "not a number"}},
		"number for a text":       {"OperationService/Start", `{"spec": {"tasks": {"sort": {"job_count": 1, "command": ["sleep", 5]}}}}`, "invalid_argument", []string{"tasks.sort.command[1]", "quotes"}},
		"list for tasks":          {"OperationService/Start", `{"spec": {"tasks": []}}`, "invalid_argument", []string{"tasks:", "not an object"}},
		"negative memory":         {"OperationService/Start", task(`"memory_limit": -1`), "invalid_argument", []string{"tasks.sort.memory_limit", "too little"}},
		"absurd memory":           {"OperationService/Start", task(`"memory_limit": "9000PiB"`), "invalid_argument", []string{"tasks.sort.memory_limit"}},
		"too much memory":         {"OperationService/Start", task(`"memory_limit": "900000TiB"`), "invalid_argument", []string{"tasks.sort.memory_limit", "too much"}},
		"negative cores":          {"OperationService/Start", task(`"cpu_limit": -0.5`), "invalid_argument", []string{"tasks.sort.cpu_limit", "from 0.01 to 10000"}},
		"absurd cores":            {"OperationService/Start", task(`"cpu_limit": 1e300`), "invalid_argument", []string{"tasks.sort.cpu_limit", "from 0.01 to 10000"}},
		"negative time":           {"OperationService/Start", task(`"job_time_limit": "-5s"`), "invalid_argument", []string{"tasks.sort.job_time_limit", "too short"}},
		"time without a unit":     {"OperationService/Start", task(`"job_time_limit": 5`), "invalid_argument", []string{"tasks.sort.job_time_limit", "write it with a unit"}},
		"negative weight":         {"OperationService/Start", `{"spec": {"weight": -1, "tasks": {"sort": {"job_count": 1, "command": ["true"]}}}}`, "invalid_argument", []string{"weight:"}},
		"no jobs":                 {"OperationService/Start", `{"spec": {"tasks": {"sort": {"job_count": 0, "command": ["true"]}}}}`, "invalid_argument", []string{"tasks.sort.job_count", "from 1 to 100000"}},
		"too many jobs":           {"OperationService/Start", `{"spec": {"tasks": {"sort": {"job_count": 100001, "command": ["true"]}}}}`, "invalid_argument", []string{"tasks.sort.job_count", "from 1 to 100000"}},
		"too many jobs together": {"OperationService/Start", `{"spec": {"tasks": {"a": {"job_count": 60000, "command": ["true"]}, "b": {"job_count": 60000, "command": ["true"]}}}}`,
			"invalid_argument", []string{"120000 jobs in total"}},
		"part of a job":              {"OperationService/Start", `{"spec": {"tasks": {"sort": {"job_count": 1.5, "command": ["true"]}}}}`, "invalid_argument", []string{"tasks.sort.job_count", "whole"}},
		"no tasks":                   {"OperationService/Start", `{"spec": {"tasks": {}}}`, "invalid_argument", []string{"tasks: it has 0 tasks"}},
		"too many tasks":             {"OperationService/Start", `{"spec": {"tasks": {` + strings.Join(many, ",") + `}}}`, "invalid_argument", []string{"tasks: it has 101 tasks"}},
		"name of a task":             {"OperationService/Start", `{"spec": {"tasks": {"../x": {"job_count": 1, "command": ["true"]}}}}`, "invalid_argument", []string{"task name"}},
		"empty command":              {"OperationService/Start", `{"spec": {"tasks": {"sort": {"job_count": 1, "command": []}}}}`, "invalid_argument", []string{"tasks.sort.command: it is empty"}},
		"empty program":              {"OperationService/Start", `{"spec": {"tasks": {"sort": {"job_count": 1, "command": [""]}}}}`, "invalid_argument", []string{"tasks.sort.command[0]", "empty"}},
		"empty line for a shell":     {"OperationService/Start", `{"spec": {"tasks": {"sort": {"job_count": 1, "shell": true, "command": " "}}}}`, "invalid_argument", []string{"tasks.sort.command: it is empty"}},
		"no command":                 {"OperationService/Start", `{"spec": {"tasks": {"sort": {"job_count": 1}}}}`, "invalid_argument", []string{"tasks.sort.command: it is missing"}},
		"a text without a shell":     {"OperationService/Start", `{"spec": {"tasks": {"sort": {"job_count": 1, "command": "sort x"}}}}`, "invalid_argument", []string{`["sort", "x"]`, "shell: true"}},
		"a variable of Weir's":       {"OperationService/Start", task(`"environment": {"WEIR_JOB_ID": "x"}`), "invalid_argument", []string{"tasks.sort.environment.WEIR_JOB_ID"}},
		"zero byte":                  {"OperationService/Start", `{"spec": {"tasks": {"sort": {"job_count": 1, "command": ["a\u0000b"]}}}}`, "invalid_argument", []string{"tasks.sort.command[0]", "NUL byte"}},
		"spec over the size limit":   {"OperationService/Start", `{"spec": {"title": "` + strings.Repeat("x", 3<<20) + `"}}`, "resource_exhausted", []string{"2097152"}},
		"annotations over theirs":    {"OperationService/Start", `{"spec": {"annotations": {"a": "` + strings.Repeat("x", 11<<10) + `"}, "tasks": {"sort": {"job_count": 1, "command": ["true"]}}}}`, "invalid_argument", []string{"annotations:", "10 KiB"}},
		"unknown pool tree":          {"OperationService/Start", `{"spec": {"pool_trees": ["nowhere"], "tasks": {"sort": {"job_count": 1, "command": ["true"]}}}}`, "not_found", []string{`"nowhere"`, `"default"`}},
		"pool of a user":             {"OperationService/Start", `{"spec": {"pool": "no$where", "tasks": {"sort": {"job_count": 1, "command": ["true"]}}}}`, "invalid_argument", []string{`"no$where"`}},
		"alias in use":               {"OperationService/Start", `{"spec": {"alias": "` + alias + `", "tasks": {"sort": {"job_count": 1, "command": ["true"]}}}}`, "already_exists", []string{alias, holder}},
		"alias without its star":     {"OperationService/Start", `{"spec": {"alias": "x", "tasks": {"sort": {"job_count": 1, "command": ["true"]}}}}`, "invalid_argument", []string{"alias:", `"*`}},
		"two mutation ids":           {"OperationService/Start", `{"mutation_id": "a", "spec": {"mutation_id": "b", "tasks": {"sort": {"job_count": 1, "command": ["true"]}}}}`, "invalid_argument", []string{"mutation_id"}},
		"unknown operation":          {"OperationService/Get", `{"operation": "*none"}`, "not_found", []string{`"*none"`}},
		"wait for ever":              {"OperationService/Wait", `{"operation": "` + alias + `", "timeout_millis": -1}`, "invalid_argument", []string{"timeout_millis"}},
		"unknown job":                {"JobService/Output", `{"job_id": "x", "stream": "stderr"}`, "not_found", []string{`"x"`}},
		"unknown stream":             {"JobService/Output", `{"job_id": "x", "stream": "stdlog"}`, "invalid_argument", []string{"stdlog", "stdout"}},
		"negative page":              {"OperationService/List", `{"limit": -1}`, "invalid_argument", []string{"limit"}},
		"unknown state":              {"OperationService/List", `{"state": "asleep"}`, "invalid_argument", []string{"asleep"}},
		"unknown parent of a pool":   {"PoolService/Edit", `{"edits": [{"create": {"name": "p", "parent": "nowhere"}}]}`, "not_found", []string{`"nowhere"`}},
		"name of a pool":             {"PoolService/Edit", `{"edits": [{"create": {"name": "a b"}}]}`, "invalid_argument", []string{"a b"}},
		"limit of a pool":            {"PoolService/Edit", `{"edits": [{"create": {"name": "p", "options": {"max_running_operation_count": -1}}}]}`, "invalid_argument", []string{"max_running_operation_count"}},
		"removing a pool that works": {"PoolService/Edit", `{"edits": [{"remove": "default"}]}`, "failed_precondition", []string{"default"}},
		"resuming what runs":         {"OperationService/Resume", `{"operation": "` + alias + `"}`, "failed_precondition", nil},
		"unknown replica":            {"ClusterService/Transfer", `{"to": "r9"}`, "not_found", []string{`"r9"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var answer *refusal
			switch test.method {
			case "ClusterService/Transfer":
				answer = c.refusedBy(t, c.leader(t), test.method, test.body)
			default:
				answer = c.refusedBy(t, "r2", test.method, test.body)
			}
			if answer.Status < 400 || answer.Status > 499 || answer.Code != test.wantCode {
				t.Errorf("%v, want %s", answer, test.wantCode)
			}
			for _, part := range test.want {
				if !strings.Contains(answer.Message, part) {
					t.Errorf("%v: %q is not in it", answer, part)
				}
			}
		})
	}
	c.runs(t, holder, 1)
	c.ask(t, "OperationService/Abort", object{"operation": alias}, &apipb.AbortOperationResponse{})
	c.ends(t, holder, "aborted")
}

// wrongCallers get no further than the door.
func wrongCallers(t *testing.T, c *cluster) {
	for name, test := range map[string]struct{ folder, method, want string }{
		"an agent at the API":   {"agent-" + c.node("n1"), "OperationService/List", "role agent"},
		"a replica at the API":  {"replica-r1", "OperationService/List", "role replica"},
		"a user moves the lead": {"user-ann", "ClusterService/Transfer", "for operators"},
	} {
		t.Run(name, func(t *testing.T) {
			refused := c.refusedTo(t, test.folder, "r1", test.method, "{}")
			if refused.Code != "permission_denied" || !strings.Contains(refused.Message, test.want) {
				t.Errorf("%v, want permission_denied with %q", refused, test.want)
			}
		})
	}
	t.Run("nobody", func(t *testing.T) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c.anonymous(t), ForceAttemptHTTP2: true}}
		defer client.CloseIdleConnections()
		if answer, err := client.Post("https://"+c.addresses["r1"]+"/weir.api.v1.ClusterService/Status", "application/json", strings.NewReader("{}")); err == nil {
			defer answer.Body.Close()
			t.Errorf("without a certificate: status %d", answer.StatusCode)
		}
	})
	t.Run("plaintext", func(t *testing.T) {
		answer, err := http.Post("http://"+c.addresses["r1"]+"/weir.api.v1.ClusterService/Status", "application/json", strings.NewReader("{}"))
		if err == nil {
			defer answer.Body.Close()
			t.Errorf("without TLS: status %d", answer.StatusCode)
		}
	})
}

// pages lists more operations than one answer holds.
func pages(t *testing.T, c *cluster) {
	var want []string
	for range 5 {
		id := c.start(t, one(object{"job_count": 1, "command": []string{"true"}, "cpu_limit": 0.1, "memory_limit": "64MiB"}, object{"title": "of the pages"}))
		want = append([]string{id}, want...)
	}
	var got []string
	request := object{"filter": "of the pages", "limit": 2}
	for {
		var answer apipb.ListOperationsResponse
		c.ask(t, "OperationService/List", request, &answer)
		for _, op := range answer.GetOperations() {
			got = append(got, op.GetId())
		}
		if !answer.GetIncomplete() {
			break
		}
		request["after"] = got[len(got)-1]
	}
	if !slices.Equal(got, want) {
		t.Errorf("operations %v, want %v", got, want)
	}
}
