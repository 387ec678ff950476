package e2e

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/messages/apipb"
	"weir/scheduling/records"
	"weir/scheduling/resource"
)

// textSizeVariable asks for another size of the text than textSize, such as 1GiB.
const (
	textSizeVariable = "WEIR_E2E_MAP_SIZE"
	textSize         = 150 << 20
)

// text is real text in some files.
type text struct {
	files  []string
	counts records.Counts
}

// writeText writes the sources of the Go toolchain, again and again, to files below dir.
func writeText(t *testing.T, dir string, size int64) *text {
	t.Helper()
	const files = 5
	source := goSource(t)
	w := &text{}
	for i := range files {
		name := filepath.Join(dir, fmt.Sprintf("text-%d.go", i))
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		for written := int64(0); written < size/files; written += int64(len(source)) {
			part := source[:min(int64(len(source)), size/files-written)]
			part = part[:bytes.LastIndexByte(part, '\n')+1]
			if _, err := f.Write(part); err != nil {
				t.Fatal(err)
			}
			w.counts = w.counts.Plus(records.CountLines(part))
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		w.files = append(w.files, name)
	}
	return w
}

// goSource returns all Go files of the toolchain's standard library.
func goSource(t *testing.T) (source []byte) {
	t.Helper()
	output, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(output)), "src"), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".go" {
			return err
		}
		data, err := os.ReadFile(name)
		// Some tests have what is no text.
		if bytes.IndexByte(data, 0) < 0 && bytes.HasSuffix(data, []byte("\n")) {
			source = append(source, data...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

const changesText = "sed 's/func/FUNC/g'"

// directly returns the hash of what the mapper makes of the text without Weir.
func (w *text) directly(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", changesText+` "$@"`, "sh")
	cmd.Args = append(cmd.Args, w.files...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sum := hashOf(t, out)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return sum
}

func hashOf(t *testing.T, r io.Reader) string {
	t.Helper()
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x of %d bytes", sum.Sum(nil), n)
}

// TestMapOfText (I2) reads real text while agents and replicas are killed, and others are owed
// half of the cluster again and again: the output is that of the same program without
// Weir, and each row is counted once.
func TestMapOfText(t *testing.T) {
	size := int64(textSize)
	if asked := os.Getenv(textSizeVariable); asked != "" {
		var err error
		if size, err = resource.ParseSize(asked); err != nil {
			t.Fatalf("%s: %v", textSizeVariable, err)
		}
	}
	agents := []string{"n1", "n2", "n3"}
	c := prepareCluster(t, here, agents...)
	// Some agents are gone for longer.
	c.more = []string{"--lease", "5s"}
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	dir := c.folder(t)
	w := writeText(t, dir, size)
	want := w.directly(t)
	for _, agent := range agents {
		c.startAgent(agent, "--cpu", "6")
	}
	c.ready(t, len(agents))

	// With all slots it lasts half a minute, however great the text is.
	const jobs, slots, seconds = 60, 18, 30
	spec := reading(filepath.Join(dir, "out.go"), fmt.Sprintf("%s pace %d | %s", program("witness"), size/slots/seconds, changesText), w.files...)
	spec["job_count"], spec["preemption_mode"], spec["allocation_graceful_preemption_timeout"] = jobs, "graceful", "20s"
	spec["mapper"].(object)["cpu_limit"] = 1
	operation := c.start(t, spec)
	c.runs(t, operation, slots/2)
	strikes := c.disturb(t, operation, agents)
	c.endsWithin(t, 4*patience, operation, "completed")

	f, err := os.Open(filepath.Join(dir, "out.go"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := hashOf(t, f); got != want {
		t.Errorf("the output is %s, want %s", got, want)
	}
	op := c.get(t, operation)
	in := op.GetProgress().GetInput()
	if in.GetRows() != w.counts.Rows || in.GetHash() != w.counts.Hash || in.GetBytes() != w.counts.Bytes || in.GetSkippedRecords() != 0 {
		t.Errorf("read are %v, want each of %v once", in, w.counts)
	}
	if op.GetOutput().GetRows() != w.counts.Rows {
		t.Errorf("written are %d rows, want %d", op.GetOutput().GetRows(), w.counts.Rows)
	}
	c.wantLeftWell(t, operation)
	if !t.Failed() {
		leavesNothingAfterItsController(t, c)
	}
	t.Logf("%d MiB on %d cores: %s; %s", size>>20, runtime.NumCPU(), strikes, protojson.Format(op.GetProgress()))
}

// leavesNothingAfterItsController aborts an operation whose controller has died, and so
// cannot clear up before it is back.
func leavesNothingAfterItsController(t *testing.T, c *cluster) {
	dir := c.folder(t)
	operation := c.start(t, reading(filepath.Join(dir, "out"), "cat; sleep 1000", write(t, dir+"/in", numbered(0, 10))))
	c.runs(t, operation, 1)
	controller := c.get(t, operation).GetController()
	c.process(controller).kill()
	c.ask(t, "OperationService/Abort", object{"operation": operation, "reason": "a test"}, &apipb.AbortOperationResponse{})
	c.ends(t, operation, "aborted")
	c.startReplica(controller)
	onlyThere(t, dir, "in")
}

// wantLeftWell checks that the jobs that say that they completed have read all rows, each
// once, and that some of them were interrupted and left a rest.
func (c *cluster) wantLeftWell(t *testing.T, operation string) {
	t.Helper()
	var rows, rests int64
	interrupted := 0
	completed := c.jobs(t, operation, "completed")
	for _, job := range completed {
		rows += job.GetInput().GetRows()
		if job.GetInterruption() != nil && job.GetInput().GetRestBytes() > 0 {
			interrupted++
			rests += job.GetInput().GetRestBytes()
		}
	}
	p := c.get(t, operation).GetProgress()
	if int64(len(completed)) == p.GetCompleted() && rows != p.GetInput().GetRows() {
		t.Errorf("jobs have read %d rows in all, counted are %d", rows, p.GetInput().GetRows())
	}
	if interrupted == 0 {
		t.Errorf("no job was interrupted and left a rest: %s", c.describe(t, operation))
	}
	t.Logf("%d of %d completed jobs were interrupted and left %d bytes", interrupted, len(completed), rests)
}

// disturb kills agents and replicas until most of the input is read, and has somebody be
// owed half of the cluster.
func (c *cluster) disturb(t *testing.T, operation string, agents []string) string {
	seed := rand.Uint64()
	chance := rand.New(rand.NewPCG(seed, 0))
	killed := map[string]int{}
	for round := 0; ; round++ {
		p := c.get(t, operation).GetProgress().GetInput()
		if p.GetBytes() > p.GetBytesTotal()*3/4 {
			return fmt.Sprintf("seed %d, killed %v", seed, killed)
		}
		if round%3 == 0 {
			c.start(t, one(small(9, "run", c.folder(t), "2s").with("cpu_limit", 1)))
		}
		name := agents[chance.IntN(len(agents))]
		if round%3 == 2 {
			name = replicaNames[chance.IntN(len(replicaNames))]
		}
		c.process(name).kill()
		killed[name]++
		// An agent that is gone for longer than its lease loses its jobs.
		c.progressesFor(t, operation, time.Duration(chance.Int64N(int64(8*time.Second))))
		if round%3 == 2 {
			c.startReplica(name)
		} else {
			c.startAgent(name, "--cpu", "6")
		}
		c.progressesFor(t, operation, time.Second)
	}
}

// progressesFor waits for a time, or until an operation has ended.
func (c *cluster) progressesFor(t *testing.T, operation string, length time.Duration) {
	t.Helper()
	settle(length, func() string {
		var answer apipb.GetOperationResponse
		for _, replica := range replicaNames {
			if !c.lives(replica) {
				continue
			}
			if err := c.call(t.Context(), replica, "OperationService/Get", object{"operation": operation}, &answer); err != nil {
				var refused *refusal
				if !errors.As(err, &refused) {
					continue
				}
			}
			if answer.GetOperation().GetFinishTime() != nil {
				return ""
			}
			return "it runs"
		}
		return "nobody answers"
	})
}
