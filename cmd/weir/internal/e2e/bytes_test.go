package e2e

import (
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/actors/agent/runner/proctree"
	"weir/cmd/weir/internal/devcluster"
	"weir/messages/apipb"
)

// TestReasonsOfAnySize aborts jobs, operations and drains nodes with reasons of 2 MB, which grew
// disk, memory and records without bound: each call is refused by name, size and limit, and the
// folders of the replicas stay as small as the work is. What is within the bounds is kept and can be
// backed up.
func TestReasonsOfAnySize(t *testing.T) {
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	operation := c.start(t, one(small(20, "run", c.folder(t), "1h")))
	running := c.runs(t, operation, 20)
	job := running[0].GetId()
	const size = 2_000_000
	long := strings.Repeat("x", size)
	for method, request := range map[string]object{
		"JobService/Abort":       {"job_id": job, "reason": long},
		"JobService/Interrupt":   {"job_id": job, "reason": long},
		"OperationService/Abort": {"operation": operation, "reason": long},
		"NodeService/Drain":      {"node": c.node("n1"), "reason": long},
		"OperationService/Start": {"mutation_id": long, "spec": one(small(1, "run", c.folder(t), "1s"))},
		"OperationService/Get":   {"operation": long},
		"PoolService/Edit":       {"edits": []object{{"remove": long}}},
	} {
		for range 10 {
			refused := c.refused(t, method, request)
			// A request that is within the bound of its call has a text that is not; others are not even read.
			text := refused.Status == http.StatusBadRequest && strings.Contains(refused.Message, fmt.Sprint(" has ", size, " bytes, the limit is "))
			request := refused.Status == http.StatusTooManyRequests && strings.Contains(refused.Message, " bytes, the limit of this call (")
			if len(refused.Message) > 500 || !text && !request {
				t.Errorf("%s: %.600v", method, refused)
			}
		}
	}
	for _, job := range running {
		c.ask(t, "JobService/Abort", object{"job_id": job.GetId(), "reason": strings.Repeat("y", 4<<10)}, &apipb.AbortJobResponse{})
	}
	for _, replica := range replicaNames {
		if bytes := folderBytes(t, c.data(replica)); bytes > 40<<20 {
			t.Errorf("the folder of %s has %d bytes", replica, bytes)
		}
	}
	if printed := c.cli(t, "cluster", "backup", "-f", filepath.Join(c.dir, "backup")); !strings.Contains(printed, "operations") {
		t.Errorf("the backup says %q", printed)
	}
	c.abort(t, operation)
}

// TestSpecsOfTheLargestSize starts operations with the largest specifications until their user has no
// more room, and then starts and aborts them as a script does: what is refused names the quota, its
// use and the largest holders, and replicas stay small.
func TestSpecsOfTheLargestSize(t *testing.T) {
	c := prepareCluster(t, here)
	c.more = []string{"--operation-bytes-per-user", "8MiB"}
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	c.ready(t, 0)
	tasks := object{}
	for i := range 9 {
		tasks[fmt.Sprint("t", i)] = small(1, "run", c.folder(t), "1h").with("environment", object{"PART": strings.Repeat("x", 98<<10)})
	}
	spec := object{"tasks": tasks}
	var started []string
	for range 9 {
		started = append(started, c.start(t, spec))
	}
	refused := c.refused(t, "OperationService/Start", object{"spec": spec})
	for _, want := range []string{"limit reached: operations of user admin take 7.9 MiB of 8 MiB (operation_bytes_per_user)", "abort or wait for ", " or one of 6 more"} {
		if refused.Status != http.StatusTooManyRequests || refused.Code != "resource_exhausted" || !strings.Contains(refused.Message, want) {
			t.Errorf("refused with %v, want %q", refused, want)
		}
	}
	for range 30 {
		c.abort(t, started[0])
		started = append(started[1:], c.start(t, spec))
	}
	for _, replica := range replicaNames {
		if bytes := folderBytes(t, c.data(replica)); bytes > 250<<20 {
			t.Errorf("the folder of %s has %d bytes", replica, bytes)
		}
	}
	c.cli(t, "cluster", "backup", "-f", filepath.Join(c.dir, "backup"))
	if bytes := folderBytes(t, filepath.Join(c.dir, "backup")); bytes > 16<<20 {
		t.Errorf("the backup has %d bytes", bytes)
	}
	c.abort(t, started...)
}

