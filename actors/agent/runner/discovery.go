package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// DiscoveryVariable is set in the environment of every job to the path of the
	// socket that answers its queries: see Job.Discovery.
	DiscoveryVariable = "WEIR_DISCOVERY"
	// NoticeVariable is set to the path of a file that appears once the job has been
	// asked to end.
	NoticeVariable = "WEIR_NOTICE"
)

const (
	// discoveryFolder is a folder in the job's folder for the socket of a separate job,
	// which sees only a few folders. Other jobs have the socket in the job's folder
	// itself. discoveryFile is the socket's name in both folders.
	discoveryFolder = "ask"
	discoveryFile   = "discovery.sock"
	// longestAddress limits the path of a socket, in bytes: the kernel's 108 include a zero.
	longestAddress = 107
	// shortFolder holds the sockets whose path would be longer, each in a folder of its
	// own. ownerFile in it holds the path of the job's folder.
	shortFolder = "/tmp"
	shortPrefix = "weir-"
	ownerFile   = "owner"
)

// Discovery is the socket on which the job can query itself and other jobs. The caller that starts
// or adopts the job serves it. The socket is closed when the job ends or the runner leaves the job.
// Discovery returns nil if the socket of an adopted job could not be reopened.
func (j *Job) Discovery() net.Listener { return j.discovery }

// socketOf is the path of the discovery socket as the job sees it.
func (l layout) socketOf(spec *proxyproto.Spec) string {
	path := l.file(spec.JobID, discoveryFile)
	if spec.Separated() || len(path) > longestAddress {
		return l.discovery(spec.JobID)
	}
	return path
}

// discovery is the path of a job's socket if the socket has a folder of its own.
func (l layout) discovery(id string) string {
	if path := l.file(id, filepath.Join(discoveryFolder, discoveryFile)); len(path) <= longestAddress {
		return path
	}
	return filepath.Join(l.short(id), discoveryFile)
}

// socketIn is the value of DiscoveryVariable in a job's environment; empty: not set.
func socketIn(environment []string) string {
	for _, variable := range environment {
		if path, is := strings.CutPrefix(variable, DiscoveryVariable+"="); is {
			return path
		}
	}
	return ""
}

// short is the path of one job's folder below shortFolder.
func (l layout) short(id string) string {
	sum := sha256.Sum256([]byte(l.root + "\x00" + id))
	return filepath.Join(shortFolder, shortPrefix+hex.EncodeToString(sum[:10]))
}

// removeJob removes all files of a job except its output, whatever modes the job has given to
// its folders. The job's folder goes last: without it the short folder would not be found.
func (l layout) removeJob(id string) error {
	if err := os.RemoveAll(l.short(id)); err != nil {
		return err
	}
	return removeTree(l.job(id))
}

// removeOrphans removes short folders whose job's folder is gone, because somebody deleted the
// state folder of an agent that had not cleaned up. A job's folder is created before its short
// folder and removed after it, so that no folder in use is removed. While a short folder goes from a
// job to the next one, it may be: see listenDiscovery.
func (r *Runner) removeOrphans() {
	// A malformed pattern is the only error, and this one is well formed.
	owners, _ := filepath.Glob(filepath.Join(shortFolder, shortPrefix+"*", ownerFile))
	for _, path := range owners {
		if isOurs(filepath.Dir(path)) != nil {
			continue
		}
		owner, err := os.ReadFile(path)
		if err != nil || !filepath.IsAbs(string(owner)) {
			continue
		}
		if _, err := os.Lstat(string(owner)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			r.config.Logger.Warn("stale job socket not removed", "file", path, "error", err)
		}
	}
}

// openDiscovery opens the discovery socket, or reopens that of an adopted job.
func (j *Job) openDiscovery() error {
	own, folder := j.runner.paths.job(j.id), filepath.Dir(j.socket)
	err := os.Mkdir(folder, 0o711)
	switch {
	case err == nil && j.short():
		err = writeOwner(folder, own)
	case errors.Is(err, fs.ErrExist):
		err = isOurs(folder)
	}
	if err != nil {
		return err
	}
	if name, err := filepath.Rel(own, j.socket); err == nil && filepath.IsLocal(name) {
		return j.withPath(name, j.listenDiscovery)
	}
	return j.listenDiscovery(j.socket)
}

// short reports whether the discovery socket has a short folder.
func (j *Job) short() bool { return filepath.Dir(j.socket) == j.runner.paths.short(j.id) }

// writeOwner writes whose a short folder is.
func writeOwner(short, folder string) error {
	return overwrite(filepath.Join(short, ownerFile), []byte(folder))
}

// isOurs returns an error for a folder that another user owns, or can read or write.
func isOurs(folder string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(folder, &stat); err != nil {
		return fmt.Errorf("folder %s: %w", folder, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || stat.Mode&0o066 != 0 || int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("folder %s: belongs to another user: %w", folder, unix.EPERM)
	}
	return nil
}

// listenDiscovery listens at path, where an earlier agent process may have left a socket. Only
// the job's user can connect. A socket that came with the job's folder is used, unless another agent has
// just removed it.
func (j *Job) listenDiscovery(path string) error {
	if j.sockets.discovery != nil {
		if j.listenAgain(path) == nil {
			return nil
		}
		sockets{discovery: j.sockets.discovery}.close()
		j.sockets.discovery = nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(path, 0o600), own(path, j.user)); err != nil {
		return errors.Join(err, listener.Close())
	}
	j.discovery = listener
	if j.separated {
		// Without it, the next job opens its own.
		j.sockets.discovery, _ = listener.File()
	}
	return nil
}

// listenAgain listens on the socket that came with the job's folder.
func (j *Job) listenAgain(path string) error {
	// The job before could connect until now.
	if err := errors.Join(os.Chmod(path, 0o600), own(path, j.user), hangUp(j.sockets.discovery)); err != nil {
		return err
	}
	var err error
	j.discovery, err = net.FileListener(j.sockets.discovery)
	return err
}

func (j *Job) closeDiscovery() {
	if j.discovery != nil {
		// A listener has no data to lose.
		_ = j.discovery.Close()
	}
}
