package main

import (
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
)

var rewrite = flag.Bool("rewrite", false, "write what is printed now into testdata/text, to be read as a diff")

// textTime is when the answers of testdata/text are looked at.
var textTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// textIDs are what operations of testdata/text are called.
var textIDs = figures.IDs{Names: map[string]*apipb.OperationName{
	"01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b": {Title: "sort by key", Alias: "*nightly", User: "ann", Pool: "ads"},
	"o1":                                   {Title: "one", User: "bob", Pool: "default"},
}}

// texts are the pages for people, by the beginning of the names of their tests.
var texts = map[string]func(t *testing.T, answer []byte) string{
	"operation": drawn(func(m *apipb.Operation) string { return operationText(m, textIDs, textTime) }),
	"wide": drawn(func(m *apipb.ListOperationsResponse) string {
		return operationsText(m, figures.IDs{Full: true}, textTime, 0)
	}),
	"operations": drawn(func(m *apipb.ListOperationsResponse) string { return operationsText(m, textIDs, textTime, 0) }),
	"summary":    drawn(func(m *apipb.Operation) string { return summary(m, textTime) + "\n" }),
	"error":      drawn(func(m *apipb.Error) string { return errorText(m, "") }),
	"events":     drawn(func(m *apipb.OperationEventsResponse) string { return eventsText(m.GetEvents(), time.UTC) }),
	"happened": drawn(func(m *apipb.ReadEventsResponse) string {
		var b strings.Builder
		for _, e := range m.GetEvents() {
			b.WriteString(eventText(e, textIDs, time.UTC) + "\n")
		}
		return b.String()
	}),
	"explanation": drawn(func(m *apipb.ExplainResponse) string { return explanationsText(m.GetExplanations(), textIDs, textTime) }),
	"statistics":  drawn(statisticsText),
	"measured":    drawn(jobStatisticsText),
	"profiles":    drawn(func(m *apipb.MemoryProfilesResponse) string { return profilesText(m, textTime) }),
	"profile":     drawn(func(m *apipb.MemoryProfile) string { return profileText(m, textTime) }),
	"ledger":      drawn(func(m *apipb.LedgerResponse) string { return ledgerText(m.GetWaste()) }),
	"jobs": drawn(func(m *apipb.ListJobsResponse) string {
		return jobsText(m, &apipb.ListJobsRequest{}, textIDs, textTime, 0)
	}),
	"job":       drawn(func(m *apipb.Job) string { return jobText(m, textIDs, textTime) }),
	"instances": drawn(func(m *apipb.WatchInstancesResponse) string { return instancesText(m, textIDs, textTime, 0) }),
	"pools":     drawn(func(m *apipb.ListPoolsResponse) string { return poolsText(m.GetPools(), textTime, 0) }),
	"pool":      drawn(func(m *apipb.GetPoolResponse) string { return poolText(m, textTime) }),
	"pooltree":  drawn(func(m *apipb.ListPoolsResponse) string { return poolTreeText(m, textTime, 0) }),
	"history": drawn(func(m *apipb.PoolHistoryResponse) string {
		return historyText(m, textTime.Add(-10*time.Minute), textTime)
	}),
	"trees":     drawn(func(m *apipb.ListTreesResponse) string { return treesText(m.GetTrees()) }),
	"tree":      drawn(func(m *apipb.Tree) string { return treeText(m, textTime) }),
	"attribute": drawn(attributeText),
	"nodes":     drawn(func(m *apipb.ListNodesResponse) string { return nodesText(m.GetNodes(), textTime, 0) }),
	"node":      drawn(func(m *apipb.GetNodeResponse) string { return nodeText(m, textIDs, textTime) }),
	"upgrade":   drawn(func(m *apipb.UpgradeStatusResponse) string { return upgradeText(m, textTime) }),
	"plan":      drawn(func(m *apipb.UpgradeStatusResponse) string { return planOfUpgrade(m, textTime) }),
	"members":   drawn(func(m *apipb.MembersResponse) string { return membersText(m.GetMembers(), false) }),
	"status":    drawn(func(m *apipb.StatusResponse) string { return statusText(m, textTime) }),
}

func drawn[M any, P interface {
	*M
	proto.Message
}](draw func(P) string) func(*testing.T, []byte) string {
	return func(t *testing.T, answer []byte) string {
		message := P(new(M))
		if err := protojson.Unmarshal(answer, message); err != nil {
			t.Fatalf("the answer in the test: %v", err)
		}
		return figures.Plain(draw(message))
	}
}

