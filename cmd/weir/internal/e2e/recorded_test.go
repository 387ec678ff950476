package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
)

// releasedFolder has, by version, what clusters of that version have left: the folders of a replica and of an
// agent, a backup, and what the version's own client showed of them.
const releasedFolder = "testdata/released"

// recordVariable has TestRecordRelease record a cluster of the previous version.
const recordVariable = "WEIR_TEST_RECORD"

// The members of a recorded cluster. They are never called anything else: folders know their names.
const (
	recordedCluster = "recorded"
	recordedReplica = "r1"
	recordedNode    = "recorded-n1"
)

// The files of a recorded cluster.
const (
	replicaArchive, agentArchive = "replica.tar.gz", "agent.tar.gz"
	recordedBackup               = "backup.gz"
	// operationsAtBackup, operationsAtEnd and poolsAtEnd are answers of the API.
	operationsAtBackup, operationsAtEnd, poolsAtEnd = "operations-at-backup.json", "operations-at-end.json", "pools.json"
	// eventsAtEnd are lines of weir events.
	eventsAtEnd = "events.jsonl.gz"
)

// prepareRecorded makes the certificates of a cluster of one replica and one agent, which has the id of
// the recorded ones.
func prepareRecorded(t *testing.T) *cluster {
	t.Helper()
	c := prepareCluster(t, here)
	if err := os.RemoveAll(c.certs()); err != nil {
		t.Fatal(err)
	}
	if printed, code := weir(t, "tls", "init", "--dir", c.certs(), "--cluster-id", recordedCluster, "--replica", recordedReplica, "--agent", recordedNode,
		"--operator", "admin", "--hosts", "localhost,"+c.host); code != 0 {
		t.Fatalf("tls init: exit code %d\n%s", code, printed)
	}
	// Other replicas are not there.
	c.addresses = map[string]string{recordedReplica: c.addresses[recordedReplica]}
	return c
}

func (c *cluster) startRecordedReplica(by *launcher) *process {
	address := c.addresses[recordedReplica]
	return c.launch(recordedReplica, by, append([]string{
		"server", "--id", recordedReplica, "--listen", address, "--peers", recordedReplica + "=" + address, "--data", c.data(recordedReplica),
		"--data-root", c.files(), "--credentials", c.certs("replica-" + recordedReplica), "--snapshot-threshold", "60",
	}, unhurried()...)...)
}

func (c *cluster) startRecordedAgent(by *launcher) *process {
	address := c.addresses[recordedReplica]
	return c.launch("n1", by, "agent", "--name", recordedNode, "--replicas", recordedReplica+"="+address, "--data", c.data("n1"), "--credentials", c.certs("agent-"+recordedNode),
		"--cpu", "16", "--memory", "8GiB", "--user-slots", "32", "--ports", freeRange(c.t, 10), "--max-output", "1MiB", "--on-stop", "end")
}

