package proxyproto

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxMillis limits every duration, in milliseconds: ten years, far below what a
// time.Duration can hold.
const MaxMillis = 10 * 365 * 24 * 3600 * 1000

// DefaultEndTimeout is the default of EndTimeoutMillis. It is longer than the retries of requests
// to an object store that does not answer.
const DefaultEndTimeout = 5 * time.Minute

// Spec describes a job to its proxy. The agent has filled in the defaults that users see.
type Spec struct {
	Version int    `json:"version"`
	JobID   string `json:"job_id"`

	// Argv is the program and its arguments; Shell is a command for
	// /bin/sh -c. Exactly one is set.
	Argv  []string `json:"argv,omitempty"`
	Shell string   `json:"shell,omitempty"`
	// Environment is the whole environment, as NAME=value.
	Environment []string `json:"environment"`
	// HasSecrets: the proxy reads Secrets from SecretsDescriptor.
	HasSecrets bool `json:"has_secrets,omitempty"`
	// Secrets are variables of the command alone, as NAME=value. They are never part of the JSON.
	Secrets []string `json:"-"`
	// Workspace is the working directory.
	Workspace string `json:"workspace"`

	// Isolation is one of Isolations; empty: none.
	Isolation string `json:"isolation,omitempty"`
	// Separate: the job has the isolation default, and namespaces of its own: see IsolationDefault.
	Separate bool `json:"separate,omitempty"`
	// User is the user the job's processes run as; nil: the proxy's own.
	User *User `json:"user,omitempty"`
	// AgentMounts names the agent's mount namespace if the proxy is started in another one; empty
	// if it is not, in which case the proxy mounts nothing.
	AgentMounts string `json:"agent_mounts,omitempty"`
	// Hidden is a folder that a separate job does not see, except for Visible.
	Hidden string `json:"hidden,omitempty"`
	// Visible are folders that such a job sees even within Hidden, unchanged.
	Visible []string `json:"visible,omitempty"`

	// CPULimit is in cores, 0: none. CPUEnforcement says how it is enforced; empty: quota.
	// CPUWeight is the job's share of a full machine, 1 to 10000, usually 100; 0: derived
	// from CPULimit if that is enforced by weight, otherwise 100.
	CPULimit       float64 `json:"cpu_limit,omitempty"`
	CPUEnforcement string  `json:"cpu_enforcement,omitempty"`
	CPUWeight      int     `json:"cpu_weight,omitempty"`
	// MemoryLimit is in bytes. PidsLimit is in processes and threads. 0: no limit.
	MemoryLimit int64 `json:"memory_limit,omitempty"`
	PidsLimit   int   `json:"pids_limit,omitempty"`
	// MemoryReserve is the memory reserved for the job's processes, and ProxyMemoryReserve is that
	// for the proxy, in bytes. 0: not known.
	MemoryReserve      int64 `json:"memory_reserve,omitempty"`
	ProxyMemoryReserve int64 `json:"proxy_memory_reserve,omitempty"`
	// Tmpfs are mounted for the job, and count as its memory.
	Tmpfs []Tmpfs `json:"tmpfs,omitempty"`
	// DiskLimit is how much disk the workspace may use, in bytes. 0: no limit.
	DiskLimit int64 `json:"disk_limit,omitempty"`
	// TimeLimitMillis is how long the job may run. 0: no limit.
	TimeLimitMillis int64 `json:"time_limit_millis,omitempty"`
	// LeaseMillis is how long the job may run without a Renew.
	LeaseMillis int64 `json:"lease_millis"`
	// LeaseEndMillis is the latest end of that lease, as EndMillis of a Renew. 0: not said.
	LeaseEndMillis int64 `json:"lease_end_millis,omitempty"`
	// EndTimeoutMillis is how long the end of the job may make no progress while its processes
	// are killed and its outputs are stored. 0: DefaultEndTimeout.
	EndTimeoutMillis int64 `json:"end_timeout_millis,omitempty"`
	// SamplePeriodMillis is the time between two samples.
	SamplePeriodMillis int64 `json:"sample_period_millis"`

	// OutputFolder is where standard output and error are kept, up to these limits in bytes.
	OutputFolder string `json:"output_folder"`
	StdoutLimit  int64  `json:"stdout_limit"`
	StderrLimit  int64  `json:"stderr_limit"`

	// Feed is the job's standard input; nil: none.
	Feed *Feed `json:"feed,omitempty"`
	// Outputs are stored when the job has completed.
	Outputs []KeptFile `json:"outputs,omitempty"`

	Cgroups Placement `json:"cgroups"`
}

