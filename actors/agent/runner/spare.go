package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// mostSpares bounds the folders that are kept for jobs to come.
const mostSpares = 64

// outputFolder is the output folder of the next job, in a spare folder.
const outputFolder = "output"

// spares are folders of ended jobs, for the next ones. Where many files come and go, ext4 spends more time on
// looking for an inode that was not in use a moment ago than on everything else that makes a file, and that
// grows with the square of their number. So as little as possible is made and removed for a job, and what has to be
// is made before the job comes. Only jobs that do not see their folder leave one that is used again.
type spares struct {
	root string

	mu     sync.Mutex
	closed bool
	// free are those that can be taken, the last one first.
	free []spare
}

// spare is a folder, by its name in the root of all, and the sockets in it. It has a workspace and an output folder.
// If the path of a discovery socket in it would be too long, short is the folder of that socket. proxy is the one
// that waits for a job on the control socket, with its log in the folder; nil: none does.
type spare struct {
	name, short string
	sockets
	proxy *warm
}

// wake stops the proxy if it cannot be given a job. It fails if the proxy does not exit.
func (o *spare) wake(current func(program os.FileInfo) bool) error {
	if o.proxy == nil || o.proxy.wake() && current(o.proxy.program) {
		return nil
	}
	err := o.proxy.stop()
	o.proxy = nil
	return err
}

// dismiss makes the proxy exit.
func (o *spare) dismiss() {
	if o.proxy != nil {
		o.proxy.dismiss()
		o.proxy = nil
	}
}

// dropDiscovery leaves it to the next job to make its discovery socket.
func (o *spare) dropDiscovery() error {
	sockets{discovery: o.discovery}.close()
	short := o.short
	o.discovery, o.short = nil, ""
	if short == "" {
		return nil
	}
	return os.RemoveAll(short)
}

// drop removes what belongs to a spare folder, but not the folder itself.
func (o *spare) drop() error {
	o.dismiss()
	o.close()
	o.control = nil
	return o.dropDiscovery()
}

// clear removes what an earlier agent process has left.
func (s *spares) clear() error {
	if err := removeTree(s.root); err != nil {
		return err
	}
	return os.Mkdir(s.root, 0o700)
}

// close closes the sockets of all spare folders, which nobody takes from now on, and waits for the end of their
// proxies.
func (s *spares) close() error {
	s.mu.Lock()
	free := s.free
	s.free, s.closed = nil, true
	s.mu.Unlock()
	var errs []error
	for _, one := range free {
		if one.proxy != nil {
			errs = append(errs, one.proxy.stop())
		}
		errs = append(errs, one.drop())
	}
	return errors.Join(errs...)
}

// pop returns the folder that was put back last.
func (s *spares) pop() (one spare, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		return spare{}, false
	}
	last := len(s.free) - 1
	one, s.free[last] = s.free[last], spare{}
	s.free = s.free[:last]
	return one, true
}

// push puts a folder back, and reports whether there was room.
func (s *spares) push(one spare) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.free) == mostSpares {
		return false
	}
	if one.proxy != nil {
		one.proxy.wait()
	}
	s.free = append(s.free, one)
	return true
}

func (s *spares) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed || len(s.free) == mostSpares
}

// take makes a spare folder the folder of a job, and what is in it for output the job's output folder. It reports
// whether there was one. The discovery socket is at the path that is given if the folder has one. A proxy must be of
// the current program.
func (s *spares) take(folder, output, socket string, current func(program os.FileInfo) bool) (one spare, taken bool) {
	if one, taken = s.pop(); !taken {
		return spare{}, false
	}
	err := one.wake(current)
	if err == nil {
		// In this order: what is found in the folder of a job that was not started is removed.
		err = os.Rename(filepath.Join(s.root, one.name), folder)
	}
	if err == nil {
		if err = os.Rename(filepath.Join(folder, outputFolder), output); err != nil {
			_ = removeTree(folder) // The caller fails if it is there.
		}
	}
	if err != nil {
		_ = one.drop() // The next Open removes it.
		return spare{}, false
	}
	if one.moveDiscovery(folder, socket) != nil {
		_ = one.dropDiscovery() // The same.
	}
	return one, true
}

