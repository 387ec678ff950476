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
	// socket on which it can ask: see Job.Discovery.
	DiscoveryVariable = "WEIR_DISCOVERY"
	// NoticeVariable is set to the path of the file that is there once the job has been
	// asked to go.
	NoticeVariable = "WEIR_NOTICE"
)

const (
	// discoveryFolder is the folder of the socket in the job's folder, and discoveryFile its
	// name in there. A job that sees nothing but a few folders needs it; others have the
	// socket in the job's folder itself.
	discoveryFolder = "ask"
	discoveryFile   = "discovery.sock"
	// longestAddress is that of a socket: 108 bytes, the last one a zero.
	longestAddress = 107
	// shortFolder is where sockets are whose path would be longer, each in a folder of its
	// own, in which ownerFile has the path of the job's folder.
	shortFolder = "/tmp"
	shortPrefix = "weir-"
	ownerFile   = "owner"
)

// Discovery is the socket on which the job can ask about others and itself. Whoever
// starts or adopts the job serves it; it is closed when the job ends or is left. nil:
// it could not be opened again.
func (j *Job) Discovery() net.Listener {
	if j.discovery == nil {
		return nil
	}
	return j.discovery
}

// socketOf is the path by which the job of a spec reaches its socket.
func (l layout) socketOf(spec *proxyproto.Spec) string {
	path := l.file(spec.JobID, discoveryFile)
	if spec.Isolation == proxyproto.IsolationStrict || len(path) > longestAddress {
		return l.discovery(spec.JobID)
	}
	return path
}

// discovery is the path of a job's socket that has a folder of its own.
func (l layout) discovery(id string) string {
	if path := l.file(id, filepath.Join(discoveryFolder, discoveryFile)); len(path) <= longestAddress {
		return path
	}
	return filepath.Join(l.short(id), discoveryFile)
}

// socketIn is the path of its socket that a job has in its environment; empty: none.
func socketIn(environment []string) string {
	for _, variable := range environment {
		if path, is := strings.CutPrefix(variable, DiscoveryVariable+"="); is {
			return path
		}
	}
	return ""
}

// short is a folder with a short path, of one job.
func (l layout) short(id string) string {
	sum := sha256.Sum256([]byte(l.root + "\x00" + id))
	return filepath.Join(shortFolder, shortPrefix+hex.EncodeToString(sum[:10]))
}

// removeJob removes what a job has but its output, whatever modes the job has given to its
// folders: its own folder last, without which nobody would know of the rest.
func (l layout) removeJob(id string) error {
	if err := os.RemoveAll(l.short(id)); err != nil {
		return err
	}
	return removeTree(l.job(id))
}

// removeOrphans removes the short folders of jobs whose own folder is gone, with the state
// folder of an agent that had no chance to tidy up. There is one from before a job has a
// short folder until after.
func (r *Runner) removeOrphans() {
	// The pattern is a good one, and that is all that can be wrong.
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

// openDiscovery opens the socket, again for an adopted job.
func (j *Job) openDiscovery() error {
	own, folder := j.runner.paths.job(j.id), filepath.Dir(j.socket)
	err := os.Mkdir(folder, 0o711)
	switch short := folder == j.runner.paths.short(j.id); {
	case err == nil && short:
		err = os.WriteFile(filepath.Join(folder, ownerFile), []byte(own), 0o600)
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

// isOurs refuses a folder that somebody else has made, or can write to.
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

// listenDiscovery listens at path, where an earlier life may have left a socket. Nobody
// but the user that the job is can connect.
func (j *Job) listenDiscovery(path string) error {
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
	return nil
}

func (j *Job) closeDiscovery() {
	if j.discovery != nil {
		// It has no data to lose.
		_ = j.discovery.Close()
	}
}