// Placement names the cgroup directories of one job, or of all jobs of a node.
// The zero Placement: there are no cgroups to use.
type Placement struct {
	// Unified is in the v2 hierarchy. If the others are empty, the controllers
	// are in that hierarchy too.
	Unified string `json:"unified,omitempty"`
	// Memory, CPU and Pids are in v1 hierarchies. All are set, or none.
	Memory string `json:"memory,omitempty"`
	CPU    string `json:"cpu,omitempty"`
	Pids   string `json:"pids,omitempty"`
}

// Validate returns what is wrong with s, nil if nothing is. It checks what users can
// influence; the agent sets the rest.
func (s *Spec) Validate() error {
	switch {
	case s.Version != Version:
		return fmt.Errorf("version: %d, but this proxy speaks %d", s.Version, Version)
	case len(s.Argv) == 0 && s.Shell == "":
		return errors.New("argv and shell are both empty")
	case len(s.Argv) > 0 && s.Shell != "":
		return errors.New("shell: set together with argv; set one of them")
	case len(s.Argv) > 0 && s.Argv[0] == "":
		return errors.New("argv: the program's name is empty")
	case !(s.CPULimit >= 0) || s.CPULimit > 1e6:
		return fmt.Errorf("cpu_limit: %g cores, must be between 0 (none) and 1e6", s.CPULimit)
	case min(s.MemoryLimit, int64(s.PidsLimit), s.DiskLimit, s.MemoryReserve, s.ProxyMemoryReserve, s.StdoutLimit, s.StderrLimit) < 0:
		return errors.New("memory_limit, pids_limit, disk_limit, memory_reserve, proxy_memory_reserve, stdout_limit, stderr_limit: one is negative")
	}
	if err := cmp.Or(
		Between("lease_millis", s.LeaseMillis, 1, MaxMillis),
		Between("lease_end_millis", s.LeaseEndMillis, 0, 2*MaxMillis),
		Between("sample_period_millis", s.SamplePeriodMillis, 1, MaxMillis),
		Between("end_timeout_millis", s.EndTimeoutMillis, 0, MaxMillis),
		Between("time_limit_millis", s.TimeLimitMillis, 0, MaxMillis),
		Between("cpu_weight", int64(s.CPUWeight), 0, 10000),
	); err != nil {
		return err
	}
	for _, text := range slices.Concat([]string{s.Shell}, s.Argv, s.Environment) {
		if strings.ContainsRune(text, 0) {
			return fmt.Errorf("argv, shell, environment: %.40q contains a NUL byte", text)
		}
	}
	for _, variable := range s.Environment {
		if strings.IndexByte(variable, '=') <= 0 {
			return fmt.Errorf("environment: %.40q is not NAME=value", variable)
		}
	}
	return errors.Join(s.validateConfinement(), s.validateOutputs())
}

// Between returns an error that begins with name if `number` is outside the range [least, most].
func Between(name string, number, least, most int64) error {
	if number < least || number > most {
		return fmt.Errorf("%s: %d, must be between %d and %d", name, number, least, most)
	}
	return nil
}

// None reports whether there are no cgroups to use.
func (p Placement) None() bool { return p.Unified == "" }

// Hybrid reports whether limits are set in v1 hierarchies.
func (p Placement) Hybrid() bool { return p.Memory != "" }

// ParseSpec reads and validates a Spec; an unknown field is an error.
func ParseSpec(data []byte) (*Spec, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	spec := new(Spec)
	if err := decoder.Decode(spec); err != nil {
		return nil, fmt.Errorf("parse job spec: %w", err)
	}
	if decoder.More() {
		return nil, errors.New("parse job spec: trailing data")
	}
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("validate job spec: %w", err)
	}
	return spec, nil
}

func millis(number int64) time.Duration { return time.Duration(number) * time.Millisecond }

// Lease is LeaseMillis as a duration.
func (s *Spec) Lease() time.Duration { return millis(s.LeaseMillis) }

// TimeLimit is TimeLimitMillis as a duration.
func (s *Spec) TimeLimit() time.Duration { return millis(s.TimeLimitMillis) }

// EndTimeout is EndTimeoutMillis as a duration.
func (s *Spec) EndTimeout() time.Duration {
	return cmp.Or(millis(s.EndTimeoutMillis), DefaultEndTimeout)
}

// SamplePeriod is SamplePeriodMillis as a duration.
func (s *Spec) SamplePeriod() time.Duration { return millis(s.SamplePeriodMillis) }