// moveDiscovery brings the discovery socket to its path, if that is possible, once the folder is that of the job.
func (o *spare) moveDiscovery(folder, socket string) error {
	within := socket == filepath.Join(folder, discoveryFolder, discoveryFile)
	switch {
	case o.discovery == nil:
		return nil
	case within != (o.short == ""):
		return o.dropDiscovery()
	case within:
		return nil
	}
	if err := os.Rename(o.short, filepath.Dir(socket)); err != nil {
		return err
	}
	o.short = filepath.Dir(socket)
	return writeOwner(o.short, folder)
}

// keep makes the folder of a job a spare one, or removes it if there are enough. All that the job and its proxy
// have left goes, but for empty files, the folder of its discovery socket, and sockets that are held open. The folder
// is no job's from the first step on, so that a crash leaves nothing that looks like a job. short is the folder of
// its discovery socket if that is not in its own folder. proxy waits in the folder, if that becomes a spare one.
func (s *spares) keep(folder, short string, held sockets, proxy *warm) error {
	one := spare{filepath.Base(folder), short, held, proxy}
	path := filepath.Join(s.root, one.name)
	if err := os.Rename(folder, path); err != nil {
		return errors.Join(one.drop(), removeTree(folder), removeTree(path)) // Which an earlier try may have left.
	}
	if s.full() || one.prepare(path) != nil || !s.push(one) {
		return errors.Join(one.drop(), removeTree(path))
	}
	return nil
}

// prepare empties a folder and makes it ready for the next job.
func (o *spare) prepare(path string) error {
	if o.control == nil || !asMade(filepath.Join(path, proxyproto.SocketFile)) {
		// A proxy that waits listens on the socket, and could not be reached without it.
		o.dismiss()
		sockets{control: o.control}.close()
		o.control = nil
	}
	var err error
	discovery := filepath.Join(path, discoveryFolder)
	if o.short != "" {
		discovery, err = o.short, writeOwner(o.short, path)
	}
	if err != nil || o.discovery == nil || !asMade(filepath.Join(discovery, discoveryFile)) {
		if err := o.dropDiscovery(); err != nil {
			return err
		}
	}
	if err := o.empty(path); err != nil {
		return err
	}
	for _, name := range []string{proxyproto.WorkspaceFolder, outputFolder} {
		if err := os.Mkdir(filepath.Join(path, name), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// empty empties a folder, but for what keep names.
func (o *spare) empty(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		switch {
		case name == proxyproto.SpecFile, name == proxyproto.LogFile:
			err = os.Truncate(filepath.Join(path, name), 1)
		case name == proxyproto.SocketFile && o.control != nil:
		case name == discoveryFolder && o.discovery != nil && o.short == "":
		case name == discoveryFolder:
			if err = os.Remove(filepath.Join(path, name, discoveryFile)); errors.Is(err, fs.ErrNotExist) {
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

// overwrite writes a file in its place. If it were emptied first, ext4 would write it to the disk as it is closed; so what
// is to be found empty is cut to one byte, which means nothing.
func overwrite(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		_, err = file.Write(data)
	}
	if err == nil && info.Size() > int64(len(data)) {
		err = file.Truncate(int64(len(data)))
	}
	return errors.Join(err, file.Close())
}

// removeFolders removes all files of the job except its output, or keeps its folder for another job, with the
// proxy that waits there.
func (j *Job) removeFolders(waiting *warm) error {
	paths, held := j.runner.paths, j.takeSockets()
	if !j.separated {
		held.close()
		return paths.removeJob(j.id)
	}
	if j.short() {
		return j.runner.spares.keep(paths.job(j.id), paths.short(j.id), held, waiting)
	}
	return j.runner.spares.keep(paths.job(j.id), "", held, waiting)
}
