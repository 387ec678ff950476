package e2e

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cluster/storage/storagetest"
	"weir/messages/apipb"
)

// TestNamedStores (T3) gives operations in pool ads the credentials of a store, which replicas and agents
// have not: they read, write and publish objects, also with another leader. Others are refused, at the
// start and when they are moved, and no file of the cluster has the secret key.
func TestNamedStores(t *testing.T) {
	t.Parallel()
	store := storagetest.Serve(t, "ads")
	store.Put("ads", "in/a.txt", numbered(0, 1000))
	store.Put("ads", "tool", "a tool")
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	c.cli(t, "pool", "create", "ads")
	c.cli(t, "pool", "create", "prod", "--parent", "ads")
	c.cli(t, "pool", "create", "research")
	secret := "hunter2-" + rand.Text()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	add := []string{"store", "add", "ads-store", "--endpoint", store.URL, "--access-key", storagetest.AccessKey, "--secret-key-file", file, "--prefix", "s3://ads/", "--pool", "ads"}
	c.cli(t, add...)
	if printed, code := c.verb(t, add...); code == 0 || !strings.Contains(printed, "there is one already") {
		t.Errorf("added twice: %d\n%s", code, printed)
	}
	if printed := c.cli(t, "store", "list"); !strings.Contains(printed, "ads-store") || !strings.Contains(printed, "s3://ads") || strings.Contains(printed, secret) {
		t.Errorf("the list is\n%s", printed)
	}
	for _, method := range []string{"AccessService/Stores", "AccessService/EditStore"} {
		if refused := c.refusedTo(t, "user-ann", "r1", method, `{}`); refused.Code != apipb.CodePermissionDenied {
			t.Errorf("%s as ann: %v", method, refused)
		}
	}

	// A map operation in a pool below reads and publishes, and is closed again when it wants to leave.
	spec := func(pool, output string) object {
		return reading(output, "cat", "s3://ads/in/*.txt").with("job_count", 2).with("pool", pool)
	}
	c.ends(t, c.start(t, spec("prod", "s3://ads/out.txt")), "completed")
	if data, _ := store.Data("ads", "out.txt"); data != numbered(0, 1000) {
		t.Errorf("the output has %d bytes", len(data))
	}
	c.process(c.leader(t)).kill()
	c.ends(t, c.start(t, spec("ads", "s3://ads/again.txt")), "completed")
	// Files of workspaces too.
	task := small(1).with("shell", true).with("command", "cp tool copy").
		with("file_paths", []object{{"source": "s3://ads/tool", "path": "tool"}}).with("output_paths", []object{{"path": "copy", "destination": "s3://ads/copy-{cookie}"}})
	copied := c.start(t, one(task, object{"pool": "ads"}))
	c.ends(t, copied, "completed")
	// And what was kept is read through the replicas, which have the credentials.
	if printed := c.cli(t, "job", "output", c.jobs(t, copied)[0].GetId(), "copy"); printed != "a tool" {
		t.Errorf("what was kept is %q", printed)
	}
	if data, _ := store.Data("ads", "copy-0"); data != "a tool" {
		t.Errorf("the copy is %q", data)
	}

	for name, refusedSpec := range map[string]object{
		"map": spec("research", "s3://ads/other.txt"), "its output": reading("s3://ads/other.txt", "cat", file).with("pool", "research"), "files": one(task, object{"pool": "research"}),
	} {
		refused := c.refused(t, "OperationService/Start", object{"spec": refusedSpec})
		if refused.Code != apipb.CodePermissionDenied || !strings.Contains(refused.Message, `in store "ads-store", which operations in pool "research" of tree "default" may not use: it is for pools ads`) {
			t.Errorf("%s: %v", name, refused)
		}
	}
	waits := c.start(t, one(task.with("command", "sleep 1000"), object{"pool": "ads"}))
	c.runs(t, waits, 1)
	if printed, code := c.verb(t, "op", "update", waits, "pool=research"); code == 0 || !strings.Contains(printed, `in store "ads-store"`) {
		t.Errorf("moved: %d\n%s", code, printed)
	}
	// With the pool taken away its next job is not started.
	c.cli(t, "store", "set", "ads-store", "--pool", "research")
	if refused := c.refused(t, "OperationService/Start", object{"spec": spec("ads", "s3://ads/third.txt")}); refused.Code != apipb.CodePermissionDenied {
		t.Errorf("after the change: %v", refused)
	}
	c.ends(t, c.start(t, spec("research", "s3://ads/third.txt")), "completed")
	c.abort(t, waits)
	backup := filepath.Join(c.dir, "backup-1")
	c.cli(t, "cluster", "backup", "-f", backup)
	c.showsNowhere(t, secret)
	c.cli(t, "store", "remove", "ads-store")
	if printed := c.cli(t, "store", "list"); strings.Contains(printed, "ads-store") {
		t.Errorf("after its removal the list is\n%s", printed)
	}
}
