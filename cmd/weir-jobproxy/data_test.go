package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/records"
	"weir/scheduling/statistics"
)

// write makes a file.
func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// listed is a part of a file as it was when it was listed: now.
func listed(t testing.TB, path string, begin, end int64) proxyproto.FeedPart {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return proxyproto.FeedPart{Path: path, Name: filepath.Base(path), Size: info.Size(), ModTime: info.ModTime(), Begin: begin, End: end}
}

// input makes a file and returns the whole of it as a part.
func input(t testing.TB, text string) proxyproto.FeedPart {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input")
	write(t, path, text)
	return listed(t, path, 0, int64(len(text)))
}

// fed is a change of a spec: the job is fed with these parts.
func fed(output string, format records.Format, parts ...proxyproto.FeedPart) func(*proxyproto.Spec) {
	return func(spec *proxyproto.Spec) {
		spec.Feed = &proxyproto.Feed{Format: string(format), Parts: parts, MaxRecordBytes: 1 << 20, Output: output, Part: "part-7"}
	}
}

// hash is that of lines.
func hash(text string) uint64 { return records.CountLines([]byte(text)).Hash }

// lines are numbered ones.
func lines(count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// runJob runs a job to its end.
func runJob(t testing.TB, shell string, change ...func(*proxyproto.Spec)) *proxyproto.Result {
	t.Helper()
	return startProxy(t, shell, time.Hour, change...).connect(t).hear(t, "exited").Exited
}

// fedCase is a job, its input, and what comes of it.
type fedCase struct {
	format    records.Format
	shell     string
	parts     func(t *testing.T) []proxyproto.FeedPart
	want      string
	wantRows  int64
	wantBytes int64
	wantHash  uint64
	wantOut   int64
}

// runFed runs each job, and compares its output and what it counts.
func runFed(t *testing.T, cases map[string]fedCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if test.format == "" {
				test.format = records.Lines
			}
			output := filepath.Join(t.TempDir(), "part")
			result := runJob(t, test.shell, fed(output, test.format, test.parts(t)...))
			got, err := os.ReadFile(output)
			if err != nil || string(got) != test.want || result.Outcome != proxyproto.OutcomeExited || result.ExitCode != 0 {
				t.Fatalf("result %+v, output %.100q, %v, want %.100q", result, got, err, test.want)
			}
			wantInput := &proxyproto.InputCount{Rows: test.wantRows, Bytes: test.wantBytes, Hash: test.wantHash, Only: result.Input.Only}
			if diff := cmp.Diff(wantInput, result.Input); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(&proxyproto.OutputCount{Part: "part-7", Rows: test.wantOut, Bytes: int64(len(test.want))}, result.Output); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			onlyFile(t, output)
			values := result.Statistics.Values
			if values[statistics.DataInputRows] != test.wantRows || values[statistics.DataInputBytes] != test.wantBytes || values[statistics.UserPipesStdout] != int64(len(test.want)) {
				t.Errorf("statistics %v, want %d rows, %d and %d bytes", values, test.wantRows, test.wantBytes, len(test.want))
			}
		})
	}
}

// TestFedJobs has commands that read their input, whatever they make of it.
func TestFedJobs(t *testing.T) {
	runFed(t, map[string]fedCase{
		"cat": {
			shell: "cat", parts: func(t *testing.T) []proxyproto.FeedPart { return []proxyproto.FeedPart{input(t, lines(50000))} },
			want: lines(50000), wantRows: 50000, wantBytes: int64(len(lines(50000))), wantHash: hash(lines(50000)), wantOut: 50000,
		},
		"sort takes all before it writes": {
			shell: "sort -r", parts: func(t *testing.T) []proxyproto.FeedPart { return []proxyproto.FeedPart{input(t, "a\nc\nb\n")} },
			want: "c\nb\na\n", wantRows: 3, wantBytes: 6, wantHash: hash("a\nb\nc\n"), wantOut: 3,
		},
		"wc of no input": {
			shell: "wc -l", parts: func(*testing.T) []proxyproto.FeedPart { return nil }, want: "0\n", wantOut: 1,
		},
		"output without an end of line": {
			shell: "cat > /dev/null; printf 'a\\nb'", parts: func(t *testing.T) []proxyproto.FeedPart { return []proxyproto.FeedPart{input(t, "x\n")} },
			want: "a\nb", wantRows: 1, wantBytes: 2, wantHash: hash("x\n"), wantOut: 2,
		},
		"a slow reader": {
			shell: "while read -r line; do echo \"$line\"; done", parts: func(t *testing.T) []proxyproto.FeedPart { return []proxyproto.FeedPart{input(t, lines(500))} },
			want: lines(500), wantRows: 500, wantBytes: int64(len(lines(500))), wantHash: hash(lines(500)), wantOut: 500,
		},
	})
}

