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
	// diskSpeed is how fast a job may fill a disk, in bytes a second: what is left of its
	// limit says when to look again.
	diskSpeed = 1 << 30
	// minDiskPeriod and maxDiskPeriod bound the time between two looks.
	minDiskPeriod = 100 * time.Millisecond
	maxDiskPeriod = 2 * time.Second
	// diskShare is how many times as long as a look takes none is taken.
	diskShare = 20
	// folderBatch is how many entries of a folder are held in memory.
	folderBatch = 256
	// maxDepth limits open folders. What is deeper is not counted.
	maxDepth = 256
	// mostPath is how much of a file's path is told, in bytes.
	mostPath = 256
	// blockSize is the unit of a file's blocks.
	blockSize = 512
)

// vanished are the errors of what is no folder any more.
var vanished = []error{os.ErrNotExist, unix.ENOTDIR, unix.ELOOP}

// diskUse is what folders take on disk.
type diskUse struct {
	bytes   int64
	move    func()
	biggest []proxyproto.FileSize
}

// disk measures what the job has on disk: its workspace and, where it has one, its own
// /tmp, and what its processes hold open of files that are deleted. File systems that are
// mounted in them do not count.
type disk struct {
	folders []string
	limit   int64
	deleted openDeleted
}

// newDisk returns the measure of a job with that folder, and the given processes.
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

// watch tells of each measurement until ctx is done.
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

// diskPeriod is the time to the next look, when so much is left and the last took so long.
func diskPeriod(left int64, took time.Duration) time.Duration {
	wait := time.Duration(float64(left) / diskSpeed * float64(time.Second))
	return max(diskShare*took, min(max(wait, minDiskPeriod), maxDiskPeriod))
}

// look measures all while processes of the job live. One goroutine looks.
func (d *disk) look() diskUse {
	use, devices := d.measure(func() {})
	if len(devices) > 0 {
		d.deleted.add(&use, d.folders[0], devices)
	}
	return use
}

// measure adds up all files in the folders, and calls move with each folder. What goes away
// meanwhile is not counted. It returns the devices of the folders, too.
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

// add adds what is in an open folder, which it closes. Links are not followed, so the job
// cannot lead it elsewhere.
func (u *diskUse) add(fd int, path string, device uint64, depth int) {
	eachName(fd, path, func(name string) bool {
		u.addEntry(fd, name, filepath.Join(path, name), device, depth)
		return true
	})
}

// eachName calls visit with the names in an open folder, which it closes, until that returns
// false.
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
		// A file with several names counts in parts: some of them may be elsewhere.
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

// note adds a file, and keeps the biggest.
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

// diskWatch measures the disk of a job as long as it lives.
type diskWatch struct {
	disk
	// told has each measurement; last is that of the end, set before gone is closed.
	told chan diskUse
	last diskUse
	max  int64
	// life ends with stop.
	life context.Context
	stop context.CancelFunc
}

func newDiskWatch(d disk) diskWatch {
	life, stop := context.WithCancel(context.Background())
	return diskWatch{disk: d, told: make(chan diskUse), life: life, stop: stop}
}

// begin begins to measure a disk that is limited.
func (d *diskWatch) begin() {
	if d.limit > 0 {
		go d.watch(d.life, d.told)
	}
}

// end takes no more measurements.
func (d *diskWatch) end() {
	d.stop()
	d.told = nil
}

// takeDisk judges a measurement of the disk.
func (s *supervisor) takeDisk(use diskUse) {
	s.disk.max = max(s.disk.max, use.bytes)
	if use.bytes <= s.spec.DiskLimit || s.spec.DiskLimit == 0 {
		return
	}
	excess := &proxyproto.DiskExcess{Usage: use.bytes, Limit: s.spec.DiskLimit, Biggest: use.biggest}
	cause := verdict{outcome: proxyproto.OutcomeDiskLimitExceeded, err: excess.String(), disk: excess}
	if s.root != nil && (s.verdict.outcome == proxyproto.OutcomeExited || s.verdict.outcome == proxyproto.OutcomeSignaled) {
		// It was over before anybody looked.
		s.verdict = cause
		return
	}
	s.end(cause)
}
