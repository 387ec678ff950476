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
	// CPULimit is in cores and enforced as a quota; 0 is none. CPUWeight, 1 to
	// 10000 where 100 is usual, says who yields on a full machine; 0 is usual.
	CPULimit  float64
	CPUWeight int
	// MemoryLimit is in bytes, PidsLimit in processes and threads; 0 is none.
	MemoryLimit int64
	PidsLimit   int
	// TimeLimit ends the job so long after its start; 0 is none.
	TimeLimit time.Duration
	// Lease ends the job unless it is renewed: see Runner.RenewAll.
	Lease time.Duration
}

// maxArguments limits command and environment together, in bytes. The kernel's
// own limit is not far above and its error names nothing.
const maxArguments = 1 << 20

// forProxy makes the proxy's spec of s.
func (s *JobSpec) forProxy(c *Config, paths layout) (*proxyproto.Spec, error) {
	if err := checkName("job", s.ID); err != nil {
		return nil, err
	}
	workspace := paths.workspace(s.ID)
	variables := map[string]string{"PATH": defaultPath, "HOME": workspace, "TMPDIR": workspace}
	maps.Copy(variables, s.Environment)
	variables[proxyproto.TreeVariable] = paths.job(s.ID)
	variables[DiscoveryVariable] = paths.discovery(s.ID)
	variables[NoticeVariable] = paths.notice(s.ID)
	spec := &proxyproto.Spec{
		Version:            proxyproto.Version,
		JobID:              s.ID,
		Argv:               s.Argv,
		Shell:              s.Shell,
		Workspace:          workspace,
		CPULimit:           s.CPULimit,
		CPUWeight:          s.CPUWeight,
		MemoryLimit:        s.MemoryLimit,
		PidsLimit:          s.PidsLimit,
		TimeLimitMillis:    millis(s.TimeLimit),
		LeaseMillis:        millis(s.Lease),
		SamplePeriodMillis: millis(c.SamplePeriod),
		OutputFolder:       paths.output(s.ID),
		StdoutLimit:        c.Output.Stdout,
		StderrLimit:        c.Output.Stderr,
		Cgroups:            cgroup.Job(c.Cgroups.Node, s.ID),
	}
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
