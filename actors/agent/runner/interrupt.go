package runner

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// Interruption asks a job to end by itself.
type Interruption struct {
	// Signal is the name ("SIGINT") of a signal for all processes of the job or, with
	// RootOnly, for its root process only. If it is empty, no signal is sent, and only the job's
	// input ends.
	Signal   string
	RootOnly bool
	// Reason is why a job that still runs after Grace is stopped.
	Reason string
	Grace  time.Duration
	// Notice is written to the job's notice file before the signal is sent.
	Notice []byte
}

// Interrupt asks the job to end by itself. Its proxy ends its input, sends the signal
// once, and enforces the deadline, even without an agent. If there are several deadlines, the
// earliest counts. A job that ends in time keeps its own outcome, with Result.Interrupted.
//
// A proxy of version 1 cannot do that: its job is stopped, by SIGTERM and after the
// same grace. A proxy before version 4 needs a signal: without a name it gets
// SIGWINCH, which ends no process and which few programs handle.
func (j *Job) Interrupt(i Interruption) error {
	if i.Signal != "" && unix.SignalNum(i.Signal) == 0 {
		return fmt.Errorf("interrupt job %s: unknown signal %.40q, want one like SIGINT", j.id, i.Signal)
	}
	if err := j.writeNotice(i.Notice); err != nil {
		// Without a notice the job still gets the signal.
		j.runner.config.Logger.Warn("cannot write stop notice", "job", j.id, "error", err)
	}
	j.mu.Lock()
	version := j.version
	j.mu.Unlock()
	if version < firstInterrupting {
		return j.Stop(i.Reason, i.Grace)
	}
	if version < firstWithoutSignal {
		i.Signal = cmp.Or(i.Signal, "SIGWINCH")
	}
	return j.end(i.Grace, proxyproto.Message{Interrupt: &proxyproto.Interrupt{
		Signal: i.Signal, RootOnly: i.RootOnly, Reason: i.Reason, GraceMillis: millis(i.Grace),
	}})
}

// The first protocol versions with Interrupt, and with an Interrupt that needs no signal.
const (
	firstInterrupting  = 2
	firstWithoutSignal = 4
)

// writeNotice replaces the job's notice file atomically. The job can write to that folder too:
// links of the job are not followed out of the workspace, and the new file has a random name
// that must not exist, so nothing that the job has put there, such as a fifo, can block.
func (j *Job) writeNotice(notice []byte) error {
	workspace, err := os.OpenRoot(j.runner.paths.workspace(j.id))
	if err != nil {
		return err
	}
	defer workspace.Close()
	path, err := filepath.Rel(workspace.Name(), j.runner.paths.notice(j.id))
	if err != nil {
		return err
	}
	err = workspace.Mkdir(filepath.Dir(path), 0o700)
	if err == nil && j.user != nil {
		err = workspace.Lchown(filepath.Dir(path), int(j.user.UID), int(j.user.GID))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fresh := path + "." + rand.Text()
	file, err := workspace.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(notice)
	if err == nil && j.user != nil {
		err = file.Chown(int(j.user.UID), int(j.user.GID))
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = workspace.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(err, workspace.Remove(fresh))
	}
	return nil
}
