package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"weir/api/client"
)

// TestErrorsPage holds the tables of docs/errors.md to the exit codes and to the codes of replicas;
// -rewrite writes them.
func TestErrorsPage(t *testing.T) {
	const name = "../../docs/errors.md"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var ends, codes, inner []string
	ends = append(ends, "| 0 | | The command did what it says. | |")
	for _, e := range endings {
		ends = append(ends, fmt.Sprintf("| %d | `%s` | %s | %s |", e.exit, e.Name, e.Meaning, e.Do))
	}
	for _, c := range client.Codes() {
		if c.Inner {
			inner = append(inner, fmt.Sprintf("| `%s` | %s |", c.Name, c.Meaning))
			continue
		}
		codes = append(codes, fmt.Sprintf("| `%s` | %s | %s | %s |", c.Name, c.Meaning, c.Do, when(c.Again, "yes")))
	}
	want := string(data)
	for heading, rows := range map[string][]string{"Exit codes": ends, "Codes of replicas": codes, "Codes between replicas and agents": inner} {
		want = withRows(t, want, heading, rows)
	}
	if *rewrite {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("%s is not what the code says: go test ./cmd/weir -run TestErrorsPage -rewrite\n%s", name, diff)
	}
}

// withRows returns a page with other rows in the first table below a heading.
func withRows(t *testing.T, page, heading string, rows []string) string {
	t.Helper()
	before, after, found := strings.Cut(page, "\n## "+heading+"\n")
	text, table, begun := strings.Cut(after, "\n|---|")
	dashes, table, ended := strings.Cut(table, "\n")
	if !found || !begun || !ended {
		t.Fatalf("no table below %q", heading)
	}
	for strings.HasPrefix(table, "|") {
		_, table, _ = strings.Cut(table, "\n")
	}
	return before + "\n## " + heading + "\n" + text + "\n|---|" + dashes + "\n" + strings.Join(rows, "\n") + "\n" + table
}

// TestAdviceNamesCommandsThatExist, with flags that they have.
func TestAdviceNamesCommandsThatExist(t *testing.T) {
	mentioned := regexp.MustCompile(`weir (cluster upgrade [a-z-]+|[a-z-]+( [a-z-]+)?)`)
	flag := regexp.MustCompile(`--([a-z-]+)`)
	all := client.Codes()
	for _, e := range endings {
		all = append(all, e.Code)
	}
	seen := 0
	for _, c := range all {
		for _, line := range mentioned.FindAllString(c.Do, -1) {
			seen++
			words := strings.Fields(line)[1:]
			cmd, _, err := newRootCommand().Find(words)
			if err == nil && cmd.HasSubCommands() {
				err = errors.New("a verb is missing")
			}
			if err != nil {
				t.Errorf("%s: %q: %s: %v", c.Name, c.Do, line, err)
				continue
			}
			_, rest, _ := strings.Cut(c.Do, line)
			for _, found := range flag.FindAllStringSubmatch(rest, 1) {
				if cmd.Flag(found[1]) == nil {
					t.Errorf("%s: %q: %s has no flag %s", c.Name, c.Do, line, found[0])
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d commands are mentioned", seen)
	}
}

// TestFailure shows errors to people and to programs.
func TestFailure(t *testing.T) {
	refused := &client.Error{What: "get pool", Code: "unknown_pool", Kind: connect.CodeNotFound, Message: `there is no pool "adz"`}
	full := &client.Error{What: "start operation", Code: "pool_full", Kind: connect.CodeResourceExhausted, Message: "full"}
	for name, test := range map[string]struct {
		err      error
		people   string
		wantJSON failure
	}{
		"a refusal": {err: explain(refused), people: `get pool: there is no pool "adz" (unknown_pool)`,
			wantJSON: failure{Code: "unknown_pool", Message: `get pool: there is no pool "adz"`, Action: "Check the name and the tree: weir pool list.", ExitCode: 6}},
		"a refusal that passes": {err: explain(full), people: "start operation: full (pool_full)",
			wantJSON: failure{Code: "pool_full", Message: "start operation: full", Retryable: true, Action: "Wait, use another pool, or have the limit raised with the command in the message.", ExitCode: 5}},
		"a code of a newer replica": {err: explain(&client.Error{What: "x", Code: "brand_new", Kind: connect.CodeAborted, Message: "no"}), people: "x: no (brand_new)",
			wantJSON: failure{Code: "brand_new", Message: "x: no", Action: "See the code and the message.", ExitCode: 5}},
		"no answer to a change": {err: explain(&client.UnreachableError{What: "start operation", Unsure: true}),
			people:   "start operation: cluster unreachable after 0s; it may have taken effect anyway; check that the replicas are running, that the addresses are right, and that no firewall blocks them",
			wantJSON: failure{Code: "unreachable", Message: "start operation: cluster unreachable after 0s; it may have taken effect anyway; check that the replicas are running, that the addresses are right, and that no firewall blocks them", Retryable: true, Action: "Check weir context show and weir status, then try again.", Unsure: true, ExitCode: 3}},
		"a mistake":                 {err: usage(errors.New("--limit: no")), people: "--limit: no", wantJSON: failure{Code: "usage", Message: "--limit: no", Action: "Correct what the message names.", ExitCode: 2}},
		"whatever else":             {err: errors.New("disk full"), people: "disk full", wantJSON: failure{Code: "failed", Message: "disk full", Action: "Read the message.", ExitCode: 1}},
		"a watch that ended":        {err: &exitError{code: exitInterrupted}, wantJSON: failure{ExitCode: 130}},
		"an operation that did not": {err: &exitError{exitOperationEnded, errors.New("operation o1 failed")}, people: "operation o1 failed", wantJSON: failure{Code: "operation_failed", Message: "operation o1 failed", Action: "See weir op get and weir job list; weir op retry runs it again.", ExitCode: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			f, said := failureOf(test.err)
			if said != test.people {
				t.Errorf("people see %q, want %q", said, test.people)
			}
			text := f.line()
			var got failure
			if err := json.Unmarshal([]byte(text), &got); err != nil || strings.Contains(text, "\n") {
				t.Fatalf("programs see %q: %v", text, err)
			}
			if diff := cmp.Diff(test.wantJSON, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestJSONIsAskedFor also by a command line that is wrong besides.
func TestJSONIsAskedFor(t *testing.T) {
	for line, want := range map[string]bool{
		"op list -o json": true, "op list -ojson": true, "-o=json op": true, "op --output json": true, "op --output=json": true, "op list -o json --frob": true,
		"op list": false, "op list -o yaml": false, "op list -o": false, "job exec -- -o json": false, "op list json": false,
	} {
		if got := asksJSON(strings.Fields(line)); got != want {
			t.Errorf("%s: %t, want %t", line, got, want)
		}
	}
}
