package runner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// stopSignal suspends a process until it is killed.
const stopSignal = unix.SIGSTOP

// adopt takes over the jobs of an earlier agent process, running or ended, and
// removes the folders of jobs that were never started.
func (r *Runner) adopt() error {
	entries, err := os.ReadDir(r.paths.jobs())
	if err != nil {
		return fmt.Errorf("adopt jobs: %w", err)
	}
	for _, entry := range entries {
		if err := r.adoptJob(entry.Name()); err != nil {
			return fmt.Errorf("adopt job %s: %w", entry.Name(), err)
		}
	}
	// The group of a job may still exist when its folder is gone.
	groups, err := cgroup.Jobs(r.config.Cgroups.Node)
	if err != nil {
		return fmt.Errorf("adopt jobs: %w", err)
	}
	for _, id := range groups {
		if r.jobs[id] != nil {
			continue
		}
		if err := endJob(cgroup.Job(r.config.Cgroups.Node, id), r.paths.job(id), noProxy); err != nil {
			// A process that hangs must not keep the agent from starting.
			r.config.Logger.Error("processes of a job still running", "job", id, "error", err)
		}
	}
	return nil
}

// adoptJob takes a job over if its proxy lives or has left a trace.
func (r *Runner) adoptJob(id string) error {
	folder := r.paths.job(id)
	if checkName("job", id) != nil {
		return removeTree(folder)
	}
	job := newJob(r, id)
	close(job.tried)
	job.readSpec()
	identity, trace, err := r.findProxy(folder)
	if err != nil {
		return err
	}
	if result, err := job.readResult(); err == nil {
		job.result, trace = result, true
	}
	if !trace {
		// The command starts only after the proxy has written its identity.
		r.config.Logger.Info("job of an earlier agent process never started", "job", id)
		return errors.Join(endJob(job.place, folder, noProxy), r.unmake(id))
	}
	job.proxy, job.identity = adoptedProxy(identity, job.keepUser), identity
	if conn, err := job.dial(); err == nil {
		job.conn = conn
	}
	if job.result == nil {
		if err := job.openDiscovery(); err != nil {
			r.config.Logger.Warn("cannot open discovery socket of an adopted job", "job", id, "error", err)
		}
	}
	r.jobs[id] = job
	go job.run()
	return nil
}

// readSpec reads when an adopted job was started, which version its proxy speaks, its user,
// its discovery socket and its cgroup: the earlier agent process may have run in another group.
func (j *Job) readSpec() {
	path := j.runner.paths.file(j.id, proxyproto.SpecFile)
	if info, err := os.Stat(path); err == nil {
		j.begun = info.ModTime()
	}
	// The spec may be of another build; the agent needs only these fields.
	var spec struct {
		Version     int                  `json:"version"`
		Cgroups     proxyproto.Placement `json:"cgroups"`
		User        *proxyproto.User     `json:"user"`
		Environment []string             `json:"environment"`
	}
	if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &spec) == nil {
		j.place, j.version, j.user = spec.Cgroups, spec.Version, spec.User
		if j.user != nil && j.user.Own {
			// Nil while the proxy lives: see keepUser.
			j.claim = j.runner.claims().again(j.user.UID)
		}
		j.socket = cmp.Or(socketIn(spec.Environment), j.socket)
	}
}

// keepUser claims the own user of an adopted job, if its proxy, which held the claim, ends or is gone: the job's
// files, and maybe processes, remain until it is released.
func (j *Job) keepUser() {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.left:
		return // The job is another agent process's.
	default:
	}
	if j.claim == nil && j.user != nil && j.user.Own {
		j.claim = j.runner.claims().again(j.user.UID)
	}
}

// findProxy returns the identity of a job's proxy, alive or not, and whether there is a
// trace of one. The identity has pid and start time, so that a later process with the same pid is
// not mistaken for the proxy.
func (r *Runner) findProxy(folder string) (identity proxyproto.Identity, trace bool, err error) {
	data, err := os.ReadFile(filepath.Join(folder, proxyproto.IdentityFile))
	switch {
	case err == nil:
		// The file is written whole or not at all. Damage means that the machine
		// crashed, so the proxy is gone.
		if err := json.Unmarshal(data, &identity); err != nil {
			r.config.Logger.Warn("job proxy identity file is damaged", "file", filepath.Join(folder, proxyproto.IdentityFile), "error", err)
			identity = noProxy
		}
		return identity, true, nil
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
		return noProxy, false, err
	}
	if log, err := os.ReadFile(filepath.Join(folder, proxyproto.LogFile)); err == nil {
		if identity, _, found := proxyproto.CutIdentity(log); found {
			return identity, true, nil
		}
	}
	// The proxy may have been started but not have written its identity yet. In that case it is the
	// only process of the job.
	marked, err := proctree.Tree(noProxy.Pid, folder)
	if err != nil || len(marked) == 0 {
		return noProxy, false, err
	}
	return marked[0].Identity, true, nil
}

// Discard kills a job at once, whatever its state, and releases it. Its output is kept. Of a job that is not there,
// because it was not started, it removes an output folder that an earlier agent process may have left.
func (r *Runner) Discard(id string) error {
	job := r.Job(id)
	if job == nil {
		r.mu.Lock()
		r.retained.remove(id)
		r.mu.Unlock()
		return r.drop([]string{id})
	}
	<-job.tried
	if err := endJob(job.place, r.paths.job(id), job.identity); err != nil {
		return fmt.Errorf("discard job %s: %w", id, err)
	}
	select {
	case <-job.ended:
	case <-job.left:
		return fmt.Errorf("discard job %s: %w", id, ErrClosed)
	}
	return job.Release()
}
