package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// reply is what came back from a call in JSON.
type reply struct {
	status int
	header http.Header
	fields map[string]any
	raw    string
}

// post makes a call as curl does.
func (s *site) post(method, body string, headers ...string) reply {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/weir.api.v1."+method, bytes.NewBufferString(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	r := reply{status: res.StatusCode, header: res.Header, raw: string(data)}
	if err := json.Unmarshal(data, &r.fields); err != nil && !errors.Is(err, io.EOF) {
		r.fields = nil
	}
	return r
}

// get makes a call that is answered, and returns the answer.
func (s *site) get(method, body string, headers ...string) map[string]any {
	s.t.Helper()
	r := s.post(method, body, headers...)
	if r.status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, body, r.status, r.raw)
	}
	return r.fields
}

// at returns a value of an answer by the names and indexes on the way to it.
func at(t testing.TB, fields any, path ...any) any {
	t.Helper()
	for i, step := range path {
		switch s := step.(type) {
		case string:
			m, ok := fields.(map[string]any)
			if !ok || m[s] == nil {
				t.Fatalf("%v: no %v in %v", path, path[i], fields)
			}
			fields = m[s]
		case int:
			l, ok := fields.([]any)
			if !ok || s >= len(l) {
				t.Fatalf("%v: no %v in %v", path, path[i], fields)
			}
			fields = l[s]
		}
	}
	return fields
}

// want checks values of an answer: path and value by turns.
func want(t testing.TB, fields any, value any, path ...any) {
	t.Helper()
	if got := at(t, fields, path...); got != value {
		t.Errorf("%v is %v (%T), want %v", path, got, got, value)
	}
}

// startBody returns a request that starts jobs of one task "t".
func startBody(jobs int, more string) string {
	return fmt.Sprintf(`{"spec": {"tasks": {"t": {"job_count": %d, "command": ["run"]}}%s}}`, jobs, more)
}
