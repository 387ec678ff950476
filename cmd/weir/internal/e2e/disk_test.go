package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/actors/agent/disktest"
	"weir/messages/apipb"
)

// volume is a small disk that only what its launcher started can see: it goes with
// them, however the test ends.
type volume struct {
	*launcher
	dir string
}

// newVolume makes a disk of some MiB, or skips the test and says why it cannot. Make
// it before the cluster whose replicas use it, so that they end first.
func newVolume(t *testing.T, size int64) *volume {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a disk of its own needs root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("a disk of its own needs loop devices:", err)
	}
	for _, name := range []string{"mkfs.ext4", "mount", "umount", "fsfreeze"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("a disk of its own needs the program %s, of e2fsprogs or util-linux: %v", name, err)
		}
	}
	v := &volume{launcher: newLauncher(), dir: filepath.Join(t.TempDir(), "volume")}
	t.Cleanup(v.close)
	image := v.dir + ".ext4"
	if err := errors.Join(os.Mkdir(v.dir, 0o700), os.WriteFile(image, nil, 0o600), os.Truncate(image, size<<20)); err != nil {
		t.Fatal(err)
	}
	v.run(t, "mkfs.ext4", "-q", "-F", "-m", "0", image)
	err := v.do(func() error {
		// The thread has its own view of what is mounted where, and so do its children.
		return errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	})
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		t.Skip("a disk of its own takes a view of what is mounted, which may not be made here:", err)
	case err != nil:
		t.Fatal("a view of its own of what is mounted:", err)
	}
	if err := v.try("mount", "-o", "loop", image, v.dir); err != nil {
		t.Skip("no loop device can be mounted here:", err)
	}
	t.Cleanup(func() { v.run(t, "umount", v.dir) })
	return v
}

// run runs a program that sees the volume.
func (v *volume) run(t *testing.T, name string, arguments ...string) {
	t.Helper()
	if err := v.try(name, arguments...); err != nil {
		t.Fatal(err)
	}
}

// try runs a program that sees the volume and returns what it said if it failed.
func (v *volume) try(name string, arguments ...string) error {
	return v.do(func() error {
		output, err := exec.Command(name, arguments...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, output)
		}
		return nil
	})
}

// freeze has every write to the volume hang until thaw, or until this process has
// ended in whichever way.
func (v *volume) freeze(t *testing.T) (thaw func()) {
	t.Helper()
	return disktest.FreezeBy(t, v.dir, func(cmd *exec.Cmd) error { return v.do(cmd.Start) })
}

// fill leaves no room on the volume.
func (v *volume) fill(t *testing.T) (empty func()) {
	t.Helper()
	name := filepath.Join(v.dir, "ballast")
	err := v.do(func() error {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		// The last blocks are taken one by one.
		for _, block := range [][]byte{make([]byte, 1<<20), make([]byte, 1<<10)} {
			for err == nil {
				_, err = file.Write(block)
			}
			if !errors.Is(err, unix.ENOSPC) {
				return err
			}
			err = nil
		}
		return file.Sync()
	})
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal("fill:", err)
	}
	return func() {
		if err := v.do(func() error { return os.Remove(name) }); err != nil {
			t.Fatal(err)
		}
	}
}

// diskStall is how long the disk of a replica on a volume may take for a write: longer
// than the disk below the volume has the volume wait.
const diskStall = "8s"

// startOn starts a replica whose data are on a volume.
func (c *cluster) startOn(v *volume, name string) *process {
	return c.launch(name, v.launcher, append(c.replicaFlags(name), "--data", filepath.Join(v.dir, name), "--disk-stall", diskStall)...)
}

// startLeaderOn starts all replicas, r1 on a volume, and has r1 lead.
func (c *cluster) startLeaderOn(t *testing.T, v *volume) *process {
	t.Helper()
	leader := c.startOn(v, "r1")
	c.startReplica("r2")
	c.startReplica("r3")
	for _, name := range replicaNames {
		c.process(name).says(t, "ready")
	}
	until(t, "r1 leads", func() string {
		if err := c.call(t.Context(), c.leader(t), "ClusterService/Transfer", object{"to": "r1"}, &apipb.TransferResponse{}); err != nil {
			return err.Error()
		}
		if now := c.leader(t); now != "r1" {
			return now + " does"
		}
		return ""
	})
	return leader
}

// TestHungDisk has the disk of the leader hang. Another one leads then, though nothing
// that the old one has open is closed before its disk answers again; then it has ended,
// and says why.
func TestHungDisk(t *testing.T) {
	v := newVolume(t, 64)
	c := prepareCluster(t, here)
	hung := c.startLeaderOn(t, v)
	operator := c.operator(t)
	spec, err := structpb.NewStruct(map[string]any{"tasks": map[string]any{"t": map[string]any{"job_count": 1, "command": []any{"true"}}}})
	if err != nil {
		t.Fatal(err)
	}
	start := func() string {
		answer, err := operator.StartOperation(t.Context(), &apipb.StartRequest{Spec: spec, MutationId: uuid.NewString()})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetOperationId()
	}
	before := start()

	thaw := v.freeze(t)
	began := time.Now()
	after := start()
	t.Logf("the next operation was accepted %v after the leader's disk began to hang", time.Since(began).Round(time.Millisecond))
	for _, name := range []string{"r2", "r3"} {
		until(t, name+" knows another leader", func() string {
			status, err := c.status(t.Context(), name)
			if err != nil || status.GetLeader() == "r1" || status.GetLeader() == "" {
				return fmt.Sprintf("%q, %v", status.GetLeader(), err)
			}
			return ""
		})
	}

	hung.says(t, "no answer within "+diskStall)
	thaw()
	if code := hung.exit(t); code != 10 {
		t.Errorf("the replica whose disk hung: exit code %d, want 10\n%s", code, hung.printed())
	}
	c.startOn(v, "r1").says(t, "ready")
	c.role(t, operator, "r1", "voter")
	for _, id := range []string{before, after} {
		var answer apipb.GetOperationResponse
		c.reads(t, "r1", "OperationService/Get", object{"operation": id}, &answer)
	}
}

// TestFullDisk fills the disk of the leader while clients start operations: it stops
// and says why, the others go on, and it comes back once there is room.
func TestFullDisk(t *testing.T) {
	v := newVolume(t, 64)
	c := prepareCluster(t, here)
	full := c.startLeaderOn(t, v)
	operator := c.operator(t)

	stop := submitAlways(t, operator)
	empty := v.fill(t)
	if code := full.exit(t); code != 10 {
		t.Errorf("the replica whose disk is full: exit code %d, want 10\n%s", code, full.printed())
	}
	full.says(t, "no space left on device")
	full.says(t, "free space on the disk of")
	again := c.startOn(v, "r1")
	if code := again.exit(t); code != 10 {
		t.Errorf("started on a full disk: exit code %d, want 10\n%s", code, again.printed())
	}
	c.leader(t)
	empty()
	c.startOn(v, "r1").says(t, "ready")
	c.role(t, operator, "r1", "voter")
	started := stop()
	if len(started) == 0 {
		t.Error("nothing was started")
	}
	for _, id := range started {
		var answer apipb.GetOperationResponse
		c.reads(t, "r1", "OperationService/Get", object{"operation": id}, &answer)
	}
	t.Logf("%d operations were started meanwhile", len(started))
}
