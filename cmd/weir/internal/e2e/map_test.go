package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/actors/agent/disktest"
	"weir/cluster/storage/storagetest"
	"weir/messages/apipb"
)

// reading is a map operation.
func reading(output string, command any, inputs ...string) object {
	mapper := object{"command": command, "cpu_limit": 0.5, "memory_limit": "64MiB"}
	if _, ok := command.(string); ok {
		mapper["shell"] = true
	}
	return object{"type": "map", "input_paths": inputs, "output_path": output, "mapper": mapper}
}

// onlyThere waits until nothing but want is in a folder.
func onlyThere(t *testing.T, folder string, want ...string) {
	t.Helper()
	until(t, "nothing is left in staging", func() string {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		if fmt.Sprint(names) == fmt.Sprint(want) {
			return ""
		}
		return fmt.Sprintf("there is %q, want %q", names, want)
	})
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// numbered returns lines with numbers, from first on.
func numbered(first, count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, "line %d\n", first+i)
	}
	return text.String()
}

// TestMap (I2) runs operations that read files and objects: their output, what of the input fails,
// and jobs that are interrupted, of which another one reads the rest.
func TestMap(t *testing.T) {
	store := storagetest.Serve(t, "data")
	for _, setting := range store.Environment() {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	c := newCluster(t, here, "n1", "n2")
	for _, setting := range store.Environment() {
		// Nodes need no credentials.
		name, _, _ := strings.Cut(setting, "=")
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, agent := range []string{"n1", "n2"} {
		c.startAgent(agent)
	}
	c.ready(t, 2)
	for name, story := range map[string]func(*testing.T, *cluster){
		"files in order": mapsFiles, "nothing to read": mapsNothing, "a folder": mapsIntoAFolder, "bytes": mapsBytes,
		"a record that no job survives": failsOfARecord, "records that are left out": leavesOutRecords,
		"a record that takes all memory": leavesOutAGreedyRecord, "a full disk": failsOfAFullDisk,
		"an input that changes": failsOfAChange, "an interrupted job": keepsWhatWasRead,
		"output of somebody else": leavesTheirs, "aborted": leavesNothing,
		"objects": func(t *testing.T, c *cluster) { mapsObjects(t, c, store) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, c)
		})
	}
	badInput(t, c)
}

// mapsFiles reads small and big files in their order.
func mapsFiles(t *testing.T, c *cluster) {
	dir := c.folder(t)
	one, two, three := write(t, dir+"/b.txt", numbered(0, 10)), write(t, dir+"/a.txt", numbered(10, 100000)), write(t, dir+"/empty", "")
	out := filepath.Join(dir, "out.txt")
	operation := c.start(t, reading(out, []string{"sed", "s/line/row/"}, one, three, two).with("data_size_per_job", "100KiB"))
	progress := c.ends(t, operation, "completed").GetProgress()
	if got, want := read(t, out), strings.ReplaceAll(numbered(0, 100010), "line", "row"); got != want {
		t.Errorf("the output is not what it is to be: %d bytes, want %d", len(got), len(want))
	}
	if in := progress.GetInput(); in.GetRows() != 100010 || in.GetBytes() != in.GetBytesTotal() || progress.GetCompleted() < 10 {
		t.Errorf("progress %v", progress)
	}
	if o := c.get(t, operation).GetOutput(); o.GetRows() != 100010 || o.GetPath() != out {
		t.Errorf("written %v", o)
	}
	onlyThere(t, dir, "a.txt", "b.txt", "empty", "out.txt")
}