// TestFedParts has input of several files, of parts of files and in other formats.
func TestFedParts(t *testing.T) {
	runFed(t, map[string]fedCase{
		"an empty file and files without an end of line": {
			shell: "cat", parts: func(t *testing.T) []proxyproto.FeedPart {
				return []proxyproto.FeedPart{input(t, ""), input(t, "a\nb"), input(t, ""), input(t, "c"), input(t, "d\n")}
			},
			want: "a\nb\nc\nd\n", wantRows: 4, wantBytes: 6, wantHash: hash("a\nb\nc\nd\n"), wantOut: 4,
		},
		"the middle of a file": {
			shell: "cat", parts: func(t *testing.T) []proxyproto.FeedPart {
				part := input(t, "one\ntwo\nthree\nfour\n")
				part.Begin, part.End = 3, 9
				return []proxyproto.FeedPart{part}
			},
			want: "two\nthree\n", wantRows: 2, wantBytes: 10, wantHash: hash("two\nthree\n"), wantOut: 2,
		},
		"a slice in which no record begins": {
			shell: "cat", parts: func(t *testing.T) []proxyproto.FeedPart {
				part := input(t, "one long line\n")
				part.Begin, part.End = 3, 9
				return []proxyproto.FeedPart{part}
			},
		},
		"json": {
			format: records.JSON, shell: "cat", parts: func(t *testing.T) []proxyproto.FeedPart { return []proxyproto.FeedPart{input(t, "{\"a\":1}\n[2]\n")} },
			want: "{\"a\":1}\n[2]\n", wantRows: 2, wantBytes: 12, wantHash: hash("{\"a\":1}\n[2]\n"), wantOut: 2,
		},
		"bytes": {
			format: records.Bytes, shell: "cat", parts: func(t *testing.T) []proxyproto.FeedPart {
				part := input(t, "a\x00b\nc")
				part.Begin, part.End = 1, 4
				return []proxyproto.FeedPart{part, input(t, "d")}
			},
			want: "\x00b\nd", wantBytes: 4,
		},
	})
}

// onlyFile fails unless the folder of a file holds that alone.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("beside %s: %v, %v, want nothing else", path, entries, err)
	}
}

// emptyFolder fails unless nothing is in the folder.
func emptyFolder(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != 0 {
		t.Errorf("in %s: %v, %v, want nothing", path, entries, err)
	}
}

// TestInterruptedJobsLeaveTheRest interrupts jobs in the middle of their input: what they
// wrote, and what is left for others, is the whole.
func TestInterruptedJobsLeaveTheRest(t *testing.T) {
	text := lines(200000)
	// Some is read before the interruption. The job waits for $GO to read what is left then.
	const some = "for i in 1 2 3; do read -r line && echo \"$line\"; done; "
	few := lines(3)
	const wait = "until [ -e \"$GO\" ]; do sleep 0.01; done; "
	const rest = "while read -r line; do echo \"$line\"; done"
	tests := map[string]struct {
		text  string
		shell string
		// first is what it writes before it is interrupted: it has then read no more.
		first string
		// unheard: there is no signal, and its input just ends.
		unheard bool
		// wantFew: it must not get more than it has read by itself.
		wantFew bool
	}{
		"a command that reads byte by byte":                  {text: text, shell: "trap '' INT; " + some + wait + rest, first: few, wantFew: true},
		"nothing but the end of its input":                   {text: text, shell: some + wait + rest, first: few, unheard: true, wantFew: true},
		"all of the input is on its way already":             {text: lines(100), shell: "trap '' INT; " + some + wait + rest, first: few, wantFew: true},
		"a command that reads only when it is interrupted":   {text: text, shell: "trap 'cat; exit 0' INT; echo; while :; do sleep 0.1; done", first: "\n"},
		"a command that ends without reading on":             {text: text, shell: "trap 'exit 0' INT; " + some + "while :; do sleep 0.01; done", first: few, wantFew: true},
		"a record that is longer than the pipe":              {text: strings.Repeat("x", 900000) + "\n" + lines(10), shell: "trap '' INT; head -c 5; " + wait + "cat", first: "xxxxx"},
		"the input has been read, and nothing is taken back": {text: lines(10), shell: "trap 'exit 0' INT; cat; while :; do sleep 0.1; done", first: lines(10)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part := input(t, test.text)
			output := filepath.Join(t.TempDir(), "part")
			signal := filepath.Join(t.TempDir(), "go")
			p := startProxy(t, test.shell, time.Hour, fed(output, records.Lines, part), func(spec *proxyproto.Spec) {
				spec.Environment = append(spec.Environment, "GO="+signal)
			})
			a := p.connect(t)
			job := a.hear(t, "started").Started.Pid
			awaitBytes(t, partial(output), len(test.first))
			name := "SIGINT"
			if test.unheard {
				name = ""
			}
			a.say(t, fmt.Sprintf(`{"interrupt":{"signal":%q,"reason":"preemption","grace_millis":600000}}`, name))
			a.settled(t)
			if test.wantFew {
				awaitTakenBack(t, job)
			}
			write(t, signal, "")
			result := a.hear(t, "exited").Exited
			got, err := os.ReadFile(output)
			if err != nil || result.Outcome != proxyproto.OutcomeExited || result.ExitCode != 0 || !result.Interrupted {
				t.Fatalf("result %+v, %v, want it completed", result, err)
			}
			rest := int64(len(test.text))
			if at := result.Input.Rest; at != nil {
				rest = at.Offset
			}
			written := strings.TrimPrefix(string(got), "\n")
			if written != test.text[:rest] {
				t.Errorf("wrote %d bytes, and %d are said to be read: want the same", len(written), rest)
			}
			want := records.CountLines([]byte(test.text[:rest]))
			if in := result.Input; in.Rows != want.Rows || in.Bytes != want.Bytes || in.Hash != want.Hash {
				t.Errorf("input %+v, want %+v", in, want)
			}
			if test.wantFew && (result.Input.Rest == nil || result.Input.Rows > 100) {
				t.Errorf("input %+v, want the interruption to leave most of it", result.Input)
			}
		})
	}
}

