package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"weir/actors/agent/runner/output"
)

// retained is the output of finished jobs, oldest first.
type retained struct {
	jobs  []retainedJob
	bytes int64
}

type retainedJob struct {
	id    string
	bytes int64
}

// add appends a job that has just finished.
func (r *retained) add(id string, bytes int64) {
	r.jobs = append(r.jobs, retainedJob{id: id, bytes: bytes})
	r.bytes += bytes
}

// remove removes a job, if it is there.
func (r *retained) remove(id string) {
	for i, job := range r.jobs {
		if job.id == id {
			r.bytes -= job.bytes
			r.jobs = slices.Delete(r.jobs, i, i+1)
			return
		}
	}
}

// excess removes the oldest jobs until the limits are met, and returns their ids.
func (r *retained) excess(limit Retain) []string {
	var ids []string
	for len(r.jobs) > 0 && (len(r.jobs) > limit.Jobs || r.bytes > limit.Bytes) {
		ids = append(ids, r.jobs[0].id)
		r.bytes -= r.jobs[0].bytes
		r.jobs = r.jobs[1:]
	}
	return ids
}

// findRetained finds the output that an earlier agent process has kept of released
// jobs. The function `has` reports whether a job has not been released.
func findRetained(folder string, has func(id string) bool) (retained, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return retained{}, fmt.Errorf("find kept output: %w", err)
	}
	var found retained
	changed := map[string]time.Time{}
	for _, entry := range entries {
		if has(entry.Name()) {
			continue
		}
		info, err := entry.Info()
		var size int64
		if err == nil {
			size, err = output.Size(filepath.Join(folder, entry.Name()))
		}
		if err != nil {
			return retained{}, fmt.Errorf("find kept output: %w", err)
		}
		changed[entry.Name()] = info.ModTime()
		found.add(entry.Name(), size)
	}
	slices.SortStableFunc(found.jobs, func(a, b retainedJob) int { return changed[a.id].Compare(changed[b.id]) })
	return found, nil
}

// finish turns a released job into kept output.
func (r *Runner) finish(job *Job) error {
	size, err := output.Size(r.paths.output(job.id))
	// The output of an adopted job may have been lost.
	lost := errors.Is(err, fs.ErrNotExist)
	if err != nil && !lost {
		return err
	}
	return r.drop(r.keep(job, size, lost))
}

// keep moves a released job from r.jobs to r.retained, unless its output is lost, and returns
// the jobs whose output is then beyond the limits.
func (r *Runner) keep(job *Job, size int64, lost bool) (excess []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.jobs[job.id] != job {
		return nil
	}
	delete(r.jobs, job.id)
	if !lost {
		r.retained.add(job.id, size)
	}
	return r.retained.excess(r.config.Retain)
}

// drop removes the output of jobs. mu must not be held: the disk may hang, and renewing the
// leases of other jobs needs mu.
func (r *Runner) drop(ids []string) error {
	for _, id := range ids {
		if err := os.RemoveAll(r.paths.output(id)); err != nil {
			return fmt.Errorf("drop output of job %s: %w", id, err)
		}
	}
	return nil
}