// TestText draws the answers of testdata/text: each file has a message in JSON,
// ----, and the page.
func TestText(t *testing.T) {
	files, err := filepath.Glob("testdata/text/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in testdata/text: %v", err)
	}
	untested := maps.Clone(texts)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		kind, _, _ := strings.Cut(name, "-")
		delete(untested, kind)
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			answer, want, ok := strings.Cut(string(data), "----\n")
			draw := texts[kind]
			if !ok || draw == nil {
				t.Fatalf("%s: no ---- in it, or nothing draws %q", file, kind)
			}
			got := draw(t, []byte(answer))
			for line := range strings.Lines(got) {
				if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
					t.Errorf("a line ends in spaces or has no end: %q", line)
				}
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(answer+"----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	if len(untested) > 0 {
		t.Errorf("no test draws %v", slices.Sorted(maps.Keys(untested)))
	}
}

func TestSpan(t *testing.T) {
	tests := map[string]struct {
		span time.Duration
		want string
	}{
		"clocks that differ give no negative times": {-time.Second, "0ms"},
		"milliseconds below a second":               {721 * time.Millisecond, "721ms"},
		"tenths below ten seconds":                  {9*time.Second + 990*time.Millisecond, "9.9s"},
		"seconds below a minute":                    {59*time.Second + 999*time.Millisecond, "59s"},
		"minutes":                                   {61 * time.Second, "1m1s"},
		"hours":                                     {23*time.Hour + 59*time.Minute + 59*time.Second, "23h59m"},
		"days":                                      {49 * time.Hour, "2d1h"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := span(test.span); got != test.want {
				t.Errorf("span(%v) = %q, want %q", test.span, got, test.want)
			}
		})
	}
}

func TestSize(t *testing.T) {
	tests := map[string]struct {
		bytes int64
		want  string
	}{
		"nothing":                     {0, "0 B"},
		"less than a unit":            {1023, "1023 B"},
		"a whole number has no point": {64 << 20, "64 MiB"},
		"one digit after the point":   {3 << 29, "1.5 GiB"},
		"more than the largest unit":  {1 << 62, "4096 PiB"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := size(test.bytes); got != test.want {
				t.Errorf("size(%d) = %q, want %q", test.bytes, got, test.want)
			}
		})
	}
}

// TestPrintable keeps what users write from acting on the terminals of others.
func TestPrintable(t *testing.T) {
	if got, want := printable("a\x1b[2Jb\nc\u202Ed é"), "a\uFFFD[2Jb c\uFFFDd é"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClip(t *testing.T) {
	for line, want := range map[string]string{"abcdef": "abc…", "abcd": "abcd", "日本語": "日…"} {
		if got := clip(line, 4); got != want {
			t.Errorf("clip(%q, 4) = %q, want %q", line, got, want)
		}
	}
	if got := clip("abcdef", 0); got != "abcdef" {
		t.Errorf("without a width: got %q", got)
	}
}

func TestAgeOfNothing(t *testing.T) {
	if got := age(nil, textTime); got != none {
		t.Errorf("got %q", got)
	}
	if got := lasted(timestamppb.New(textTime.Add(-time.Hour)), nil, textTime); got != "1h0m" {
		t.Errorf("what has not ended lasts until now: got %q", got)
	}
}

func TestClipRows(t *testing.T) {
	const list = "name  what it is\nn1    a long tale\nn2    short\n"
	for name, test := range map[string]struct{ list, want string }{
		"a list":                    {list, "name  wha…\nn1    a l…\nn2    sho…\n"},
		"what is below it is whole": {list + "\nmore: --after n2 continues\n", "name  wha…\nn1    a l…\nn2    sho…\n\nmore: --after n2 continues\n"},
		"a narrow list":             {"n1  up\n", "n1  up\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := clipRows(test.list, 10); got != test.want {
				t.Errorf("it is %q, want %q", got, test.want)
			}
			if got := clipRows(test.list, 0); got != test.list {
				t.Errorf("where the width is not known it is %q", got)
			}
		})
	}
}

// TestListsAreClippedOnTerminals alone, and pages never are.
func TestListsAreClippedOnTerminals(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, test := range map[string]struct {
		terminal, rows bool
		want           string
	}{
		"a list on a terminal": {true, true, strings.Repeat("x", 199) + "…\r\n"},
		"a page on a terminal": {true, false, long + "\r\n"},
		"a list in a file":     {false, true, long + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var front, out *os.File
			if test.terminal {
				front, out = openTerminal(t)
			} else {
				var err error
				if front, out, err = os.Pipe(); err != nil {
					t.Fatal(err)
				}
				defer front.Close()
			}
			defer out.Close()
			p := newPrinter(out, io.Discard, formatTable)
			if err := p.show(view{text: func(time.Time) string { return long + "\n" }, rows: test.rows}); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(test.want))
			if _, err := io.ReadFull(front, got); err != nil || string(got) != test.want {
				t.Errorf("it shows %q, %v, want %q", got, err, test.want)
			}
		})
	}
}
