package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/messages/apipb"
)

// limit is the memory_limit of the jobs of these tests.
const limit = 128 << 20

// using is a task of jobs that use a fifth of their memory_limit, or of every so many one
// nine tenths, for a while.
func using(count int, dir, while string, every int) object {
	return object{
		"job_count": count, "cpu_limit": 0.1, "memory_limit": limit,
		"command": []string{program("witness"), "use", dir, strconv.Itoa(limit), "0.2", while, strconv.Itoa(every)},
	}
}

// memoryOf returns what the one task of an operation has learned.
func (c *cluster) memoryOf(t *testing.T, operation string) *apipb.TaskMemory {
	t.Helper()
	return c.get(t, operation).GetTasks()[0].GetMemory()
}

// part is how much of the memory_limit is reserved for a job's processes.
func part(reserve *apipb.JobReserve) float64 { return float64(reserve.GetUser()) / limit }

// finishes follows an operation to its end, and returns all of its jobs: replicas keep the
// latest of them.
func (c *cluster) finishes(t *testing.T, operation string) (*apipb.Operation, []*apipb.Job) {
	t.Helper()
	ended := map[string]*apipb.Job{}
	var answer apipb.WaitOperationResponse
	for end := time.Now().Add(4 * patience); !answer.GetDone() && time.Now().Before(end); {
		c.ask(t, "OperationService/Wait", object{"operation": operation, "timeout_millis": 1000}, &answer)
		for _, job := range c.jobs(t, operation) {
			if job.GetFinishTime() != nil {
				ended[job.GetId()] = job
			}
		}
	}
	return c.ends(t, operation, "completed"), slices.Collect(maps.Values(ended))
}

// byReserve returns how many jobs ran at once at most, by their times: of those with the
// reserve of the beginning, and of those with less than a third of the limit.
func byReserve(jobs []*apipb.Job) (before, after int) {
	var first, learned []*apipb.Job
	for _, job := range jobs {
		switch reserve := part(job.GetReserve()); {
		case reserve == 0.5:
			first = append(first, job)
		case reserve < 1./3:
			learned = append(learned, job)
		}
	}
	return atOnce(first), atOnce(learned)
}

// TestReservesAreLearned (X4, M3) runs an operation whose jobs use a fifth of what they may, again,
// and again after all replicas have been down.
func TestReservesAreLearned(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1", "n2")
	for _, agent := range []string{"n1", "n2"} {
		c.startAgent(agent, "--memory", "640MiB")
	}
	c.ready(t, 2)
	spec := func(count int) object { return one(using(count, c.dir, "2s", 0)) }
	operation := c.start(t, spec(300))
	op, ended := c.finishes(t, operation)
	before, after := byReserve(ended)
	memory := c.memoryOf(t, operation)
	// The reserve is the 95th percentile of what is known: one in twenty may be above it, and
	// runs again.
	progress := op.GetProgress()
	if over := progress.GetAbortedByReason()["resource_overdraft"]; progress.GetFailed() != 0 || progress.GetAborted() != over || over > progress.GetTotal()/20 {
		t.Errorf("jobs failed, or were aborted beyond one in twenty: %v", progress)
	}
	if got := part(memory.GetReserve()); got < 0.19 || got > 0.25 || memory.GetFromProfile() {
		t.Errorf("%.3f of the limit is reserved in the end (from a profile: %v), want about 0.22", got, memory.GetFromProfile())
	}
	t.Logf("300 jobs that use 0.18 to 0.22 of their memory_limit: reserved 0.50 at first, %.3f in the end; %d jobs at once before, %d after; %v",
		part(memory.GetReserve()), before, after, memory)
	if before == 0 || after < before*3/2 {
		t.Errorf("%d jobs ran at once before, %d after", before, after)
	}
	c.beginsLearned(t, spec(30))
	for _, name := range replicaNames {
		c.process(name).kill()
	}
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	c.ready(t, 2)
	c.beginsLearned(t, spec(30))

	fresh := c.start(t, one(using(1, c.dir, "0s", 0), object{"no_memory_profile": true}))
	if got := c.jobs(t, c.ends(t, fresh, "completed").GetId())[0].GetReserve(); part(got) != 0.5 {
		t.Errorf("an operation without profile begins with %v", got)
	}
}

// TestNightlyRunsOfFewJobs (X4) runs an operation of five jobs night after night: from the second
// run on it begins with what the runs before have used.
func TestNightlyRunsOfFewJobs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1", "--memory", "640MiB")
	c.ready(t, 1)
	spec := one(using(5, c.dir, "0s", 0))
	first := c.start(t, spec)
	c.ends(t, first, "completed")
	for _, job := range c.jobs(t, first) {
		if got := part(job.GetReserve()); got != 0.5 {
			t.Errorf("the first run begins with %.3f of the limit", got)
		}
	}
	for range 3 {
		c.beginsLearned(t, spec)
	}
}

