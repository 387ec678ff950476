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

// stopSignal keeps a process from doing anything until it is killed.
const stopSignal = unix.SIGSTOP

// adopt takes over the jobs that an earlier life of the agent has left, whether
// they run or have ended, and removes what never became a job.
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
	// A folder may be gone and its group still there.
	groups, err := cgroup.Jobs(r.config.Cgroups.Node)
	if err != nil {
		return fmt.Errorf("adopt jobs: %w", err)
	}
	for _, id := range groups {
		if r.jobs[id] != nil {
			continue
		}
		if err := endJob(cgroup.Job(r.config.Cgroups.Node, id), r.paths.job(id), noProxy); err != nil {
			// It hangs, and keeps nobody else from running.
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
		// The command starts after the proxy has left its identity.
		r.config.Logger.Info("job of an earlier agent process never started", "job", id)
		return errors.Join(endJob(job.place, folder, noProxy), r.paths.removeJob(id), os.RemoveAll(r.paths.output(id)))
	}
	job.proxy, job.identity = adoptedProxy(identity), identity
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

// readSpec learns when an adopted job was started, which version its proxy speaks, and
// where its group is: the earlier life may have been in another group itself.
func (j *Job) readSpec() {
	path := j.runner.paths.file(j.id, proxyproto.SpecFile)
	if info, err := os.Stat(path); err == nil {
		j.begun = info.ModTime()
	}
	// What a spec of another build has beside these is nothing to the agent.
	var spec struct {
		Version     int                  `json:"version"`
		Cgroups     proxyproto.Placement `json:"cgroups"`
		User        *proxyproto.User     `json:"user"`
		Environment []string             `json:"environment"`
	}
	if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &spec) == nil {
		j.place, j.version, j.user = spec.Cgroups, spec.Version, spec.User
		j.socket = cmp.Or(socketIn(spec.Environment), j.socket)
	}
}

// findProxy returns who a job's proxy is or was, and whether there is a trace of
// one. Proxies are known by pid and start time, so no process that came by the pid
// later is taken for one.
func (r *Runner) findProxy(folder string) (identity proxyproto.Identity, trace bool, err error) {
	data, err := os.ReadFile(filepath.Join(folder, proxyproto.IdentityFile))
	switch {
	case err == nil:
		// The file is written whole or not at all; damage means that the disk
		// lost it, and then the machine has started anew.
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
	// It may have been started and not have come so far: then it is alone.
	marked, err := proctree.Tree(noProxy.Pid, folder)
	if err != nil || len(marked) == 0 {
		return noProxy, false, err
	}
	return marked[0].Identity, true, nil
}

// Discard ends a job at once, whatever it does, and drops it. Its output is kept.
func (r *Runner) Discard(id string) error {
	job := r.Job(id)
	if job == nil {
		return nil
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