// mapsNothing completes at once.
func mapsNothing(t *testing.T, c *cluster) {
	dir := c.folder(t)
	if err := os.Mkdir(dir+"/in", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/in/empty", "")
	c.ends(t, c.start(t, reading(dir+"/out", "exit 7", dir+"/in/")), "completed")
	if read(t, dir+"/out") != "" {
		t.Error("the output is not empty")
	}
	onlyThere(t, dir, "in", "out")
}

// mapsIntoAFolder has a file for each job.
func mapsIntoAFolder(t *testing.T, c *cluster) {
	dir := c.folder(t)
	in := write(t, dir+"/in", numbered(0, 3000))
	c.ends(t, c.start(t, reading(dir+"/out/", "cat", in).with("job_count", 3)), "completed")
	onlyThere(t, dir+"/out", "part-00000", "part-00001", "part-00002")
	onlyThere(t, dir, "in", "out")
	if got := read(t, dir+"/out/part-00000") + read(t, dir+"/out/part-00001") + read(t, dir+"/out/part-00002"); got != numbered(0, 3000) {
		t.Error("the parts are not the input")
	}
}

// mapsBytes cuts anywhere.
func mapsBytes(t *testing.T, c *cluster) {
	dir := c.folder(t)
	data := strings.Repeat("\x00\xffno lines", 10000)
	c.ends(t, c.start(t, reading(dir+"/out", "cat", write(t, dir+"/in", data)).with("job_count", 7).with("format", "bytes")), "completed")
	if read(t, dir+"/out") != data {
		t.Error("the output is not the input")
	}
}

// poisoned is lines of which some end the mapper that dies of them.
func poisoned(lines int, poison ...int) (all, rest string, offsets []int) {
	var with, without strings.Builder
	for i := range lines {
		line := fmt.Sprintf("line %d of many\n", i)
		if slices.Contains(poison, i) {
			offsets = append(offsets, with.Len())
			with.WriteString(strings.Replace(line, "line", "poison", 1))
			continue
		}
		with.WriteString(line)
		without.WriteString(line)
	}
	return with.String(), without.String(), offsets
}

var dies = []string{"sed", "/poison/Q7"}

func failsOfARecord(t *testing.T, c *cluster) {
	dir := c.folder(t)
	text, _, offsets := poisoned(20000, 12345)
	in := write(t, dir+"/in", text)
	operation := c.start(t, reading(dir+"/out", dies, in).with("job_count", 2))
	op := c.ends(t, operation, "failed")
	wantIn(t, "the operation's error", protojson.Format(op.GetResult()),
		[]string{fmt.Sprintf("every job fails on the record at byte %d of %s", offsets[0], in), "poison 12345 of many", "exited with code 7"})
	onlyThere(t, dir, "in")
	t.Logf("found after %d failed jobs", op.GetProgress().GetFailed())
}

func leavesOutRecords(t *testing.T, c *cluster) {
	dir := c.folder(t)
	text, rest, offsets := poisoned(20000, 77, 15000)
	operation := c.start(t, reading(dir+"/out", dies, write(t, dir+"/in", text)).with("job_count", 2).with("max_skipped_records", 2).with("max_failed_job_count", 50))
	c.ends(t, operation, "completed")
	if read(t, dir+"/out") != rest {
		t.Error("the output is not the other records")
	}
	op := c.get(t, operation)
	if in := op.GetProgress().GetInput(); in.GetRows() != 19998 || in.GetSkippedRecords() != 2 {
		t.Errorf("progress %v", in)
	}
	var begins []int
	for _, r := range op.GetTasks()[0].GetInput().GetSkipped() {
		begins = append(begins, int(r.GetBegin()))
		if !strings.HasPrefix(r.GetHead(), "poison ") {
			t.Errorf("skipped %v", r)
		}
	}
	if slices.Sort(begins); !slices.Equal(begins, offsets) {
		t.Errorf("skipped are records at %d, want %d", begins, offsets)
	}
}

// leavesOutAGreedyRecord finds a record of which the mapper takes more memory than it may.
func leavesOutAGreedyRecord(t *testing.T, c *cluster) {
	dir := c.folder(t)
	text, rest, offsets := poisoned(300, 123)
	mapper := fmt.Sprintf(`while read -r line; do case $line in poison*) exec %s hog 2000;; esac; echo "$line"; done`, program("witness"))
	operation := c.start(t, reading(dir+"/out", mapper, write(t, dir+"/in", text)).with("job_count", 1).with("max_skipped_records", 1))
	c.ends(t, operation, "completed")
	if read(t, dir+"/out") != rest {
		t.Error("the output is not the other records")
	}
	skipped := c.get(t, operation).GetTasks()[0].GetInput().GetSkipped()
	if len(skipped) != 1 || int(skipped[0].GetBegin()) != offsets[0] || !strings.HasPrefix(skipped[0].GetHead(), "poison 123") {
		t.Errorf("skipped %v, want the record at %d", skipped, offsets)
	}
}

// failsOfAFullDisk has no room for the output.
func failsOfAFullDisk(t *testing.T, c *cluster) {
	disk := disktest.SmallIn(t, c.folder(t), 1<<20)
	in := write(t, c.folder(t)+"/in", numbered(0, 300000))
	op := c.ends(t, c.start(t, reading(disk+"/out", "cat", in).with("max_failed_job_count", 2)), "failed")
	wantIn(t, "the operation's error", protojson.Format(op.GetResult()), []string{"no space left on device"})
	if p := op.GetProgress(); p.GetFailed() != 2 {
		t.Errorf("progress %v: no record is to blame, so none is looked for", p)
	}
	onlyThere(t, disk)
}

// failsOfAChange changes an input while it is read.
func failsOfAChange(t *testing.T, c *cluster) {
	dir := c.folder(t)
	in := write(t, dir+"/in", numbered(0, 100000))
	mapper := fmt.Sprintf("touch %s/began; until [ -e %s/go ]; do sleep 0.05; done; cat", dir, dir)
	operation := c.start(t, reading(dir+"/out", mapper, in))
	until(t, "the job has begun", func() string {
		_, err := os.Stat(dir + "/began")
		if err != nil {
			return err.Error()
		}
		return ""
	})
	write(t, in, numbered(1, 100000))
	write(t, dir+"/go", "")
	wantIn(t, "the operation's error", protojson.Format(c.ends(t, operation, "failed").GetResult()), []string{in, "the file has changed since it was listed"})
	onlyThere(t, dir, "began", "go", "in")
}

// keepsWhatWasRead interrupts jobs: what they have read counts, the rest goes to others.
func keepsWhatWasRead(t *testing.T, c *cluster) {
	dir := c.folder(t)
	// A job stops after its first line, until it is told to leave or a file is there: an order
	// may take its time from the replica that has accepted it to the job.
	const lines = 300_000
	mapper := fmt.Sprintf(`read -r line && echo "$line"; touch %s/$WEIR_JOB_ID; until [ -e "$WEIR_NOTICE" ] || [ -e %[1]s/go ]; do sleep 0.05; done; cat`, dir)
	operation := c.start(t, reading(dir+"/out", mapper, write(t, dir+"/in", numbered(0, lines))).with("job_count", 1))
	for i := range 3 {
		job := c.runs(t, operation, 1)[0]
		haveRead(t, dir, []*apipb.Job{job})
		c.interrupt(t, job.GetId(), time.Minute)
		if ended := c.left(t, job.GetId()); ended.GetState() != "completed" {
			t.Fatalf("interruption %d: the job is %v", i, ended)
		}
	}
	release(t, dir)
	progress := c.ends(t, operation, "completed").GetProgress()
	if read(t, dir+"/out") != numbered(0, lines) {
		t.Error("the output is not the input")
	}
	if in := progress.GetInput(); in.GetRows() != lines || progress.GetFailed() != 0 || progress.GetAborted() != 0 || progress.GetCompleted()+progress.GetRestarted() < 4 {
		t.Errorf("progress %v", progress)
	}
}

// leavesTheirs does not replace what somebody else has made.
func leavesTheirs(t *testing.T, c *cluster) {
	dir := c.folder(t)
	in := write(t, dir+"/in", numbered(0, 10))
	spec := reading(dir+"/out", fmt.Sprintf("until [ -e %s/go ]; do sleep 0.05; done; cat", dir), in)
	operation := c.start(t, spec)
	c.runs(t, operation, 1)
	write(t, dir+"/out", "theirs")
	write(t, dir+"/go", "")
	wantIn(t, "the operation's error", protojson.Format(c.ends(t, operation, "failed").GetResult()), []string{dir + "/out", "already exists"})
	// The next one does not even begin.
	op := c.ends(t, c.start(t, spec), "failed")
	wantIn(t, "the operation's error", protojson.Format(op.GetResult()), []string{dir + "/out", "already exists: move it away"})
	if read(t, dir+"/out") != "theirs" {
		t.Error("the output is not theirs any more")
	}
	onlyThere(t, dir, "go", "in", "out")
}

// leavesNothing of an operation that is aborted.
func leavesNothing(t *testing.T, c *cluster) {
	dir := c.folder(t)
	operation := c.start(t, reading(dir+"/out", "cat; sleep 1000", write(t, dir+"/in", numbered(0, 1000))).with("job_count", 4))
	c.runs(t, operation, 4)
	c.ask(t, "OperationService/Abort", object{"operation": operation, "reason": "a test"}, &apipb.AbortOperationResponse{})
	c.ends(t, operation, "aborted")
	onlyThere(t, dir, "in")
}

// mapsObjects reads and writes an object store, of which nodes know URLs alone.
func mapsObjects(t *testing.T, c *cluster, store *storagetest.Server) {
	store.Put("data", "in/a.txt", numbered(0, 100000))
	store.Put("data", "in/b.txt", numbered(100000, 50000))
	operation := c.start(t, reading("s3://data/out.txt", "cat", "s3://data/in/*.txt").with("job_count", 5))
	c.ends(t, operation, "completed")
	if data, _ := store.Data("data", "out.txt"); data != numbered(0, 150000) {
		t.Errorf("the output is not the input: %d bytes", len(data))
	}
	if in := c.get(t, operation).GetProgress().GetInput(); in.GetRows() != 150000 {
		t.Errorf("progress %v", in)
	}
	until(t, "nothing is left in staging", func() string {
		if keys := store.Keys("data"); len(keys) != 3 || store.Uploads() != 0 {
			return fmt.Sprint(keys)
		}
		return ""
	})
}

// badInput fails operations, which say where and why.
func badInput(t *testing.T, c *cluster) {
	dir := c.folder(t)
	for name, test := range map[string]struct {
		input, format string
		more          object
		want          []string
	}{
		"a file that is not there":   {input: dir + "/none", want: []string{dir + "/none", "no such file or directory"}},
		"a pattern of nothing":       {input: dir + "/*.none", want: []string{dir + "/*.none", "no file matches"}},
		"a bucket that is not there": {input: "s3://none/file", want: []string{"s3://none/file", "there is no bucket"}},
		"a folder for the output that is not there": {
			input: write(t, dir+"/good", "{}\n"), more: object{"output_path": dir + "/none/out"}, want: []string{"no folder " + dir + "/none"},
		},
		"more jobs than may be": {
			input: write(t, dir+"/big", numbered(0, 100000)), more: object{"data_size_per_job": 1}, want: []string{"set data_size_per_job to"},
		},
		"invalid JSON":    {input: write(t, dir+"/json", `{"a": 1}`+"\n"+`{"b": }`+"\n"), format: "json", want: []string{dir + "/json", "byte 9 of the file", "of the record"}},
		"binary in lines": {input: write(t, dir+"/binary", "text\nbin\x00ary\n"), want: []string{dir + "/binary", "byte 5 of the file", "NUL byte"}},
		"a line of too much": {
			input: write(t, dir+"/long", "short\n"+strings.Repeat("x", 3000)+"\n"), more: object{"max_record_size": 1024}, want: []string{dir + "/long", "byte 6 of the file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := reading(c.folder(t)+"/out", "cat", test.input)
			if test.format != "" {
				spec["format"] = test.format
			}
			maps.Copy(spec, test.more)
			wantIn(t, "the operation's error", protojson.Format(c.ends(t, c.start(t, spec), "failed").GetResult()), test.want)
		})
	}
}
