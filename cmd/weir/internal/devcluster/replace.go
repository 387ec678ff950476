package devcluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Programs are the paths of a build's programs.
type Programs struct{ Weir, JobProxy string }

// ProgramsIn returns the programs in a folder. Both must be there.
func ProgramsIn(folder string) (Programs, error) {
	dir, err := filepath.Abs(folder)
	if err != nil {
		return Programs{}, fmt.Errorf("programs: %w", err)
	}
	p := Programs{filepath.Join(dir, "weir"), filepath.Join(dir, "weir-jobproxy")}
	for _, path := range []string{p.Weir, p.JobProxy} {
		if _, err := exec.LookPath(path); err != nil {
			return Programs{}, fmt.Errorf("programs in %s: %w", folder, err)
		}
	}
	return p, nil
}

// Newest returns the newest version of the cluster that the programs work with.
func (p Programs) Newest(ctx context.Context) (uint32, error) {
	var told struct {
		Versions struct{ Newest uint32 } `json:"cluster_versions"`
	}
	out, err := exec.CommandContext(ctx, p.Weir, "version", "-o", "json").Output()
	if _, failed := errors.AsType[*exec.ExitError](err); failed && ctx.Err() == nil {
		// Programs that do not know the verb are those of the first version.
		return 1, nil
	}
	if err == nil {
		err = json.Unmarshal(out, &told)
	}
	if err != nil {
		return 0, fmt.Errorf("version of %s: %w", p.Weir, err)
	}
	return told.Versions.Newest, nil
}

// Runs returns the programs that the member runs with, if the record says so.
func (r *Record) Runs(name string) Programs {
	m, err := r.member(name)
	if err != nil {
		return Programs{}
	}
	p := Programs{Weir: cmp.Or(m.Program, r.Program)}
	if i := slices.Index(m.Arguments, jobProxyFlag); i >= 0 {
		p.JobProxy = m.Arguments[i+1]
	}
	return p
}

// jobProxyFlag is the flag of an agent that names the program weir-jobproxy.
const jobProxyFlag = "--jobproxy"

// Assign has a member started with other programs from its next start on, and with more arguments than before.
func Assign(dir, name string, with Programs, more ...string) error {
	if err := change(dir, func(record *Record) error { return record.assign(name, with, more...) }); err != nil {
		return fmt.Errorf("programs of %s: %w", name, err)
	}
	return nil
}

// change is edit for the cluster in dir.
func change(dir string, by func(*Record) error) error {
	root, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return edit(layout{root}, by)
}

func (r *Record) assign(name string, with Programs, more ...string) error {
	m, err := r.member(name)
	if err != nil {
		return err
	}
	m.Program = with.Weir
	if i := slices.Index(m.Arguments, jobProxyFlag); i >= 0 {
		m.Arguments[i+1] = with.JobProxy
	}
	m.Arguments = append(m.Arguments, more...)
	return nil
}

// replace is assign, for clusters whose owner may be of an earlier version, which knows only
// Program of the record, and starts what it names.
func (r *Record) replace(name string, with Programs) error {
	for i := range r.Members {
		r.Members[i].Program = cmp.Or(r.Members[i].Program, r.Program)
	}
	r.Program = with.Weir
	return r.assign(name, with)
}

// Replace ends a member's process, starts it again with other programs, and waits until it is up. An
// agent is killed, which leaves its jobs running whatever it was told to do with them on SIGTERM. A
// replica hands over leadership first, if it leads.
func Replace(ctx context.Context, dir, name string, with Programs, stop, ready time.Duration) (Process, error) {
	m, err := LoadMember(dir, name)
	if err == nil {
		err = m.end(ctx, stop)
	}
	if err == nil {
		err = change(dir, func(record *Record) error { return record.replace(name, with) })
	}
	if err != nil {
		return Process{}, fmt.Errorf("replace %s: %w", name, err)
	}
	return StartMember(ctx, dir, name, ready)
}

// End ends a member's process in order: an agent is killed, as Replace does. A replica that still runs
// after `within` is left alone, and the error is os.ErrDeadlineExceeded.
func End(ctx context.Context, dir, name string, within time.Duration) error {
	m, err := LoadMember(dir, name)
	if err == nil {
		err = m.end(ctx, within)
	}
	if err != nil {
		return fmt.Errorf("end %s: %w", name, err)
	}
	return nil
}

// end ends the member's process, if it runs.
func (m *Member) end(ctx context.Context, within time.Duration) error {
	if m.Kind == Agent {
		return m.Process.kill()
	}
	if err := m.Process.Signal(unix.SIGTERM); err != nil {
		return err
	}
	if Await(ctx, within, func() bool { return !m.Process.Alive() }) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("process %d still runs %v after SIGTERM: %w", m.Process.Pid, within, os.ErrDeadlineExceeded)
}
