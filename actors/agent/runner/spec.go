package runner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proxyproto"
)

// defaultPath is the PATH of a job whose environment has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// SecretPrefix begins the names of variables that hold secrets.
const SecretPrefix = "WEIR_SECURE_VAULT_"

// JobSpec is a job to run.
type JobSpec struct {
	// ID names the job. It is never reused on this node.
	ID string
	// Argv is the program and its arguments; Shell is a command for
	// /bin/sh -c. Exactly one is set.
	Argv  []string
	Shell string
	// Environment is the job's whole environment, except that PATH, HOME and
	// TMPDIR are filled in when missing; the last two name the workspace.
	// Nothing is taken from the agent's environment. DiscoveryVariable,
	// NoticeVariable and proxyproto.TreeVariable are added.
	Environment map[string]string
	// Secrets are given to the job's command as further variables, SecretPrefix before each name.
	// They are not written to disk.
	Secrets map[string]string
	// Furnish puts the job's files into the workspace; nil: there are none. It is called
	// once, before any process of the job runs. Its error fails Start.
	Furnish func(workspace string) error
	// Isolation is one of proxyproto.Isolations; empty: default.
	Isolation string
	// User and Group are those that the job's processes run as, by name or number; empty: see
	// Users.
	User, Group string
	// CPULimit is in cores; 0 is none. CPUEnforcement is proxyproto.EnforceQuota or
	// EnforceWeight; empty: quota. CPUWeight is the job's share of a full machine, 1 to 10000,
	// usually 100; 0: derived from CPULimit if that is enforced by weight, otherwise 100.
	CPULimit       float64
	CPUEnforcement string
	CPUWeight      int
	// MemoryLimit is in bytes; 0 is no limit. PidsLimit is in processes and threads; 0, or more than a
	// job may have on this machine: see partOfAJob.
	MemoryLimit int64
	PidsLimit   int
	// MemoryReserve is the memory reserved for the job's processes, and ProxyMemoryReserve is that
	// for its proxy, in bytes; 0: not known.
	MemoryReserve, ProxyMemoryReserve int64
	// Tmpfs are mounted in the workspace while the job lives, and count as its memory.
	Tmpfs []proxyproto.Tmpfs
	// DiskLimit is how much disk the workspace may use, in bytes; 0 is no limit.
	DiskLimit int64
	// Feed is the job's standard input; nil: none. Outputs are stored when the job has
	// completed.
	Feed    *proxyproto.Feed
	Outputs []proxyproto.KeptFile
	// TimeLimit is how long the job may run; 0 is no limit.
	TimeLimit time.Duration
	// Lease is how long the job may run without a renewal: see Runner.RenewAll.
	Lease time.Duration
	// LeaseEnd is the latest end of the lease, as the time since the boot of the machine; 0: the
	// lease begins with the job.
	LeaseEnd time.Duration
}

// maxArguments limits command and environment together, in bytes. The kernel's
// own limit is a little higher, and its error does not say what is too long.
const maxArguments = 1 << 20

// forProxy makes the proxy's spec from s, for a user; nil: the agent's own.
func (r *Runner) forProxy(s *JobSpec, user *proxyproto.User) (*proxyproto.Spec, error) {
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
		PidsLimit:          min(cmp.Or(s.PidsLimit, r.mostPids), r.mostPids),
		MemoryReserve:      s.MemoryReserve,
		ProxyMemoryReserve: s.ProxyMemoryReserve,
		DiskLimit:          s.DiskLimit,
		TimeLimitMillis:    millis(s.TimeLimit),
		LeaseMillis:        millis(s.Lease),
		LeaseEndMillis:     millis(s.LeaseEnd),
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
	if err := r.confine(spec, s, user); err != nil {
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
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		spec.Secrets = append(spec.Secrets, SecretPrefix+name+"="+s.Secrets[name])
		size += len(SecretPrefix) + len(name) + len(s.Secrets[name])
	}
	spec.HasSecrets = len(spec.Secrets) > 0
	if size > maxArguments {
		return nil, fmt.Errorf("command and environment: %d bytes, must be at most %d", size, maxArguments)
	}
	return spec, spec.Validate()
}

// millis rounds up, so that a positive duration does not become 0.
func millis(d time.Duration) int64 {
	if d <= 0 {
		return int64(d)
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
