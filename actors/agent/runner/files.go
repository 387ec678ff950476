package runner

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/rights"
)

// ErrNoFile is returned for a file that a job does not have, and for a job that does not run.
var ErrNoFile = errors.New("no such file")

const (
	// mostEntries is how many entries of a folder are known: of those that come first, in no order.
	mostEntries = 10_000
	// entriesTogether is how many entries are returned at once.
	entriesTogether = 500
)

// FilePart is a part of a file, or of the list of a folder.
type FilePart struct {
	Data []byte
	// Entries are those of a folder, by name. More: it has more than are known.
	Folder  bool
	Entries []FileEntry
	More    bool
	// Size is that of a file, in bytes, or the number of known entries. Next is the offset of the next read;
	// at the end it is Size or more.
	Size, Next int64
}

// FileEntry is a file or folder in a folder.
type FileEntry struct {
	Name     string
	Size     int64
	Modified time.Time
	Mode     os.FileMode
	// Link is where a symbolic link leads.
	Link string
}

// ReadFile reads at most limit bytes of a file in the workspace of a running job, or some entries of a folder,
// from offset on. The path is relative to the workspace, or absolute as the job sees it. It is read as the job's
// user. Links are followed within the workspace only, and nothing but files and folders is opened.
func (r *Runner) ReadFile(job, path string, offset, limit int64) (FilePart, error) {
	fail := func(err error) (FilePart, error) {
		return FilePart{}, fmt.Errorf("read file %.200q of job %.60s: %w", path, job, err)
	}
	if err := checkName("job", job); err != nil {
		return fail(err)
	}
	running := r.Job(job)
	if running == nil || running.Result() != nil {
		return fail(fmt.Errorf("%w: the job does not run on this node, and its files are gone", ErrNoFile))
	}
	inside, err := relativeTo(r.paths.workspace(job), path)
	if err != nil {
		return fail(err)
	}
	workspace, err := running.openWorkspace()
	if err != nil {
		return fail(err)
	}
	defer workspace.Close()
	var part FilePart
	read := func() (err error) {
		part, err = readWithin(int(workspace.Fd()), inside, within, offset, limit)
		return err
	}
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	if user := running.user; user != nil {
		uid, gid = user.UID, user.GID
	}
	if err := rights.As(uid, gid, read); err != nil {
		return fail(err)
	}
	return part, nil
}

// ReadKept reads like ReadFile: a file or folder that was kept of a job, or one below it. It is read as the named
// user of the job or, if it had none, with the rights that everybody has. What was kept of a job that was root is not
// read, for others may have put links in its place.
func (r *Runner) ReadKept(kept, user, group, path string, offset, limit int64) (FilePart, error) {
	fail := func(err error) (FilePart, error) {
		return FilePart{}, fmt.Errorf("read kept file %.200q: %w", filepath.Join(kept, path), err)
	}
	switch {
	case !filepath.IsAbs(kept) || strings.ContainsRune(kept+path, 0):
		return fail(errors.New("must be an absolute path without zero bytes"))
	case path != "" && !filepath.IsLocal(path):
		return fail(errOutsideKept)
	}
	uid, gid, err := r.readerOf(user, group)
	if err != nil {
		return fail(err)
	}
	var part FilePart
	err = rights.As(uid, gid, func() (err error) {
		if path == "" {
			part, err = readWithin(unix.AT_FDCWD, kept, unix.RESOLVE_NO_MAGICLINKS, offset, limit)
			return err
		}
		folder, err := openIn(unix.AT_FDCWD, kept, unix.O_DIRECTORY|unix.O_RDONLY, unix.RESOLVE_NO_MAGICLINKS)
		if err != nil {
			return err
		}
		defer folder.Close()
		part, err = readWithin(int(folder.Fd()), path, within, offset, limit)
		return err
	})
	if errors.Is(err, errOutside) {
		err = errOutsideKept
	}
	if err != nil {
		return fail(err)
	}
	return part, nil
}

// errOutsideKept is the error of a path that leads out of what was kept.
var errOutsideKept = errors.New("leads out of what was kept")

// readerOf returns as whom files are read that were kept of a job with a named user, or of one without.
func (r *Runner) readerOf(user, group string) (uid, gid uint32, err error) {
	found, err := r.config.Users.Find(user, group)
	switch {
	case err != nil:
		return 0, 0, err
	case found != nil && found.Own:
		uid, err := r.everybody()
		if group != "" {
			return uid, found.GID, err
		}
		return uid, uid, err
	case found != nil && found.UID != 0:
		return found.UID, found.GID, nil
	case os.Geteuid() != 0:
		return uint32(os.Geteuid()), uint32(os.Getegid()), nil
	}
	return 0, 0, errors.New("its job was root: read it at its destination")
}

// everybody returns an id that no job has, and so nothing but the rights that everybody has.
func (r *Runner) everybody() (uid uint32, err error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	if r.reader == nil {
		r.mu.Lock()
		closed := r.closed
		r.mu.Unlock()
		if closed {
			return 0, ErrClosed
		}
		if r.readerUID, r.reader, err = r.claims().take(r.hasUser); err != nil {
			return 0, err
		}
	}
	return r.readerUID, nil
}