// TestRecordRelease records a cluster of the previous version, for TestReleasedVersions. It is run once a
// release: make recordings.
func TestRecordRelease(t *testing.T) {
	if os.Getenv(recordVariable) == "" {
		t.Skip("a release is recorded with " + recordVariable + "=1")
	}
	by := newLauncher()
	by.program = previousPrograms(t) + "/weir"
	t.Cleanup(by.close)
	c := prepareRecorded(t)
	out := filepath.Join(releasedFolder, previousVersion(t))
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		t.Fatal(err)
	}
	keep := func(name string, data []byte) {
		if strings.HasSuffix(name, ".gz") {
			data = zipped(t, data)
		}
		if err := os.WriteFile(filepath.Join(out, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	verb := func(arguments ...string) []byte {
		t.Helper()
		printed, code := weirOf(t, by.program, c.reached(arguments...)...)
		if code != 0 {
			t.Fatalf("weir %v: exit code %d\n%s", arguments, code, printed)
		}
		return []byte(printed)
	}
	replica := c.startRecordedReplica(by)
	replica.says(t, "ready")
	agent := c.startRecordedAgent(by)
	agent.says(t, "msg=registered")
	c.work(t, verb)
	keep(operationsAtBackup, verb("op", "list", "-o", "json"))
	backup := filepath.Join(c.dir, "backup")
	verb("cluster", "backup", "-f", backup)
	keep(recordedBackup, []byte(read(t, backup)))
	// The log goes on after the snapshot and the backup.
	c.ends(t, c.start(t, one(small(2).with("command", []string{"true"}), object{"title": "after the backup"})), "completed")
	keep(operationsAtEnd, verb("op", "list", "-o", "json"))
	keep(poolsAtEnd, verb("pool", "list", "-o", "json"))
	keep(eventsAtEnd, verb("events", "-o", "json"))
	agent.kill()
	replica.kill()
	keep(agentArchive, packed(t, c.data("n1")))
	keep(replicaArchive, packed(t, c.data(recordedReplica)))
}

// work makes a cluster do all that leaves something: operations of all types and ends, of which a service and
// a gang go on, pools, rights, and settings.
func (c *cluster) work(t *testing.T, verb func(arguments ...string) []byte) {
	t.Helper()
	for _, line := range []string{
		"pool create ads weight=3", "pool create prod --parent ads max_running_operation_count=4", "pool set prod weight=2.5", "pool rename prod production",
		"group add analysts ann bob", "pool acl ads --allow group:analysts=use", "account allow user:ann --as nobody", "node allow recorded-* --tags ssd --max-cpu 64",
		"tree set default nodes_filter=!gpu", "tree create gpu nodes_filter=gpu",
	} {
		verb(strings.Fields(line)...)
	}
	dir := c.folder(t)
	title := func(text string) object { return object{"title": text, "pool": "production"} }
	c.ends(t, c.start(t, one(small(5).with("shell", true).with("command", "echo hello; echo trouble >&2"), title("vanilla"))), "completed")
	c.ends(t, c.start(t, one(small(1).with("command", []string{"false"}), title("fails"), object{"max_failed_job_count": 1})), "failed")
	out := filepath.Join(dir, "out")
	c.ends(t, c.start(t, reading(out, "cat", write(t, dir+"/in", numbered(0, 500))).with("job_count", 3).with("title", "map")), "completed")
	aborted := c.start(t, one(small(1).with("command", []string{"sleep", "1000"}), title("aborted")))
	c.runs(t, aborted, 1)
	verb("op", "abort", aborted)
	c.ends(t, aborted, "aborted")
	gang := c.start(t, one(small(2).with("command", []string{"sleep", "1000"}).with("gang_options", object{}), title("gang")))
	c.runs(t, gang, 2)
	service := c.start(t, one(small(2).with("command", []string{"sleep", "1000"}).with("port_count", 1).with("restart_completed_jobs", true), title("service")))
	c.runs(t, service, 2)
	waits := c.start(t, one(small(1).with("command", []string{"true"}), title("waits for a node that is not there"), object{"scheduling_tag_filter": "nowhere"}))
	until(t, "a snapshot is written", func() string {
		if found, _ := filepath.Glob(filepath.Join(c.data(recordedReplica), "raft", "snapshots", "*", "meta.json")); len(found) > 0 {
			return ""
		}
		verb("op", "update", waits, "weight=2")
		return "none yet"
	})
}

// TestReleasedVersions (V2) starts a replica and an agent on the folders that each released version has left, and
// a cluster from its backup: all that was there is there, and what ran goes on.
func TestReleasedVersions(t *testing.T) {
	versions, err := filepath.Glob(filepath.Join(releasedFolder, "*"))
	if err != nil || len(versions) == 0 {
		t.Fatalf("no released version in %s: %v", releasedFolder, err)
	}
	for _, folder := range versions {
		t.Run(filepath.Base(folder)+" folders", func(t *testing.T) {
			t.Parallel()
			c := prepareRecorded(t)
			unpack(t, filepath.Join(folder, replicaArchive), c.data(recordedReplica))
			unpack(t, filepath.Join(folder, agentArchive), c.data("n1"))
			c.startRecordedReplica(c.launcher).says(t, "ready")
			c.hasOperations(t, filepath.Join(folder, operationsAtEnd))
			c.hasPools(t, filepath.Join(folder, poolsAtEnd))
			c.hasEvents(t, filepath.Join(folder, eventsAtEnd))
			c.startRecordedAgent(c.launcher).says(t, "msg=registered")
			c.goesOn(t)
		})
		t.Run(filepath.Base(folder)+" backup", func(t *testing.T) {
			t.Parallel()
			c := prepareRecorded(t)
			backup := write(t, filepath.Join(t.TempDir(), "backup"), string(unzipped(t, filepath.Join(folder, recordedBackup))))
			printed, code := weir(t, "cluster", "restore", "-f", backup, "--data", c.data(recordedReplica), "--id", recordedReplica,
				"--address", c.addresses[recordedReplica], "--credentials", c.certs("replica-"+recordedReplica))
			if code != 0 {
				t.Fatalf("restore: exit code %d\n%s", code, printed)
			}
			c.startRecordedReplica(c.launcher).says(t, "ready")
			c.hasOperations(t, filepath.Join(folder, operationsAtBackup))
			c.hasPools(t, filepath.Join(folder, poolsAtEnd))
			// The node begins a new life, in which nothing of the old one runs.
			c.startRecordedAgent(c.launcher).says(t, "msg=registered")
			c.goesOn(t)
		})
	}
}

// hasOperations compares operations with those that a client was once shown.
func (c *cluster) hasOperations(t *testing.T, file string) {
	t.Helper()
	var was, is apipb.ListOperationsResponse
	decode(t, []byte(read(t, file)), &was)
	c.ask(t, "OperationService/List", object{"limit": 1000}, &is)
	if len(was.GetOperations()) < 7 || len(is.GetOperations()) != len(was.GetOperations()) {
		t.Fatalf("%d operations, want the %d that were there", len(is.GetOperations()), len(was.GetOperations()))
	}
	now := map[string]*apipb.Operation{}
	for _, op := range is.GetOperations() {
		now[op.GetId()] = op
	}
	for _, want := range was.GetOperations() {
		got := now[want.GetId()]
		if got.GetState() != want.GetState() || got.GetTitle() != want.GetTitle() || got.GetPool() != want.GetPool() ||
			!proto.Equal(got.GetStartTime(), want.GetStartTime()) || !proto.Equal(got.GetFinishTime(), want.GetFinishTime()) ||
			got.GetProgress().GetCompleted() != want.GetProgress().GetCompleted() || got.GetProgress().GetFailed() != want.GetProgress().GetFailed() {
			t.Errorf("operation %s is\n%v\nand was\n%v", want.GetId(), got, want)
		}
	}
}

// hasPools compares pools and what was set of them.
func (c *cluster) hasPools(t *testing.T, file string) {
	t.Helper()
	var was, is apipb.ListPoolsResponse
	decode(t, []byte(read(t, file)), &was)
	c.ask(t, "PoolService/List", object{}, &is)
	if len(was.GetPools()) < 3 || len(is.GetPools()) != len(was.GetPools()) {
		t.Fatalf("%d pools, want the %d that were there", len(is.GetPools()), len(was.GetPools()))
	}
	for i, want := range was.GetPools() {
		if got := is.GetPools()[i]; got.GetName() != want.GetName() || got.GetParent() != want.GetParent() || !proto.Equal(got.GetOptions(), want.GetOptions()) {
			t.Errorf("pool %v, was %v", got, want)
		}
	}
}

// hasEvents compares the first events of the cluster with those that a client was once shown.
func (c *cluster) hasEvents(t *testing.T, file string) {
	t.Helper()
	was := strings.Split(strings.TrimSpace(string(unzipped(t, file))), "\n")
	is := strings.Split(strings.TrimSpace(c.cli(t, "events", "-o", "json")), "\n")
	if len(was) < 50 || len(is) < len(was) {
		t.Fatalf("%d events, want the %d that were there at least", len(is), len(was))
	}
	for i, want := range was {
		if is[i] != want {
			t.Errorf("event %d is\n%s\nand was\n%s", i, is[i], want)
		}
	}
}

// goesOn runs the gang and the service again, whose jobs are gone, and more.
func (c *cluster) goesOn(t *testing.T) {
	t.Helper()
	var all apipb.ListOperationsResponse
	c.ask(t, "OperationService/List", object{"in_progress": true}, &all)
	for _, op := range all.GetOperations() {
		if title := op.GetTitle(); title == "gang" || title == "service" {
			c.runs(t, op.GetId(), 2)
			c.ask(t, "OperationService/Abort", object{"operation": op.GetId()}, &apipb.AbortOperationResponse{})
			c.ends(t, op.GetId(), "aborted")
		}
	}
	c.ends(t, c.start(t, one(small(3).with("command", []string{"true"}), object{"pool": "production"})), "completed")
}

func decode(t *testing.T, data []byte, into proto.Message) {
	t.Helper()
	if err := protojson.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func unzipped(t *testing.T, file string) []byte {
	t.Helper()
	in, err := gzip.NewReader(strings.NewReader(read(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// packed returns the regular files and folders below a folder.
func packed(t *testing.T, folder string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder || !entry.IsDir() && !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(folder, path)
		header := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: time.Unix(0, 0), Typeflag: tar.TypeDir}
		if entry.IsDir() {
			return w.WriteHeader(header)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header.Typeflag, header.Size = tar.TypeReg, int64(len(data))
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unpack writes what packed has read.
func unpack(t *testing.T, file, folder string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o711); err != nil {
		t.Fatal(err)
	}
	in := tar.NewReader(bytes.NewReader(unzipped(t, file)))
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, filepath.Clean("/"+header.Name))
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, fs.FileMode(header.Mode))
		} else {
			var data []byte
			if data, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(path, data, fs.FileMode(header.Mode))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
