package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"weir/api/client"
	"weir/messages/apipb"
)

func TestLogLine(t *testing.T) {
	job := &apipb.Job{Id: "01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b", Task: "map", Cookie: 7, Attempt: 2, Node: "n1"}
	for name, test := range map[string]struct {
		format format
		line   client.LogLine
		want   string
	}{
		"stdout": {formatTable, client.LogLine{Job: job, Stream: "stdout", Text: []byte("done: 3\x00\xff")}, "map/7 5f1d2e4b: done: 3\x00\xff\n"},
		"stderr": {formatTable, client.LogLine{Job: job, Stream: "stderr"}, "map/7 5f1d2e4b err: \n"},
		"json": {formatJSON, client.LogLine{Job: job, Stream: "stderr", Text: []byte("a \"b\"\xff")},
			`{"job_id":"01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b","task":"map","cookie":7,"attempt":2,"node":"n1","stream":"stderr","text":"a \"b\"` + "\uFFFD" + `"}` + "\n"},
		"yaml": {formatYAML, client.LogLine{Job: job, Stream: "stdout", Text: []byte("x")},
			"attempt: 2\ncookie: 7\njob_id: 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b\nnode: n1\nstream: stdout\ntask: map\ntext: x\n"},
	} {
		var out bytes.Buffer
		if err := newPrinter(&out, &out, test.format).logLine(test.line); err != nil || out.String() != test.want {
			t.Errorf("%s: %q, %v, want %q", name, out.String(), err, test.want)
		}
	}
}

func TestLogsFlags(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"fewer than no lines":    {[]string{"--tail", "-3"}, "--tail -3: must be 0 or more"},
		"no time":                {[]string{"--since", "yesterday"}, `--since "yesterday": must be a time such as`},
		"a time that is to come": {[]string{"--since", "-5m"}, `--since "-5m": must be a time such as`},
		"no number of lines":     {[]string{"--tail", "many"}, "many"},
	} {
		cmd := newOpLogsCommand(&clientFlags{})
		cmd.SetArgs(append([]string{"*nightly"}, test.args...))
		cmd.SetOut(new(bytes.Buffer))
		cmd.SetErr(new(bytes.Buffer))
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{"": {}, "90m": now.Add(-90 * time.Minute), "0s": now, "2026-01-30T08:00:00Z": now.Add(-24 * time.Hour)} {
		if got, err := sinceTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("--since %q is %v, %v, want %v", text, got, err, want)
		}
	}
}