// TestBytesStayBounded (T4) has one user start and abort operations with the largest specifications
// as fast as it can, several at once: many times what the replicas may take goes through their log.
// The memory, the folder and the snapshot of each stay within the bounds that docs/running.md states,
// and another user's operations are accepted all along.
func TestBytesStayBounded(t *testing.T) {
	const quota, logs, starts, atOnce = 8 << 20, 4 << 20, 400, 4
	c := prepareCluster(t, here)
	c.more = []string{"--operation-bytes-per-user", "8MiB", "--event-log-size", "4MiB", "--audit-log-size", "4MiB"}
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	c.ready(t, 0)
	tasks := object{}
	for i := range 9 {
		tasks[fmt.Sprint("t", i)] = small(1, "run", c.folder(t), "1h").with("environment", object{"PART": strings.Repeat("x", 110<<10)})
	}
	others := 0
	var flood sync.WaitGroup
	flooding := make(chan struct{})
	for worker := range atOnce {
		flood.Go(func() {
			for range starts / atOnce {
				started := &apipb.StartResponse{}
				replica := replicaNames[worker%len(replicaNames)]
				err := c.call(t.Context(), replica, "OperationService/Start", object{"spec": object{"tasks": tasks}}, started)
				if err == nil {
					err = c.call(t.Context(), replica, "OperationService/Abort", object{"operation": started.GetOperationId()}, &apipb.AbortOperationResponse{})
				}
				if refused := refusalOf(err); err != nil && !notNow(refused.Status) && refused.Status != http.StatusTooManyRequests {
					t.Errorf("start and abort: %v", err)
				}
			}
		})
	}
	go func() { flood.Wait(); close(flooding) }()
	for going := true; going; {
		select {
		case <-flooding:
			going = false
		default:
		}
		c.othersStart(t, replicaNames[others%len(replicaNames)])
		others++
	}
	want := devcluster.BytesOf(2*quota, logs, logs)
	for _, replica := range replicaNames {
		memory, err := proctree.Peak(c.process(replica).cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		folder, snapshot := folderBytes(t, c.data(replica)), folderBytes(t, filepath.Join(c.data(replica), "raft", "snapshots"))
		t.Logf("%s: memory %d of %d, folder %d of %d, snapshot %d of %d", replica, memory, want.Memory, folder, want.Folder, snapshot, want.Snapshot)
		if memory > want.Memory || folder > want.Folder || snapshot > 2*want.Snapshot || snapshot == 0 {
			t.Errorf("%s takes more than it may", replica)
		}
	}
	t.Logf("%d operations of another user were started meanwhile", others)
}

// othersStart has ann start and abort a small operation.
func (c *cluster) othersStart(t *testing.T, replica string) {
	t.Helper()
	until(t, "another user's operation is accepted", func() string {
		status, answer, err := c.post(t.Context(), "user-ann", replica, "OperationService/Start", `{"spec": {"tasks": {"t": {"job_count": 1, "command": ["true"]}}}}`)
		if err != nil || notNow(status) {
			return fmt.Sprint(status, err)
		}
		var started apipb.StartResponse
		if err := protojson.Unmarshal(answer, &started); status != http.StatusOK || err != nil {
			t.Fatalf("another user's start: %d %s, %v", status, answer, err)
		}
		status, answer, err = c.post(t.Context(), "user-ann", replica, "OperationService/Abort", fmt.Sprintf(`{"operation": %q}`, started.GetOperationId()))
		if err != nil || status != http.StatusOK && !notNow(status) {
			t.Fatalf("another user's abort: %d %s, %v", status, answer, err)
		}
		return ""
	})
}

// folderBytes returns the size of the files in a folder and below.
func folderBytes(t testing.TB, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			// Snapshots go meanwhile.
			return nil
		}
		if info, err := entry.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
