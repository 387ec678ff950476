package runner

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// restTime is how long a proxy waits for a job before it exits. The one that has waited least gets the next, so
	// no more wait than there were jobs at once within this time.
	restTime = 10 * time.Second
	// oldestProxy is the age from which a proxy exits after a job: what is mounted on the machine later may not
	// be visible to it.
	oldestProxy = time.Minute
)

// warm is a proxy that has run a job of this process, and waits for another. It exits when its connection ends.
type warm struct {
	*proxyProcess
	identity proxyproto.Identity
	conn     *net.UnixConn
	// timer ends it after restTime.
	timer *time.Timer
}

// rest lets the proxy of an ended job wait for another. It returns nil if the proxy exits, as it does if anything
// of the job may be left in it.
func rest(j *Job) *warm {
	if !j.separated || j.Result().Hang != nil || j.identity == noProxy || !j.runner.isProgram(j.proxy.program) || time.Since(j.proxy.born) > oldestProxy {
		return nil
	}
	<-j.followed
	j.mu.Lock()
	conn, stays := j.conn, j.stays
	j.mu.Unlock()
	if conn == nil || !stays {
		return nil
	}
	if j.tell(proxyproto.Message{Release: &proxyproto.Release{Stay: true}}) != nil || !awaitFree(conn) {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.conn != conn {
		return nil
	}
	j.conn, j.rested = nil, true
	return &warm{proxyProcess: j.proxy, identity: j.identity, conn: conn}
}

// awaitFree waits until a proxy has nothing left of its job. It returns false if the proxy exits instead.
func awaitFree(conn *net.UnixConn) bool {
	if conn.SetReadDeadline(time.Now().Add(leaveTimeout)) != nil {
		return false
	}
	for reader := proxyproto.NewTolerantReader(conn); ; {
		message, err := reader.Read()
		switch {
		case err != nil && !errors.Is(err, proxyproto.ErrBadMessage):
			return false
		case message.Free != nil:
			return conn.SetReadDeadline(time.Time{}) == nil
		}
	}
}

// wait makes it exit after restTime.
func (w *warm) wait() { w.timer = time.AfterFunc(restTime, w.dismiss) }

// wake reports whether it can still be given a job.
func (w *warm) wake() bool {
	select {
	case <-w.gone:
		return false
	default:
		return w.timer.Stop()
	}
}

// dismiss makes it exit.
func (w *warm) dismiss() { _ = w.conn.Close() } // fails only if it is closed

// stop makes it exit, and waits for that.
func (w *warm) stop() error {
	w.dismiss()
	if w.ended(leaveTimeout) {
		return nil
	}
	err := w.kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	if err != nil || !w.ended(leaveTimeout) {
		return errors.Join(fmt.Errorf("weir-jobproxy (pid %d) waits for no job, but %w", w.identity.Pid, ErrHung), err)
	}
	return nil
}

// ended reports whether it has exited, and waits for that for a time at most.
func (w *warm) ended(patience time.Duration) bool {
	select {
	case <-w.gone:
		return true
	case <-time.After(patience):
		return false
	}
}

// run gives it a job whose folder, with the spec, is the one that it had.
func (w *warm) run(j *Job, spec *proxyproto.Spec) error {
	folder := j.runner.paths.job(j.id)
	// From now on a restarted agent finds the proxy by this.
	if err := overwrite(j.runner.paths.file(j.id, proxyproto.LogFile), w.identity.LogLine()); err != nil {
		return err
	}
	run := proxyproto.Run{Folder: folder, Secrets: spec.HasSecrets, Claim: j.claim != nil}
	var files []*os.File
	if run.Secrets {
		secrets, err := secretsFile(spec.Secrets)
		if err != nil {
			return err
		}
		defer secrets.Close()
		files = append(files, secrets)
	}
	if run.Claim {
		files = append(files, j.claim)
	}
	j.begun, j.identity = time.Now(), w.identity
	line, err := (&proxyproto.Message{Run: &run}).Line()
	if err != nil {
		return err
	}
	if err := send(w.conn, line, files...); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.proxy, j.conn = w.proxyProcess, w.conn
	return nil
}

// isProgram reports whether a file is still the one from which proxies start.
func (r *Runner) isProgram(file os.FileInfo) bool {
	now, err := os.Stat(r.config.ProxyPath)
	return err == nil && file != nil && os.SameFile(now, file) && now.ModTime().Equal(file.ModTime()) && now.Size() == file.Size()
}
