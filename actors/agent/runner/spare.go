package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// mostSpares bounds the folders that are kept for jobs to come.
const mostSpares = 64

// spares are folders of ended jobs, for the next ones. Where many files come and go, ext4 spends more time on
// looking for an inode that was not in use a moment ago than on everything else that makes a file, and that
// grows with the square of their number. Only jobs that do not see their folder leave one that is used again.
type spares struct {
	root string
	free chan string // names in root
}

func newSpares(root string) spares { return spares{root, make(chan string, mostSpares)} }

// clear removes what an earlier agent process has left.
func (s spares) clear() error {
	if err := removeTree(s.root); err != nil {
		return err
	}
	return os.Mkdir(s.root, 0o700)
}

// take makes a spare folder the folder of a job, and reports whether there was one.
func (s spares) take(folder string) bool {
	select {
	case name := <-s.free:
		return os.Rename(filepath.Join(s.root, name), folder) == nil
	default:
		return false
	}
}

// keep makes the folder of a job a spare one, or removes it if there are enough. All that the job and its proxy
// have left goes, but for empty files, and the empty folder of its discovery socket. The folder is no job's
// from the first step on, so that a crash leaves nothing that looks like a job.
func (s spares) keep(folder string) error {
	name := filepath.Base(folder)
	spare := filepath.Join(s.root, name)
	if err := os.Rename(folder, spare); err != nil {
		return errors.Join(removeTree(folder), removeTree(spare)) // Which an earlier try may have left.
	}
	if len(s.free) == cap(s.free) || empty(spare) != nil {
		return removeTree(spare)
	}
	select {
	case s.free <- name:
		return nil
	default:
		return removeTree(spare)
	}
}

// empty empties the folder of a job.
func empty(folder string) error {
	fd, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), folder)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		switch name {
		case proxyproto.SpecFile, proxyproto.LogFile:
			err = os.Truncate(filepath.Join(folder, name), 0)
		case discoveryFolder:
			if err = os.Remove(filepath.Join(folder, name, discoveryFile)); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		default:
			err = remover{top: fd}.remove(fd, name, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeFolders removes all files of the job except its output, or keeps its folder for another job.
func (j *Job) removeFolders() error {
	paths := j.runner.paths
	if !j.separated {
		return paths.removeJob(j.id)
	}
	if err := os.RemoveAll(paths.short(j.id)); err != nil {
		return err
	}
	return j.runner.spares.keep(paths.job(j.id))
}
