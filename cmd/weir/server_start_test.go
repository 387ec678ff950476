package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/actors/node"
)

// TestPaceThatIsGiven stays as it is in a cluster of any size.
func TestPaceThatIsGiven(t *testing.T) {
	base, many := node.DefaultTiming().Base(), node.Pace{Heartbeat: 5 * time.Second, Lease: 25 * time.Second}
	for flags, want := range map[node.Pace]struct{ few, many node.Pace }{
		{}:                       {base, many},
		{Heartbeat: time.Second}: {base, base},
		{Lease: 5 * time.Second}: {base, base},
		{Heartbeat: 2 * time.Second, Lease: time.Minute}: {
			node.Pace{Heartbeat: 2 * time.Second, Lease: time.Minute}, node.Pace{Heartbeat: 2 * time.Second, Lease: time.Minute},
		},
	} {
		f := serverFlags{heartbeat: flags.Heartbeat, lease: flags.Lease, reassignAfter: time.Second}
		timing := f.actorTiming()
		few, many := timing.Node.Pace(3, timing.Node.Base()), timing.Node.Pace(10000, timing.Node.Base())
		if err := timing.Validate(); err != nil || few != want.few || many != want.many {
			t.Errorf("flags for %v: %v of few nodes, %v of many (%v); want %v, %v", flags, few, many, err, want.few, want.many)
		}
	}
}

func validFlags() (f serverFlags) {
	f.timing, f.diskStall, f.maxOperations, f.maxArchived = "default", time.Second, 1, 1
	f.lease, f.heartbeat, f.reassignAfter, f.eventAge = 5*time.Second, time.Second, time.Second, time.Hour
	f.eventSize, f.auditSize, f.userBytes, f.poolBytes, f.allBytes = "1GiB", "1GiB", "1GiB", "1GiB", "1GiB"
	return f
}

// TestArchivedOperations has the leader set how many ended operations are kept.
func TestArchivedOperations(t *testing.T) {
	for kept, want := range map[int32]string{0: "must be between 1 and 100000", 1: "", 100_000: "", 100_001: "must be between 1 and 100000"} {
		f := validFlags()
		f.maxArchived = kept
		if err := f.validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("--archived-operations %d: %v, want %q", kept, err, want)
		}
		if limits, err := f.limits(); err != nil || limits.GetArchivedOperations() != kept {
			t.Errorf("--archived-operations %d: limits %v (%v)", kept, limits, err)
		}
	}
}

// TestRebuildNeedsOthers refuses to move the folder of a replica aside that knows no other.
func TestRebuildNeedsOthers(t *testing.T) {
	for peers, want := range map[string]string{"r1=a:1": "--rebuild: --peers names no other replica", "r1=a:1,r2=b:1,r3=c:1": ""} {
		f := validFlags()
		f.peers, f.rebuild = strings.Split(peers, ","), true
		if err := f.validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("--peers %s: %v, want %q", peers, err, want)
		}
	}
}

// TestStepsOfTheStart ends the start where it fails, and where what runs already does.
func TestStepsOfTheStart(t *testing.T) {
	errStep, errRival := errors.New("no such folder"), errors.New("another process is running as this replica")
	for name, test := range map[string]struct {
		// second is the second of three steps.
		second    func(ctx context.Context, fail func(error)) error
		want      error
		wantTaken []int
	}{
		"all is well":               {func(context.Context, func(error)) error { return nil }, nil, []int{1, 2, 3}},
		"a step fails":              {func(context.Context, func(error)) error { return errStep }, errStep, []int{1, 2}},
		"a rival, while it waits":   {func(ctx context.Context, fail func(error)) error { fail(errRival); <-ctx.Done(); return ctx.Err() }, errRival, []int{1, 2}},
		"a rival, while it is busy": {func(_ context.Context, fail func(error)) error { fail(errRival); return nil }, errRival, []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, fail := context.WithCancelCause(t.Context())
			defer fail(nil)
			var taken []int
			step := func(n int) func(context.Context) error {
				return func(context.Context) error {
					taken = append(taken, n)
					if n == 2 {
						return test.second(ctx, fail)
					}
					return nil
				}
			}
			if err := take(ctx, step(1), step(2), step(3)); !errors.Is(err, test.want) || !slices.Equal(taken, test.wantTaken) {
				t.Errorf("took %v: %v, want %v: %v", taken, err, test.wantTaken, test.want)
			}
		})
	}
}

// TestDataRoots (T2) has a replica that is root refuse folders in which users must not write with its
// rights, under any name.
func TestDataRoots(t *testing.T) {
	dir := t.TempDir()
	data, credentials, files := filepath.Join(dir, "r1", "data"), filepath.Join(dir, "certs"), filepath.Join(dir, "files")
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.MkdirAll(data, 0o700), os.Mkdir(files, 0o700), os.Symlink("/etc", link)); err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]string{
		files: "", files + "/new/folder": "", "/data": "", "/srv/weir": "", "/home/weir-files": "",
		"files": "must be an absolute path",
		"/":     "contains ", "/etc": "contains /etc", "/etc/weir": "lies within /etc", "/usr/local/share": "lies within /usr", "/var": "contains /var/lib/weir",
		"/var/lib/weir/r1": "lies within /var/lib/weir", "/proc/1/root/data": "lies within /proc", "/root/x": "lies within /root", "/dev/shm": "lies within /dev",
		"/home": "contains /home", "/tmp": "contains ", "/data/../etc": "contains /etc", link: "contains /etc", link + "/new": "lies within /etc",
		dir: "contains " + data, data: "contains " + data, data + "/x": "lies within " + data, credentials: "contains " + credentials, credentials + "/x": "lies within " + credentials,
	} {
		err := checkDataRoot(root, true, data, credentials)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("--data-root %s as root: %v, want %q", root, err, want)
		}
		if err != nil && filepath.IsAbs(root) && !strings.Contains(err.Error(), "name a folder that is for nothing else") {
			t.Errorf("--data-root %s does not say what to do: %v", root, err)
		}
		if err := checkDataRoot(root, false, data, credentials); (err == nil) != filepath.IsAbs(root) {
			t.Errorf("--data-root %s as another user: %v", root, err)
		}
	}
}
