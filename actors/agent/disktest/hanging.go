package disktest

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Hanging mounts an empty disk of `size` MiB that Freeze can make hang. It returns the disk's
// folder, which everybody may use. The disk is unmounted when the test has ended. The test is
// skipped if such a disk cannot be made.
func Hanging(t testing.TB, size int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a disk that hangs needs root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("a disk that hangs needs loop devices:", err)
	}
	for _, name := range []string{"mkfs.ext4", "mount", "fsfreeze"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("a disk that hangs needs the program %s, of e2fsprogs or util-linux: %v", name, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "disk")
	image := dir + ".ext4"
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(image, nil, 0o600), os.Truncate(image, size<<20)); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, said)
	}
	if said, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("no loop device can be mounted here: %v: %s", err, said)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Freeze makes every write to a disk of Hanging wait in the kernel until thaw is called or the
// test has ended, whatever its result.
func Freeze(t testing.TB, dir string) (thaw func()) {
	t.Helper()
	return FreezeBy(t, dir, (*exec.Cmd).Start)
}

// FreezeBy is Freeze for a disk that only programs started with the function start can see.
func FreezeBy(t testing.TB, dir string, start func(*exec.Cmd) error) (thaw func()) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `fsfreeze --freeze "$1" && echo frozen && cat; fsfreeze --unfreeze "$1"`, "sh", dir)
	cmd.Stderr = os.Stderr
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	thaw = sync.OnceFunc(func() {
		if err := errors.Join(hold.Close(), cmd.Wait()); err != nil {
			t.Error("thaw:", err)
		}
	})
	t.Cleanup(thaw)
	if line, err := bufio.NewReader(said).ReadString('\n'); line != "frozen\n" {
		t.Fatalf("freeze %s: %q, %v", dir, line, err)
	}
	return thaw
}
