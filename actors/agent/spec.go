package agent

import (
	"time"

	"weir/actors/agent/filecache"
	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
)

// Files returns the files for the job's workspace, and the user whose rights apply when they
// are read.
func (j *Job) Files(cfg *Config) (files []filecache.File, user, group string) {
	for _, f := range j.spec.GetFiles() {
		files = append(files, filecache.File{Source: f.GetSource(), Path: f.GetPath(), Executable: f.GetExecutable()})
	}
	user, group = j.user(cfg)
	return files, user, group
}

// user returns the user and group of the job's processes: the task's, or else the node's.
func (j *Job) user(cfg *Config) (user, group string) {
	return cfg.runsAs(j.spec.GetUser(), j.spec.GetGroup())
}

// starting returns the journal record of the job's start, in a boot of the machine.
func (j *Job) starting(boot string) *journalpb.Record {
	record := journal.Starting(j.spec, boot)
	record.GetStarting().FetchMillis = j.fetching.Milliseconds()
	for _, number := range j.gpus {
		record.GetStarting().Gpus = append(record.GetStarting().Gpus, int32(number))
	}
	return record
}

// Spec returns the spec for the runner. lease is how much of the node's lease is left.
func (j *Job) Spec(lease time.Duration, cfg *Config) runner.JobSpec {
	pids := cfg.MaxPids
	if own := int(j.spec.GetPidsLimit()); own > 0 {
		pids = min(pids, own)
	}
	environment := withPorts(j.spec.GetEnvironment(), cfg.Host, j.start.GetPorts())
	environment["WEIR_GPUS"] = gpuList(j.gpus)
	spec := runner.JobSpec{
		ID:                 j.start.GetJobId(),
		Argv:               j.spec.GetArgv(),
		Shell:              j.spec.GetShell(),
		Environment:        environment,
		Secrets:            j.spec.GetSecrets(),
		Isolation:          j.spec.GetIsolation(),
		CPULimit:           float64(j.spec.GetCpuLimitHundredths()) / 100,
		CPUEnforcement:     j.spec.GetCpuEnforcement(),
		MemoryLimit:        j.spec.GetMemoryLimit(),
		MemoryReserve:      j.spec.GetMemoryReserve(),
		ProxyMemoryReserve: j.spec.GetJobProxyMemoryReserve(),
		PidsLimit:          pids,
		DiskLimit:          j.spec.GetDiskLimit(),
		Feed:               feedOf(j.spec.GetFeed()),
		TimeLimit:          timeLimit(j.spec),
		Lease:              lease,
	}
	spec.User, spec.Group = j.user(cfg)
	for _, volume := range j.spec.GetTmpfs() {
		spec.Tmpfs = append(spec.Tmpfs, proxyproto.Tmpfs{Path: volume.GetPath(), Size: volume.GetSize()})
	}
	for _, kept := range j.spec.GetOutputs() {
		spec.Outputs = append(spec.Outputs, proxyproto.KeptFile{Path: kept.GetPath(), Destination: kept.GetDestination()})
	}
	return spec
}

func timeLimit(spec *actorpb.JobSpec) time.Duration {
	return time.Duration(spec.GetJobTimeLimitMillis()) * time.Millisecond
}
