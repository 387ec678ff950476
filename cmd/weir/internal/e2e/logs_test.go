package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// loggedLine is a line of weir op logs.
var loggedLine = regexp.MustCompile(`^(\w+)/(\d+) (\w+)( err)?: line (\d+)$`)

// TestLogsOfAnOperation (X6) follows the output of four jobs. The leader is killed meanwhile, and an agent, which comes back and
// keeps its jobs; a job that fails is followed by another. Each line is shown once and in order, to the last.
func TestLogsOfAnOperation(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1", "n2")
	for _, agent := range []string{"n1", "n2"} {
		c.startAgent(agent, "--user-slots", "2")
	}
	c.ready(t, 2)
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	line := `i=0; while :; do i=$((i+1)); echo line $i; echo line $i >&2; `
	talks := shell(3, line+`test -e `+release+` && exit 0; sleep 0.1; done`)
	fails := shell(1, line+`test $i = 5 || continue; mkdir `+dir+`/failed 2>/dev/null && exit 7; until test -e `+release+`; do sleep 0.1; done; exit 0; done`)
	operation := c.start(t, object{"tasks": object{"talks": talks, "fails": fails}})
	c.runs(t, operation, 4)

	var addresses []string
	for _, name := range replicaNames {
		addresses = append(addresses, c.addresses[name])
	}
	p := c.launch("logs", c.launcher, "op", "logs", operation, "--follow", "--addresses", strings.Join(addresses, ","), "--credentials", c.certs("operator-admin"))
	// further waits until each of three jobs has had another 20 lines shown.
	further := func() {
		t.Helper()
		before, _ := logged(t, p.printed())
		until(t, "the output goes on", func() string {
			now, _ := logged(t, p.printed())
			grown := 0
			for of, lines := range now {
				if strings.HasPrefix(of, "talks/") && lines >= before[of]+20 {
					grown++
				}
			}
			if grown == 6 {
				return ""
			}
			return fmt.Sprint(now)
		})
	}
	further()
	killed := c.leader(t)
	c.process(killed).kill()
	further()
	c.startReplica(killed)
	c.process("n1").kill()
	c.startAgent("n1", "--user-slots", "2").says(t, "msg=registered")
	further()
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.ends(t, operation, "completed")
	if code := p.exit(t); code != 0 {
		t.Errorf("weir op logs ended with %d:\n%s", code, tail(p.printed(), 5))
	}
	jobs := c.jobs(t, operation)
	shown, wrong := logged(t, p.printed())
	if len(jobs) != 5 || len(shown) != 10 || wrong != "" {
		t.Errorf("lines of %v, of %d jobs; want two outputs of each of 5; %s", shown, len(jobs), wrong)
	}
	for _, job := range jobs {
		for stream, mark := range map[string]string{"stdout": "", "stderr": " err"} {
			of := fmt.Sprintf("%s/%d %s%s", job.GetTask(), job.GetCookie(), job.GetId()[len(job.GetId())-8:], mark)
			if want := strings.Count(c.output(t, job.GetId(), stream), "\n"); shown[of] != want || want < 5 {
				t.Errorf("%s: %d lines were shown, want %d", of, shown[of], want)
			}
		}
	}
	// What is left when all has ended, for programs.
	printed := c.cli(t, "op", "logs", operation, "--failed", "--stderr", "--tail", "2", "-o", "json")
	var texts []string
	for text := range strings.Lines(printed) {
		var said struct{ Task, Stream, Text string }
		if err := json.Unmarshal([]byte(text), &said); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		texts = append(texts, said.Task+" "+said.Stream+" "+said.Text)
	}
	if got := strings.Join(texts, ", "); got != "fails stderr line 4, fails stderr line 5" {
		t.Errorf("the failed job's last lines are %q", got)
	}
	if printed, code := c.verb(t, "op", "logs", operation, "--task", "other"); code == 0 || !strings.Contains(printed, "other") {
		t.Errorf("logs of an unknown task: exit code %d\n%s", code, printed)
	}
}

// logged returns how many lines of each output were printed, and what is wrong with them: each has to be the next of its output.
func logged(t *testing.T, printed string) (lines map[string]int, wrong string) {
	t.Helper()
	lines = map[string]int{}
	// The last line may be incomplete yet.
	whole := printed[:strings.LastIndex(printed, "\n")+1]
	for text := range strings.SplitSeq(whole, "\n") {
		found := loggedLine.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		of := fmt.Sprintf("%s/%s %s%s", found[1], found[2], found[3], found[4])
		if number, _ := strconv.Atoi(found[5]); number != lines[of]+1 {
			wrong += fmt.Sprintf("%s: line %d comes after %d; ", of, number, lines[of])
		}
		lines[of]++
	}
	return lines, wrong
}