// relativeTo returns a path relative to the workspace.
func relativeTo(workspace, path string) (string, error) {
	if strings.ContainsRune(path, 0) {
		return "", errors.New("the path has a zero byte")
	}
	clean := filepath.Clean(cmp.Or(path, "."))
	if filepath.IsAbs(clean) {
		var err error
		if clean, err = filepath.Rel(workspace, clean); err != nil {
			return "", err
		}
	}
	if !filepath.IsLocal(clean) {
		return "", errOutside
	}
	return clean, nil
}

// errOutside is the error of a path that leads out of the workspace.
var errOutside = errors.New("leads out of the job's workspace, the only place whose files can be read")

// openWorkspace opens the workspace as the job's proxy sees it, with the tmpfs volumes. The job can change
// neither the mounts of its proxy nor its root.
func (j *Job) openWorkspace() (*os.File, error) {
	<-j.tried
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", j.identity.Pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: its proxy has ended (%w)", ErrNoFile, err)
	}
	defer func() { _ = unix.Close(root) }() // nothing was written through it
	// After it is open: the pid has not gone to another process until now.
	if process, err := proctree.Read(j.identity.Pid); err != nil || process.Identity != j.identity {
		return nil, fmt.Errorf("%w: its proxy has ended", ErrNoFile)
	}
	path := strings.TrimPrefix(j.runner.paths.workspace(j.id), "/")
	return openIn(root, path, unix.O_DIRECTORY|unix.O_RDONLY, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
}

// openIn opens a path below a folder.
func openIn(folder int, path string, flags, resolve uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve}
	for {
		fd, err := unix.Openat2(folder, path, &how)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), path), nil
		case unix.EINTR, unix.EAGAIN:
		case unix.ENOENT, unix.ENOTDIR:
			return nil, ErrNoFile
		case unix.EXDEV:
			return nil, errOutside
		default:
			return nil, err
		}
	}
}

// within lets no name and no link lead out of a folder.
const within = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

// readWithin reads a file or a folder with the rights of the calling thread.
func readWithin(folder int, path string, resolve uint64, offset, limit int64) (FilePart, error) {
	// Look first: to open a pipe or a device has effects.
	looked, err := openIn(folder, path, unix.O_PATH, resolve)
	if err != nil {
		return FilePart{}, err
	}
	defer looked.Close()
	if err := readable(looked); err != nil {
		return FilePart{}, err
	}
	file, err := openIn(folder, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, resolve)
	if err != nil {
		return FilePart{}, err
	}
	defer file.Close()
	// It may be another one by now.
	if err := readable(file); err != nil {
		return FilePart{}, err
	}
	info, err := file.Stat()
	if err != nil {
		return FilePart{}, err
	}
	if info.IsDir() {
		return readFolder(file, offset)
	}
	data := make([]byte, limit)
	n, err := file.ReadAt(data, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return FilePart{}, err
	}
	return FilePart{Data: data[:n], Size: info.Size(), Next: offset + int64(n)}, nil
}

// readable returns an error for what is neither a file nor a folder.
func readable(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return fmt.Errorf("is neither a file nor a folder (%s)", info.Mode().Type())
	}
	// What /proc shows of the agent is not for others, even if they may read it of their own processes.
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &on); err != nil {
		return err
	}
	if on.Type == unix.PROC_SUPER_MAGIC {
		return errOutside
	}
	return nil
}

// readFolder lists a folder.
func readFolder(folder *os.File, offset int64) (FilePart, error) {
	names, err := folder.Readdirnames(mostEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return FilePart{}, err
	}
	part := FilePart{Folder: true, More: len(names) > mostEntries}
	names = names[:min(len(names), mostEntries)]
	slices.Sort(names)
	part.Size = int64(len(names))
	from := min(offset, part.Size)
	part.Next = min(from+entriesTogether, part.Size)
	for _, name := range names[from:part.Next] {
		var stat unix.Stat_t
		if err := unix.Fstatat(int(folder.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue // It has gone since.
		}
		entry := FileEntry{Name: name, Size: stat.Size, Modified: time.Unix(stat.Mtim.Unix()), Mode: modeOf(stat.Mode)}
		if entry.Mode&os.ModeSymlink != 0 {
			target := make([]byte, unix.PathMax)
			// A link that is gone, or another thing now, has no target to show.
			n, _ := unix.Readlinkat(int(folder.Fd()), name, target)
			entry.Link = string(target[:max(n, 0)])
		}
		part.Entries = append(part.Entries, entry)
	}
	return part, nil
}

// modeOf returns the mode that the kernel writes.
func modeOf(mode uint32) os.FileMode {
	kinds := map[uint32]os.FileMode{
		unix.S_IFDIR: os.ModeDir, unix.S_IFLNK: os.ModeSymlink, unix.S_IFIFO: os.ModeNamedPipe, unix.S_IFSOCK: os.ModeSocket,
		unix.S_IFCHR: os.ModeDevice | os.ModeCharDevice, unix.S_IFBLK: os.ModeDevice,
	}
	return os.FileMode(mode&0o777) | kinds[mode&unix.S_IFMT]
}
