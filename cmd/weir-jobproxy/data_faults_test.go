package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/records"
)

func TestFaultyInputs(t *testing.T) {
	tests := map[string]struct {
		format     records.Format
		text       string
		change     func(t *testing.T, part *proxyproto.FeedPart)
		shell      string
		wantKind   string
		wantText   string
		wantRecord [2]int64
	}{
		"a line that is too long": {
			text: "a\n" + strings.Repeat("x", 2<<20) + "\n", wantKind: "record_too_long", wantText: "longer than 1048576 bytes", wantRecord: [2]int64{2, 3 + 1<<20},
		},
		"bad JSON": {
			format: records.JSON, text: "{}\n{\"a\":}\n", wantKind: "invalid_json", wantText: "byte 6 of the record (byte 8 of the file)", wantRecord: [2]int64{3, 9},
		},
		"binary": {text: "text\n\x7fELF\x00\n", wantKind: "binary_input", wantText: "NUL byte", wantRecord: [2]int64{5, 10}},
		"a file that is gone": {
			text: "a\n", change: func(t *testing.T, part *proxyproto.FeedPart) { must(t, os.Remove(part.Path)) },
			wantKind: proxyproto.InputChanged, wantText: "it no longer exists",
		},
		"a file that is longer": {
			text: "a\n", change: func(t *testing.T, part *proxyproto.FeedPart) { write(t, part.Path, "a\nb\n") },
			wantKind: proxyproto.InputChanged, wantText: "it has 4 bytes now, but had 2",
		},
		"a file that was truncated": {
			text: "a\nb\n", change: func(t *testing.T, part *proxyproto.FeedPart) { must(t, os.Truncate(part.Path, 2)) },
			wantKind: proxyproto.InputChanged, wantText: "it has 2 bytes now, but had 4",
		},
		"a file of the same size that was written again": {
			text: "a\n", change: func(t *testing.T, part *proxyproto.FeedPart) {
				must(t, os.Chtimes(part.Path, time.Time{}, part.ModTime.Add(time.Nanosecond)))
			},
			wantKind: proxyproto.InputChanged, wantText: "its modification time was",
		},
		"a folder in its place": {
			text: "a\n", change: func(t *testing.T, part *proxyproto.FeedPart) {
				must(t, os.Remove(part.Path))
				must(t, os.Mkdir(part.Path, 0o700))
			},
			wantKind: proxyproto.InputChanged, wantText: "no longer a regular file",
		},
		"a path through a file": {
			text: "a\n", change: func(_ *testing.T, part *proxyproto.FeedPart) { part.Path += "/x" },
			wantKind: proxyproto.InputUnreadable, wantText: "not a directory",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.format == "" {
				test.format = records.Lines
			}
			part := input(t, test.text)
			if test.change != nil {
				test.change(t, &part)
			}
			folder := t.TempDir()
			// Another file comes first, and the command would go on for ever.
			result := runJob(t, "cat; sleep 1000", fed(filepath.Join(folder, "part"), test.format, input(t, "1\n"), part))
			fault := result.InputFault
			if result.Outcome != proxyproto.OutcomeInputFailed || fault == nil || fault.Kind != test.wantKind || fault.Name != "input" || fault.Part != 1 {
				t.Fatalf("result %+v, fault %+v, want %s", result, fault, test.wantKind)
			}
			if !strings.Contains(fault.Text, test.wantText) || !strings.Contains(result.Error, test.wantText) || !strings.Contains(result.Error, "input input: ") {
				t.Errorf("fault %q, error %q, want %q", fault.Text, result.Error, test.wantText)
			}
			if got := [2]int64{fault.Begin, fault.End}; got != test.wantRecord {
				t.Errorf("the record is at %v, want %v", got, test.wantRecord)
			}
			emptyFolder(t, folder)
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestInputThatChangesWhileItIsRead changes a file under a job that goes on to the end, and
// under one that takes little more than the pipe holds and then waits for ever.
func TestInputThatChangesWhileItIsRead(t *testing.T) {
	for name, goesOn := range map[string]string{"to the end": "cat", "a little": "head -c 1000000; sleep 1000"} {
		t.Run(name, func(t *testing.T) { inputChanges(t, goesOn) })
	}
}

func inputChanges(t *testing.T, goesOn string) {
	part := input(t, lines(500000))
	folder := t.TempDir()
	output := filepath.Join(folder, "part")
	goOn := filepath.Join(t.TempDir(), "go")
	p := startProxy(t, "head -n 1; until [ -e "+goOn+" ]; do sleep 0.01; done; "+goesOn, time.Hour, fed(output, records.Lines, part))
	a := p.connect(t)
	awaitSome(t, partial(output))
	file, err := os.OpenFile(part.Path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = file.WriteString("one more\n")
	must(t, err)
	must(t, file.Close())
	write(t, goOn, "")
	result := a.hear(t, "exited").Exited
	if result.Outcome != proxyproto.OutcomeInputFailed || result.InputFault == nil || result.InputFault.Kind != proxyproto.InputChanged || result.ExitCode != -1 {
		t.Errorf("result %+v, fault %+v, want the change to end it", result, result.InputFault)
	}
	emptyFolder(t, folder)
}

func TestJobsThatAreStoppedLeaveNothing(t *testing.T) {
	folder := t.TempDir()
	output := filepath.Join(folder, "part")
	a := startProxy(t, "cat; sleep 1000", time.Hour, fed(output, records.Lines, input(t, "a\n"))).connect(t)
	awaitSome(t, partial(output))
	a.say(t, `{"stop":{"reason":"enough","grace_millis":0}}`)
	if result := a.hear(t, "exited").Exited; result.Outcome != proxyproto.OutcomeStopped || result.Output != nil {
		t.Errorf("result %+v, want it stopped, without output", result)
	}
	emptyFolder(t, folder)
}
