package api

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// open makes a call as curl does, and returns the answer before it has ended.
func (s *site) open(ctx context.Context, method, call, kind, body string, headers ...string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.url+"/weir.api.v1."+call, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// TestEventsAsLines: what curl gets of a call that answers with a stream is an object a line, and
// has every event.
func TestEventsAsLines(t *testing.T) {
	s := newSite(t)
	s.run(3, "j1", "j2")
	_, want, err := eventsOf(t, newClient(t, s), &apipb.ReadEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write([]byte(`{}`))
	_ = zip.Close()
	for name, res := range map[string]*http.Response{
		"as curl does": s.open(ctx, http.MethodPost, "EventService/Read", "application/json", `{}`),
		"in UTF-8":     s.open(ctx, http.MethodPost, "EventService/Read", "application/json; charset=utf-8", `{}`),
		"packed":       s.open(ctx, http.MethodPost, "EventService/Read", "application/json", packed.String(), "Content-Encoding", "gzip"),
	} {
		var got []string
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			var m struct {
				Events []struct{ Kind string }
			}
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Fatalf("%s: %q: %v", name, lines.Text(), err)
			}
			for _, e := range m.Events {
				got = append(got, e.Kind)
			}
		}
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != linesType || res.Header.Get(apipb.HeaderReplica) != "r1" || lines.Err() != nil ||
			strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %d %v %v\ngot  %v\nwant %v", name, res.StatusCode, res.Header, lines.Err(), got, want)
		}
	}
}

// TestLinesComeAtOnce follows the events: each is told when it happens, and what ends the
// stream is its last line.
func TestLinesComeAtOnce(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res := s.open(ctx, http.MethodPost, "EventService/Read", "application/json", `{"latest": true, "follow": true}`)
	lines := bufio.NewScanner(res.Body)
	next := func(what string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), what) {
				return
			}
		}
		t.Fatalf("there is no %s: %v", what, lines.Err())
	}
	next(`"events":[]`)
	s.must(&commandpb.EditTree{User: "oda", Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: "shop"}}}}})
	next(`"kind":"pool_created"`)
	s.handler.Close()
	next(`{"error":{"code":"unavailable","message":"read events: replica r1 is stopping: use another one"}`)
	if lines.Scan() {
		t.Errorf("behind the last line: %q", lines.Text())
	}
}

// TestWrongCallsAreAdvised: whoever does not know how a call is made is told, in JSON and with
// the status of any other error.
func TestWrongCallsAreAdvised(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.MessageBytes = 4 << 10 })
	packed := map[string]string{"packed otherwise": "br", "packed, and is not": "gzip"}
	for name, test := range map[string]struct {
		method, call, kind, body string
		status                   int
		code, want               string
	}{
		"no such kind":          {"POST", "EventService/Read", "application/json", `{"kinds": ["none"]}`, 400, apipb.CodeInvalidArgument, `kind \"none\": unknown`},
		"no such field":         {"POST", "EventService/Read", "application/json", `{"before": 1}`, 400, "", `unknown field \"before\"`},
		"nothing":               {"POST", "EventService/Read", "application/json", ``, 400, "", "the body is empty: send at least {}"},
		"packed otherwise":      {"POST", "EventService/Read", "application/json", `{}`, 400, "", `Content-Encoding \"br\": use gzip or none`},
		"packed, and is not":    {"POST", "EventService/Read", "application/json", `{}`, 400, apipb.CodeInvalidArgument, "Read: unpack request: "},
		"no such operation":     {"POST", "OperationService/Watch", "application/json", `{"operation": "nope"}`, 404, "unknown_operation", `operation \"nope\" not found`},
		"too large":             {"POST", "EventService/Read", "application/json", `{"node": "` + strings.Repeat("n", 64<<10) + `"}`, 429, apipb.CodeInvalidArgument, "Read: the request has more than 65536 bytes"},
		"another type, stream":  {"POST", "EventService/Read", "text/plain", `{}`, 415, "", `Content-Type \"text/plain\" is not supported: POST an object of JSON, such as {}, with Content-Type: application/json`},
		"the form of curl":      {"POST", "OperationService/List", "application/x-www-form-urlencoded", `{}`, 415, "", "with Content-Type: application/json"},
		"a stream for one":      {"POST", "OperationService/List", "application/connect+json", `{}`, 415, "", "with Content-Type: application/json"},
		"another method":        {"GET", "OperationService/List", "application/json", ``, 405, "", "the method is GET: POST an object of JSON"},
		"another method, lines": {"GET", "EventService/Read", "application/json", ``, 405, "", "the method is GET: POST an object of JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			res := s.open(ctx, test.method, test.call, test.kind, test.body, "Content-Encoding", cmp.Or(packed[name], "identity"))
			data, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != test.status || !strings.Contains(string(data), test.want) || !json.Valid(data) || res.Header.Get(apipb.HeaderCode) != test.code {
				t.Errorf("got %d %v %s %v, want %d with %s", res.StatusCode, res.Header, data, err, test.status, test.want)
			}
			if kind := res.Header.Get("Content-Type"); kind != "application/json" {
				t.Errorf("an error of type %s", kind)
			}
		})
	}
}