// settled waits until what was said before has been obeyed.
func (a agent) settled(t *testing.T) {
	t.Helper()
	a.say(t, `{"probe":{"argv":[],"timeout_millis":1}}`)
	a.hear(t, "error")
}

// awaitTakenBack waits until a job that has read whole records finds no more of them, or has
// gone.
func awaitTakenBack(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		input, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/0", pid), os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return
		}
		held, err := unix.IoctlGetInt(int(input.Fd()), unix.TIOCINQ)
		if must(t, errors.Join(err, input.Close())); held == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are not taken back", held)
		}
	}
}

// awaitSome waits until there is something in a file.
func awaitSome(t *testing.T, path string) {
	t.Helper()
	awaitBytes(t, path, 1)
}

// awaitBytes waits until there are so many bytes in a file.
func awaitBytes(t *testing.T, path string, count int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		if info, err := os.Stat(path); err == nil && info.Size() >= int64(count) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not %d bytes in %s", count, path)
		}
		<-time.After(time.Millisecond)
	}
}

func TestEarlyExits(t *testing.T) {
	text := lines(200000)
	tests := map[string]struct {
		shell    string
		wantCode int
		wantRows bool
		wantRest bool
	}{
		"nothing is read":               {shell: "exit 0"},
		"one line is read":              {shell: "read -r line; echo done", wantRows: true},
		"input is closed":               {shell: "exec < /dev/null; sleep 0.1"},
		"it fails having read one line": {shell: "read -r line; exit 3", wantCode: 3, wantRows: true, wantRest: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			result := runJob(t, test.shell, fed(filepath.Join(folder, "part"), records.Lines, input(t, text)))
			in := result.Input
			if result.Outcome != proxyproto.OutcomeExited || result.ExitCode != test.wantCode || in == nil || (in.Rest != nil) != test.wantRest {
				t.Fatalf("result %+v, input %+v, want exit code %d, a rest %v", result, in, test.wantCode, test.wantRest)
			}
			want := records.Counts{}
			if test.wantRows {
				want = records.CountLines([]byte(lines(1)))
			}
			if in.Rows != want.Rows || in.Bytes != want.Bytes || in.Hash != want.Hash {
				t.Errorf("input %+v, want what was read: %+v", in, want)
			}
			if test.wantRows {
				wantOnly := &proxyproto.FeedRecord{Begin: 0, End: want.Bytes, Head: []byte("line 0")}
				if diff := cmp.Diff(wantOnly, in.Only); diff != "" {
					t.Errorf("the only record (-want +got):\n%s", diff)
				}
			}
			if test.wantCode != 0 {
				emptyFolder(t, folder)
			}
		})
	}
}
