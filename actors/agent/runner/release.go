package runner

import (
	"errors"
	"fmt"

	"weir/actors/agent/runner/proxyproto"
)

// Release cleans up an ended job whose result is safe elsewhere: the proxy exits, or waits for
// another job, the workspace is removed, and the output is kept as long as Config.Retain allows. It
// takes some milliseconds, and may be called twice. It returns ErrHung, wrapped, as
// long as the proxy or another process of the job hangs and cannot be killed.
func (j *Job) Release() error {
	if err := j.release(); err != nil {
		return fmt.Errorf("release job %s: %w", j.id, err)
	}
	return nil
}

func (j *Job) release() error {
	if j.runner.Job(j.id) != j {
		// It has been released, or was never started.
		return nil
	}
	if j.Result() == nil {
		return errors.New("still running: stop it first")
	}
	if !j.cleared {
		waiting := rest(j)
		if waiting == nil {
			if err := endProxy(j); err != nil {
				return err
			}
		}
		if err := j.removeFolders(waiting); err != nil {
			return err
		}
		j.cleared = true
	}
	// Nothing is left that the next job with this user could find.
	return errors.Join(drop(j.claim), j.runner.finish(j))
}

// endProxy makes the proxy of an ended job exit.
func endProxy(j *Job) error {
	// Ignore errors: a proxy that has gone needs no message, and a proxy that is not reached is
	// killed.
	_ = j.tell(proxyproto.Message{Release: &proxyproto.Release{}})
	// A proxy may have to wait for what hangs.
	if err := j.endHung(); err != nil {
		return err
	}
	if j.awaitProxy(leaveTimeout) != nil {
		j.killProxy()
		if err := j.awaitProxy(leaveTimeout); err != nil {
			return err
		}
	}
	j.disconnect()
	// The proxy has done that, unless it was killed after it had told the result.
	return removeGroup(j.place)
}

func (j *Job) disconnect() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.conn != nil {
		_ = j.conn.Close()
		j.conn, j.follows, j.asked = nil, false, false
	}
}

// leave lets the job go on without this process.
func (j *Job) leave() {
	if j.proxy == nil {
		return
	}
	j.mu.Lock()
	j.expectNothing()
	close(j.left)
	claim := j.claim
	j.mu.Unlock()
	j.disconnect()
	j.takeSockets().close()
	j.proxy.leave()
	_ = drop(claim) // the proxy holds it too
}
