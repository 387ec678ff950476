package agent

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/agent/runner/proxyproto"
)

// nobody is the uid and gid with which files are read for jobs that get a user of their own: they
// get only files that everybody may read.
const nobody = 65534

// fetch places the job's files in a folder on the same disk as the workspaces, so that a rename
// moves them into the workspace without a copy.
func (a *jobActor) fetch(ctx actor.Context) {
	life, stop := context.WithCancel(a.life)
	a.stopFetch = stop
	dir, cache := a.folder.placing(a.job.start.GetJobId()), a.files
	files, user, group := a.job.Files(&a.cfg)
	aside(ctx, func() work {
		begin := time.Now()
		as, err := readerOf(&a.cfg, user, group)
		if err == nil {
			err = os.RemoveAll(dir)
		}
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err == nil {
			err = cache.Place(life, dir, as, files)
		}
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		took := time.Since(begin)
		return func(ctx actor.Context) { a.fetched(ctx, took, err) }
	})
}

// readerOf returns the user whose rights apply when files are read for a job; nil: the agent's
// own.
func readerOf(cfg *Config, user, group string) (*proxyproto.User, error) {
	found, err := cfg.users().Find(user, group)
	if err == nil && found != nil && found.Own {
		if found.UID = nobody; group == "" {
			found.GID = nobody
		}
	}
	return found, err
}

// fetched handles the outcome of fetching. The job may have ended meanwhile.
func (a *jobActor) fetched(ctx actor.Context, took time.Duration, err error) {
	if err != nil && a.life.Err() != nil {
		// Fetching was cancelled because this process ends. The next process fetches the files.
		return
	}
	a.placed = err == nil
	if err != nil && a.job.Phase() < Ended {
		a.cfg.Logger.Warn("cannot fetch job files", "job", a.job.start.GetJobId(), "took", took, "error", err)
	}
	a.job.Fetched(time.Now(), took, err)
	a.act(ctx)
}

// dropFiles cancels the fetching of files for a job that has ended, and removes placed files.
func (a *jobActor) dropFiles() {
	if a.stopFetch != nil {
		a.stopFetch()
	}
	if a.placed {
		a.placed = false
		go a.removePlaced(a.folder.placing(a.job.start.GetJobId()))
	}
}

// removePlaced removes the files of a job that did not start. It may be called by any goroutine.
func (e *environment) removePlaced(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		e.cfg.Logger.Warn("cannot remove files of a job that did not start", "dir", dir, "error", err)
	}
}
