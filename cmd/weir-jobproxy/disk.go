package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

const (
	// diskSpeed is the assumed top speed at which a job fills a disk, in bytes per second. The next
	// measurement is due when a job of this speed would reach its limit.
	diskSpeed = 1 << 30
	// minDiskPeriod and maxDiskPeriod bound the time between two measurements.
	minDiskPeriod = 100 * time.Millisecond
	maxDiskPeriod = 2 * time.Second
	// diskShare is the minimum pause after a measurement, in multiples of its duration.
	diskShare = 20
	// folderBatch is how many entries of a folder are read at a time.
	folderBatch = 256
	// maxDepth limits open folders. Deeper files are not counted.
	maxDepth = 256
	// mostPath limits the length of a reported path, in bytes.
	mostPath = 256
	// blockSize is the unit of a file's blocks.
	blockSize = 512
)

// vanished are the errors of a folder that has gone or been replaced.
var vanished = []error{os.ErrNotExist, unix.ENOTDIR, unix.ELOOP}

// diskUse is the disk usage of folders. The function `move` is called for each folder or process
// visited.
type diskUse struct {
	bytes   int64
	move    func()
	biggest []proxyproto.FileSize
}

// disk measures the job's disk usage: its workspace, its own /tmp if it has one, and deleted
// files that its processes hold open. File systems mounted in the folders do not count.
type disk struct {
	folders []string
	limit   int64
	deleted openDeleted
}

// newDisk returns the disk of a job with this folder and these processes.
func newDisk(spec *proxyproto.Spec, folder string, processes func() ([]proctree.Process, error)) disk {
	d := disk{limit: spec.DiskLimit, deleted: openDeleted{processes: processes, most: mostDescriptors}}
	switch {
	case spec.DiskLimit == 0:
	case spec.Isolation == proxyproto.IsolationStrict:
		d.folders = []string{spec.Workspace, filepath.Join(folder, temporaryFolder)}
	default:
		d.folders = []string{spec.Workspace}
	}
	return d
}

// watch sends measurements to the channel `told` until ctx is done.
func (d *disk) watch(ctx context.Context, told chan<- diskUse) {
	for wait := minDiskPeriod; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		before := time.Now()
		use := d.look()
		wait = diskPeriod(d.limit-use.bytes, time.Since(before))
		select {
		case told <- use:
		case <-ctx.Done():
			return
		}
	}
}

// diskPeriod is the time to the next measurement, given the part of the limit that is left and the
// duration of the last measurement.
func diskPeriod(left int64, took time.Duration) time.Duration {
	wait := time.Duration(float64(left) / diskSpeed * float64(time.Second))
	return max(diskShare*took, min(max(wait, minDiskPeriod), maxDiskPeriod))
}

// look measures the folders and the deleted files of a running job. Only one goroutine calls it.
func (d *disk) look() diskUse {
	use, devices := d.measure(func() {})
	if len(devices) > 0 {
		d.deleted.add(&use, d.folders[0], devices)
	}
	return use
}

// measure adds up all files in the folders, and calls move for each folder. Files that
// disappear meanwhile do not count. It returns the devices of the folders too.
func (d *disk) measure(move func()) (diskUse, map[uint64]bool) {
	use, devices := diskUse{move: move}, map[uint64]bool{}
	for _, folder := range d.folders {
		fd, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			complain(err, vanished...)
			continue
		}
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err == nil {
			devices[stat.Dev] = true
			use.bytes += stat.Blocks * blockSize
			use.add(fd, "", stat.Dev, 0)
		}
	}
	return use, devices
}

// add adds the content of an open folder, which it closes. It follows no links, so the job
// cannot lead it elsewhere.
func (u *diskUse) add(fd int, path string, device uint64, depth int) {
	eachName(fd, path, func(name string) bool {
		u.addEntry(fd, name, filepath.Join(path, name), device, depth)
		return true
	})
}

// eachName calls visit for each name in an open folder, until visit returns false. It closes
// the folder.
func eachName(fd int, path string, visit func(name string) bool) {
	folder := os.NewFile(uintptr(fd), path)
	defer folder.Close()
	for {
		names, err := folder.Readdirnames(folderBatch)
		for _, name := range names {
			if !visit(name) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (u *diskUse) addEntry(parent int, name, path string, device uint64, depth int) {
	var stat unix.Stat_t
	if err := unix.Fstatat(parent, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil || stat.Dev != device {
		return
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		// Each name of a file counts as an equal part of the file's size: some names may be in
		// other folders.
		u.note(path, stat.Blocks*blockSize/int64(max(1, stat.Nlink)))
		return
	}
	u.bytes += stat.Blocks * blockSize
	u.move()
	if depth == maxDepth {
		return
	}
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		complain(err, vanished...)
		return
	}
	u.add(fd, path, device, depth+1)
}

// note adds a file, and remembers the biggest files.
func (u *diskUse) note(path string, bytes int64) {
	u.bytes += bytes
	if bytes == 0 || len(u.biggest) == biggest && bytes <= u.biggest[biggest-1].Bytes {
		return
	}
	u.biggest = append(u.biggest, proxyproto.FileSize{Path: clip(path, mostPath), Bytes: bytes})
	slices.SortFunc(u.biggest, func(a, b proxyproto.FileSize) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Path, b.Path))
	})
	u.biggest = u.biggest[:min(len(u.biggest), biggest)]
}

// diskWatch measures the disk usage of a job while the job lives.
type diskWatch struct {
	disk
	// told carries each measurement. last is the final measurement; it is set before gone is
	// closed.
	told chan diskUse
	last diskUse
	max  int64
	// life is cancelled by stop.
	life context.Context
	stop context.CancelFunc
}

func newDiskWatch(d disk) diskWatch {
	life, stop := context.WithCancel(context.Background())
	return diskWatch{disk: d, told: make(chan diskUse), life: life, stop: stop}
}

// begin starts to measure, if there is a limit.
func (d *diskWatch) begin() {
	if d.limit > 0 {
		go d.watch(d.life, d.told)
	}
}

// end ends the measurements.
func (d *diskWatch) end() {
	d.stop()
	d.told = nil
}

// takeDisk checks a measurement against the limit.
func (s *supervisor) takeDisk(use diskUse) {
	s.disk.max = max(s.disk.max, use.bytes)
	if use.bytes <= s.spec.DiskLimit || s.spec.DiskLimit == 0 {
		return
	}
	excess := &proxyproto.DiskExcess{Usage: use.bytes, Limit: s.spec.DiskLimit, Biggest: use.biggest}
	cause := verdict{outcome: proxyproto.OutcomeDiskLimitExceeded, err: excess.String(), disk: excess}
	if s.root != nil && (s.verdict.outcome == proxyproto.OutcomeExited || s.verdict.outcome == proxyproto.OutcomeSignaled) {
		// The job had exceeded the limit before it ended, but no measurement had shown it.
		s.verdict = cause
		return
	}
	s.end(cause)
}
