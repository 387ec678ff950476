package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// host is what stays of a proxy while it runs jobs, one after another. To load a program and to start its
// runtime takes longer than all else that a proxy does for a short job.
type host struct {
	outside outside
	server  *server
	signals <-chan os.Signal
}

// run runs a job, and those that the agent gives this proxy afterwards.
func (h *host) run(s *supervisor) (err error) {
	for s != nil {
		if s.run(); !s.stay {
			return nil
		}
		if s, err = h.next(s.agent); s != nil {
			s.greet()
		}
	}
	return err
}

// plain reports whether a job with this spec has nothing that goes on in its proxy after its end.
func plain(spec *proxyproto.Spec) bool {
	return spec.Separated() && !spec.HasSecrets && spec.Feed == nil && len(spec.Outputs)+len(spec.Tmpfs) == 0
}

// restore takes from the proxy what is left of a job that has ended, and reports whether the proxy can run
// another one. It cannot after a job that has left something that may go on, such as a disk that hangs, or whose
// secrets are still in memory.
func (s *supervisor) restore() bool {
	if !plain(s.spec) || s.started == nil || s.ending.hang != nil || s.conclusion.kept || s.unremoved != nil || !s.beside.unused() {
		return false
	}
	s.disk.stop()
	s.lease.unshare()
	err := errors.Join(s.lease.timer.Close(), unix.Close(s.child.handle))
	if s.claim != nil {
		err = errors.Join(err, s.claim.Close())
	}
	complain(err)
	// The peak of the proxy's memory was that of the job. Not every kernel can forget it.
	complain(os.WriteFile("/proc/self/clear_refs", []byte("5"), 0), os.ErrNotExist)
	// The next job has the same log, and begins with an empty one.
	log().flush()
	return err == nil
}

// next waits for the next job. It returns nil when the agent has gone, or wants the proxy to end.
func (h *host) next(agent *connection) (*supervisor, error) {
	agent.send(proxyproto.Message{Free: &proxyproto.Free{}})
	for {
		select {
		case <-h.signals:
			return nil, nil
		case r := <-h.server.requests:
			switch {
			case r.opened:
				// Only the agent that has this proxy may use it.
				r.from.close()
			case (r.closed || r.message.Release != nil) && r.from == agent:
				return nil, nil
			case r.message.Run != nil && r.from == agent:
				return h.take(r)
			default:
				closeAll(r.files)
			}
		}
	}
}

// take makes what comes with a Run a job that has not begun.
func (h *host) take(r request) (*supervisor, error) {
	if r.err != nil {
		return nil, r.err
	}
	run := r.message.Run
	spec, err := readSpec(run.Folder)
	if err == nil && run.Secrets != spec.HasSecrets {
		err = fmt.Errorf("the secrets of job %s did not come with it", spec.JobID)
	}
	if err != nil {
		closeAll(r.files)
		return nil, err
	}
	if run.Secrets {
		err = readSecrets(spec, r.files[0])
		r.files = r.files[1:]
	}
	s := newSupervisor(run.Folder, spec, h.outside, h.server, h.signals)
	s.cpu, s.agent = used(unix.RUSAGE_SELF), r.from
	if run.Claim {
		s.claim = r.files[0]
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}
