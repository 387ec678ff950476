package runner

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proxyproto"
)

// defaultPath is the PATH of a job whose environment has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// JobSpec is a job to run.
type JobSpec struct {
	// ID names the job, once and for ever, on this node.
	ID string
	// Argv is the program and its arguments; Shell is a command for
	// /bin/sh -c. Exactly one is set.
	Argv  []string
	Shell string
	// Environment is all that the job sees, but for PATH, HOME and TMPDIR,
	// which are filled in when missing; the last two name the workspace.
	// Nothing is taken from the agent's environment. DiscoveryVariable and
	// NoticeVariable are added.
	Environment map[string]string
	// Furnish puts into the workspace what the job finds there; nil: nothing. It is called
	// once, before anything of the job runs, and its error is one of Start.
	Furnish func(workspace string) error
	// Isolation is one of proxyproto.Isolations; empty: default.
	Isolation string
	// User and Group are who the job's processes are, by name or number; empty: who the
	// agent is, and with isolation strict a user of the job's own.
	User, Group string
	// CPULimit is in cores; 0 is none. CPUEnforcement is proxyproto.EnforceQuota, or
	// EnforceWeight; empty: quota. CPUWeight, 1 to 10000 where 100 is usual, says who yields
	// on a full machine; 0 is usual, or as CPULimit says if it is enforced by weight.
	CPULimit       float64
	CPUEnforcement string
	CPUWeight      int
	// MemoryLimit is in bytes, PidsLimit in processes and threads; 0 is none.
	MemoryLimit int64
	PidsLimit   int
	// MemoryReserve is what is reserved for the job's processes, and ProxyMemoryReserve what
	// for its proxy, in bytes; 0: not known.
	MemoryReserve, ProxyMemoryReserve int64
	// Tmpfs are mounted in the workspace while the job lives, and count as its memory.
	Tmpfs []proxyproto.Tmpfs
	// DiskLimit is what the workspace may take on disk, in bytes; 0 is no limit.
	DiskLimit int64
	// Feed says what the job gets on standard input; nil: nothing. Outputs are kept when it
	// has completed.
	Feed    *proxyproto.Feed
	Outputs []proxyproto.KeptFile
	// TimeLimit ends the job so long after its start; 0 is none.
	TimeLimit time.Duration
	// Lease ends the job unless it is renewed: see Runner.RenewAll.
	Lease time.Duration
}

// maxArguments limits command and environment together, in bytes. The kernel's
// own limit is not far above and its error names nothing.
const maxArguments = 1 << 20

// forProxy makes the proxy's spec of s.
func (r *Runner) forProxy(s *JobSpec) (*proxyproto.Spec, error) {
	c, paths := &r.config, r.paths
	if err := checkName("job", s.ID); err != nil {
		return nil, err
	}
	workspace := paths.workspace(s.ID)
	variables := map[string]string{"PATH": defaultPath, "HOME": workspace, "TMPDIR": workspace}
	maps.Copy(variables, s.Environment)
	variables[proxyproto.TreeVariable] = paths.job(s.ID)
	variables[NoticeVariable] = paths.notice(s.ID)
	spec := &proxyproto.Spec{
		Version:            proxyproto.Version,
		JobID:              s.ID,
		Argv:               s.Argv,
		Shell:              s.Shell,
		Workspace:          workspace,
		CPULimit:           s.CPULimit,
		CPUEnforcement:     s.CPUEnforcement,
		CPUWeight:          s.CPUWeight,
		MemoryLimit:        s.MemoryLimit,
		PidsLimit:          s.PidsLimit,
		MemoryReserve:      s.MemoryReserve,
		ProxyMemoryReserve: s.ProxyMemoryReserve,
		DiskLimit:          s.DiskLimit,
		TimeLimitMillis:    millis(s.TimeLimit),
		LeaseMillis:        millis(s.Lease),
		SamplePeriodMillis: millis(c.SamplePeriod),
		OutputFolder:       paths.output(s.ID),
		StdoutLimit:        c.Output.Stdout,
		StderrLimit:        c.Output.Stderr,
		Feed:               s.Feed,
		Outputs:            s.Outputs,
		Cgroups:            cgroup.Job(c.Cgroups.Node, s.ID),
	}
	if c.EndTimeout != proxyproto.DefaultEndTimeout {
		spec.EndTimeoutMillis = millis(c.EndTimeout)
	}
	if err := r.confine(spec, s); err != nil {
		return nil, err
	}
	variables[DiscoveryVariable] = paths.socketOf(spec)
	size := len(s.Shell)
	for _, argument := range s.Argv {
		size += len(argument)
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		spec.Environment = append(spec.Environment, name+"="+variables[name])
		size += len(name) + len(variables[name])
		// A name with "=" would be read as another variable.
		if slices.Contains([]byte(name), '=') {
			return nil, fmt.Errorf("environment: name %.40q holds '='", name)
		}
	}
	if size > maxArguments {
		return nil, fmt.Errorf("command and environment: %d bytes, must be at most %d", size, maxArguments)
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	return spec, nil
}

// millis rounds up: a duration that is not zero stays so.
func millis(d time.Duration) int64 {
	if d <= 0 {
		return int64(d)
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