// beginsLearned runs the operation again: its first job gets what was learned.
func (c *cluster) beginsLearned(t *testing.T, spec object) {
	t.Helper()
	// What an operation has learned is left when it has ended.
	until(t, "there is a memory profile", func() string {
		var answer apipb.MemoryProfilesResponse
		c.ask(t, "MemoryService/Profiles", object{}, &answer)
		if len(answer.GetProfiles()) == 1 {
			return ""
		}
		return protojson.Format(&answer)
	})
	operation := c.start(t, spec)
	c.ends(t, operation, "completed")
	if memory := c.memoryOf(t, operation); !memory.GetFromProfile() {
		t.Errorf("the operation has begun without its profile: %v", memory)
	}
	for _, job := range c.jobs(t, operation) {
		if got := part(job.GetReserve()); got < 0.19 || got > 0.25 {
			t.Errorf("job %d had %.3f of its limit reserved, want what was learned", job.GetCookie(), got)
		}
	}
	t.Logf("the same again: its first jobs have %.3f of the limit reserved", part(c.jobs(t, operation)[0].GetReserve()))
}

// TestOverdrafts has one of eighty jobs use nine tenths of its memory_limit on nodes that are
// full. Those jobs are aborted, and no others, and run again with all of the limit.
func TestOverdrafts(t *testing.T) {
	t.Parallel()
	// Before the first one that is above its reserve, several rounds of others teach what is
	// used. After the last one come enough of them to fill the nodes again and again, until
	// that is noticed. Each lasts long enough for a node to fill while jobs start slowly.
	const jobs, every = 240, 80
	c := newCluster(t, here, "n1", "n2", "n3")
	for _, agent := range []string{"n1", "n2", "n3"} {
		c.startAgent(agent, "--memory", "200MiB")
	}
	c.ready(t, 3)
	operation := c.start(t, one(using(jobs, c.folder(t), "2500ms", every)))
	op, ended := c.finishes(t, operation)
	by := op.GetProgress().GetAbortedByReason()
	if op.GetProgress().GetFailed() != 0 || op.GetProgress().GetAborted() != by["resource_overdraft"] {
		t.Errorf("%v, want overdrafts and nothing else\n%s", op.GetProgress(), c.describe(t, operation))
	}
	aborted := map[int32]int{}
	for _, job := range ended {
		if job.GetState() != "aborted" {
			continue
		}
		aborted[job.GetCookie()]++
		attributes := job.GetError().GetAttributes()
		for _, name := range []string{"resource", "reserve", "usage", "node_usage", "node_memory"} {
			if attributes[name] == "" {
				t.Errorf("the error of %s does not say its %s: %v", job.GetId(), name, job.GetError())
			}
		}
		if part(job.GetReserve()) > 1./3 || aborted[job.GetCookie()] > 1 {
			t.Errorf("cookie %d was aborted %d times, with %.3f of its limit reserved", job.GetCookie(), aborted[job.GetCookie()], part(job.GetReserve()))
		}
	}
	again := 0
	for _, job := range ended {
		if job.GetState() != "completed" || aborted[job.GetCookie()] == 0 {
			continue
		}
		if job.GetCookie()%every == every/4 {
			again++
		}
		if part(job.GetReserve()) != 1 || job.GetReserve().GetPredecessor() == "" {
			t.Errorf("cookie %d ran again with %v, want all of its limit", job.GetCookie(), job.GetReserve())
		}
	}
	if again != jobs/every {
		t.Errorf("%d of %d jobs that need more were aborted and ran again", again, jobs/every)
	}
	// Some of those that use as much as most are a little above it: what is learned is enough for 19 of 20.
	if others := len(aborted) - again; others > jobs/20 {
		t.Errorf("%d cookies were aborted beside those that need more, want at most one of 20", others)
	}
	memory := c.memoryOf(t, operation)
	if got := part(memory.GetReserve()); got > 0.25 || memory.GetDedicated() != 0 {
		t.Errorf("%.3f of the limit is reserved in the end, want as much as for most: %v", got, memory)
	}
	t.Logf("of %d jobs %d were above their reserve on a full node: aborted, run again and completed, %d of those that need more; %.3f of the limit is reserved in the end",
		jobs, by["resource_overdraft"], again, part(memory.GetReserve()))
}

