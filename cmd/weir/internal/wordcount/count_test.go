package wordcount

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCountWords(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want int64
	}{
		"nothing":               {"", 0},
		"one, no end of line":   {"word", 1},
		"several separators":    {"  a,b;\n\tc ", 3},
		"digits and underlines": {"go1_26 x86", 2},
		"zero bytes":            {"a\x00b\xffc", 3},
		"letters of others":     {"naïve", 2},
		"next to the letters":   {"@A[`z{", 2},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := countWords(strings.NewReader(test.text))
			if err != nil || got != test.want {
				t.Errorf("%d words, %v; want %d", got, err, test.want)
			}
		})
	}
}

// tree writes files to a new folder.
func tree(t interface {
	Helper()
	Fatal(args ...any)
}, dir string, files map[string][]byte) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// jobCommand is a job as an agent would run it.
func jobCommand(t *testing.T, source string, cookie, jobs int, gate string) *exec.Cmd {
	t.Helper()
	spec, err := Spec(source, jobs, gate)
	if err != nil {
		t.Fatal(err)
	}
	fields := spec.AsMap()["tasks"].(map[string]any)[task].(map[string]any)
	cmd := exec.Command("/bin/sh", "-c", fields["command"].(string))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), fmt.Sprintf("WEIR_JOB_COOKIE=%d", cookie), fmt.Sprintf("WEIR_TASK_JOB_COUNT=%d", jobs)}
	for name, value := range fields["environment"].(map[string]any) {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%v", name, value))
	}
	return cmd
}

func runJob(t *testing.T, source string, cookie, jobs int, gate string) string {
	t.Helper()
	cmd := jobCommand(t, source, cookie, jobs, gate)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("job %d: %v, %s", cookie, err, &stderr)
	}
	return string(output)
}

func TestJobsCountWhatIsCountedDirectly(t *testing.T) {
	source := t.TempDir()
	tree(t, source, map[string][]byte{
		"a.go": []byte("package a // one two\n"), "empty": nil, "with space.txt": []byte("x y z"),
		"deep/er/b": []byte("\x00\x01binary\xff words\r\nhere"), "deep/-n": []byte("a-b"), `back\slash`: []byte("word"), "Ünï": []byte("ünï"),
	})
	direct, err := CountDirectly(source)
	if err != nil {
		t.Fatal(err)
	}
	for name, jobs := range map[string]int{"one job": 1, "some jobs": 3, "more jobs than files": 10} {
		t.Run(name, func(t *testing.T) {
			outputs := make(map[int]string)
			for cookie := range jobs {
				outputs[cookie] = runJob(t, source, cookie, jobs, "")
			}
			counted, wrong := merge(outputs)
			wrong = append(wrong, compare(direct, counted)...)
			if len(wrong) > 0 {
				t.Errorf("differences: %q", wrong)
			}
			if len(direct) != 7 || direct.Words() != 14 {
				t.Errorf("%d files, %d words: %v", len(direct), direct.Words(), direct)
			}
		})
	}
}

// TestLastJobWaits starts every job of three before the gate is there: the last one ends
// only once it is.
func TestLastJobWaits(t *testing.T) {
	source, gate := t.TempDir(), filepath.Join(t.TempDir(), "gate")
	tree(t, source, map[string][]byte{"a": []byte("x"), "b": []byte("x y"), "c": []byte("x y z")})
	var output bytes.Buffer
	last, ended := jobCommand(t, source, 2, 3, gate), make(chan error, 1)
	last.Stdout = &output
	if err := last.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- last.Wait() }()
	for cookie, want := range []string{"1 ./a\n", "2 ./b\n"} {
		if got := runJob(t, source, cookie, 3, gate); got != want {
			t.Errorf("job %d wrote %q, want %q", cookie, got, want)
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("the last job ended without the gate: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || output.String() != "3 ./c\n" {
		t.Errorf("the last job wrote %q, %v", &output, err)
	}
}

func TestDirectCountOfManyBytes(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.SliceOf(rapid.Byte()).Draw(t, "content")
		tree(t, dir, map[string][]byte{"file": content})
		counts, err := CountDirectly(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := len(bytes.FieldsFunc(content, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') }))
		if counts.Words() != int64(want) {
			t.Fatalf("%d words in %q, want %d", counts.Words(), content, want)
		}
	})
}

func TestMergeAndCompare(t *testing.T) {
	direct := Counts{"./a": 1, "./b c": 2}
	for name, test := range map[string]struct {
		outputs map[int]string
		want    []string
	}{
		"all is well":        {map[int]string{0: "1 ./a\n", 1: "   2 ./b c\n"}, nil},
		"a file is missing":  {map[int]string{0: "1 ./a\n"}, []string{"./b c was not counted by any job"}},
		"a number is wrong":  {map[int]string{0: "1 ./a\n3 ./b c\n"}, []string{"./b c has 2 words, the job counted 3"}},
		"a file twice":       {map[int]string{0: "1 ./a\n2 ./b c\n", 1: "1 ./a\n"}, []string{"./a was counted twice, by jobs 0 and 1"}},
		"a file of nowhere":  {map[int]string{0: "1 ./a\n2 ./b c\n4 ./d\n"}, []string{"./d was counted by a job but does not exist"}},
		"no count":           {map[int]string{0: "1 ./a\n2 ./b c\n", 1: "oops"}, []string{`job 1 wrote "oops", which is not a count and a file name`}},
		"a line without all": {map[int]string{0: "1 ./a\n2 ./b c\n7\n"}, []string{`job 0 wrote "7\n", which is not a count and a file name`}},
	} {
		t.Run(name, func(t *testing.T) {
			counted, wrong := merge(test.outputs)
			wrong = append(wrong, compare(direct, counted)...)
			if !slices.Equal(wrong, test.want) {
				t.Errorf("differences %q, want %q", wrong, test.want)
			}
		})
	}
}

func TestShorten(t *testing.T) {
	list := slices.Repeat([]string{"x"}, maxShown)
	if got := shorten(list); len(got) != maxShown {
		t.Errorf("%d lines of %d", len(got), len(list))
	}
	list = append(list, "y", "z")
	if got := shorten(list); len(got) != maxShown+1 || got[maxShown] != "and 2 more" {
		t.Errorf("%q of %d", got, len(list))
	}
}

func TestSpecNamesWhatJobsNeed(t *testing.T) {
	spec, err := Spec("/src", 64, "")
	if err != nil {
		t.Fatal(err)
	}
	tasks := spec.AsMap()["tasks"].(map[string]any)
	fields := tasks[task].(map[string]any)
	if fields["job_count"] != 64.0 || fields["shell"] != true || !maps.Equal(fields["environment"].(map[string]any), map[string]any{"SOURCE": "/src"}) {
		t.Errorf("task: %v", fields)
	}
}