// TestTmpfsIsNotTheProxys has jobs that fill a tmpfs and hold as much beside it, of which a
// node has room for one. Whoever is over its reserve is aborted once, and runs again with
// all of its limit; what is learned counts both; no proxy is given more (M4, J.1.5).
func TestTmpfsIsNotTheProxys(t *testing.T) {
	t.Parallel()
	const limit, jobs = 200 << 20, 12
	c := newCluster(t, here, "n1")
	c.startAgent("n1", "--memory", "320MiB")
	c.ready(t, 1)
	command := fmt.Sprintf("dd if=/dev/zero of=scratch/x bs=1M count=90 2>/dev/null && touch done && exec %s use %s %d 0.4 2s 0", program("witness"), c.folder(t), limit)
	operation := c.start(t, one(object{
		"job_count": jobs, "cpu_limit": 0.1, "memory_limit": limit, "tmpfs_path": "scratch", "tmpfs_size": "100MiB",
		"output_paths": []object{{"path": "done", "destination": c.folder(t) + "/{cookie}"}}, "shell": true, "command": command,
	}))
	op, ended := c.finishes(t, operation)
	aborted := map[int32]int{}
	for _, job := range ended {
		if r := job.GetReserve(); r.GetProxyFactor() > 1 {
			t.Errorf("job %d began with %v, want no more for its proxy than the estimate", job.GetCookie(), r)
		}
		if job.GetState() == "aborted" {
			aborted[job.GetCookie()]++
		}
	}
	for cookie, times := range aborted {
		if times > 1 {
			t.Errorf("cookie %d was aborted %d times", cookie, times)
		}
	}
	if len(aborted) == 0 || op.GetProgress().GetFailed() != 0 {
		t.Errorf("%v: want overdrafts, and nothing else\n%s", op.GetProgress(), c.describe(t, operation))
	}
	reserve := float64(c.memoryOf(t, operation).GetReserve().GetUser()) / limit
	if reserve < 0.8 {
		t.Errorf("%.3f of the limit is reserved in the end, want what the jobs use with their tmpfs", reserve)
	}
	t.Logf("%d jobs that use 0.8 to 0.9 of their limit, half of it in tmpfs: %d cookies were aborted; %.3f reserved in the end", jobs, len(aborted), reserve)
}

// TestProxiesAreWithinTheirReserve (M5) has jobs of all shapes, and looks at what their
// proxies, real ones, have used of what was reserved for them: enough at first, and less when
// it is learned that less will do. It is not run beside others: how much a proxy uses depends on how long it
// waits for a processor.
func TestProxiesAreWithinTheirReserve(t *testing.T) {
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	dir := c.folder(t)
	lines := strings.Repeat("a line of some length\n", 100_000)
	for i := range 20 {
		put(t, filepath.Join(dir, fmt.Sprintf("in-%02d", i)), lines)
	}
	shell := func(line string) object {
		return small(40).with("command", line).with("shell", true)
	}
	less := 0
	for _, shape := range []struct {
		name string
		spec object
	}{
		{"neither reads nor keeps anything", one(shell("true"))},
		{"prints much", one(shell("seq 200000; seq 200000 >&2"))},
		{"keeps files", one(shell("seq 200000 > out").with("output_paths", []object{{"path": "out", "destination": dir + "/kept-{cookie}"}}))},
		{"reads and writes", object{"type": "map", "input_paths": []string{dir + "/in-*"}, "output_path": dir + "/out", "job_count": 40,
			"mapper": object{"command": []string{"cat"}, "cpu_limit": 0.1, "memory_limit": "64MiB"}}},
	} {
		operation := c.start(t, shape.spec)
		_, ended := c.finishes(t, operation)
		var most, first int64
		var above []string
		for _, job := range ended {
			used, reserve := job.GetStatistics().GetValues()["job_proxy/max_memory"], job.GetStatistics().GetValues()["job_proxy/memory_reserve"]
			if used <= 0 || reserve <= 0 {
				t.Errorf("%s: the proxy of job %d used %d bytes of %d", shape.name, job.GetCookie(), used, reserve)
			}
			// A proxy that has run other jobs takes two percent more than those that have taught.
			if used > reserve+reserve/32 {
				above = append(above, fmt.Sprintf("job %d used %d of %d", job.GetCookie(), used, reserve))
			}
			most, first = max(most, used), max(first, reserve)
		}
		// What is learned is enough for 19 of 20 in the long run, and for 7 of 8 while few have taught.
		// The first estimate is enough for all.
		if len(above) > len(ended)/8 || most > first {
			t.Errorf("%s: the proxies used at most %d bytes, and %d were estimated; above their reserves: %q", shape.name, most, first, above)
		}
		last := c.memoryOf(t, operation).GetReserve().GetProxy()
		if last > first+first/10 {
			t.Errorf("%s: %d bytes are reserved for a proxy after %d jobs, and %d were at first", shape.name, last, len(ended), first)
		}
		if last < first {
			less++
		}
		t.Logf("a job that %s: %.1f MiB reserved for its proxy at first, %.1f in the end, %.1f used at most", shape.name,
			float64(first)/(1<<20), float64(last)/(1<<20), float64(most)/(1<<20))
	}
	// On a busy machine one kind of proxies may need all of it.
	if less < 3 {
		t.Errorf("less is reserved for proxies of %d kinds of 4 in the end, want nearly all", less)
	}
}
