package spec

import (
	"time"

	"weir/scheduling/option"
)

const (
	// MaxJobs bounds the sum of job_count over all tasks.
	MaxJobs = 100_000
	// MaxGang bounds the ranks of a gang: one log entry starts all of its jobs.
	MaxGang = 10_000
	// MaxTaskNameBytes bounds the name of a task.
	MaxTaskNameBytes = 64

	// MaxStringBytes bounds an argument: it is the limit of Linux.
	MaxStringBytes = 128<<10 - 1
	// MaxEnvironmentBytes bounds the environment of a task: the sum of name=value
	// and a zero byte for each variable.
	MaxEnvironmentBytes = 128 << 10

	// ReservedPrefix is the prefix of the variables that Weir itself sets for a job.
	ReservedPrefix = "WEIR_"
)

// The levels of isolation of a job from its node.
const (
	// IsolationNone means only its own control groups.
	IsolationNone = "none"
	// IsolationDefault adds its own mounts, and no way to gain privileges.
	IsolationDefault = "default"
	// IsolationStrict adds its own process namespace, and a read-only root.
	IsolationStrict = "strict"
)

// Job are the options of the jobs of a task, and of a mapper.
type Job struct {
	Command     *command     `option:"command" kind:"list of texts, or a text with shell" required:"write a list, the program and its arguments" max:"10000" unit:"parts" help:"the program and its arguments; with shell one line for /bin/sh -c"`
	Shell       *bool        `option:"shell" proto:"" help:"command is a line for a shell"`
	Environment *environment `option:"environment" kind:"texts by name" max:"1000" unit:"variables, 128 KiB together" help:"variables of its environment, beside those that Weir sets"`

	CPULimit          *float64       `option:"cpu_limit" proto:"cpu_limit_hundredths" min:"0.01" max:"10000" default:"1" unit:"cores" rule:"J.5" help:"cores of a job, rounded to hundredths"`
	MemoryLimit       *int64         `option:"memory_limit" kind:"size" min:"1MiB" max:"64TiB" default:"512MiB" rule:"J.1" help:"what a job never exceeds"`
	GPULimit          *int64         `option:"gpu_limit" min:"0" max:"10000" default:"0" unit:"GPUs" rule:"J.5" help:"GPUs of a job"`
	NetworkLimit      *int64         `option:"network_limit" min:"0" max:"1125899906842624" default:"0" rule:"J.5" help:"network of a job, in the unit of the nodes"`
	DiskLimit         *int64         `option:"disk_limit" kind:"size" min:"1MiB" max:"64TiB" rule:"J.5" help:"what the workspace of a job may take on disk; without it, no limit"`
	PidsLimit         *int64         `option:"pids_limit" min:"1" max:"4194304" unit:"processes" rule:"J.5.2" help:"processes and threads of a job; without it the node's"`
	PortCount         *int64         `option:"port_count" min:"0" max:"100" default:"0" unit:"ports" rule:"J.5" help:"TCP ports of its node that each job gets: WEIR_PORT_0 and on"`
	JobTimeLimit      *time.Duration `option:"job_time_limit" min:"1s" max:"8784h" rule:"J.5" help:"a job that runs longer fails"`
	MaxFailedJobCount *int64         `option:"max_failed_job_count" min:"0" max:"10000" default:"0" unit:"jobs" rule:"J.5" help:"the operation fails with so many failed jobs of the task; 0: only the operation's number counts"`
	Spread            *bool          `option:"spread" rule:"F.14.1" help:"jobs go to different nodes while these have room; without it, with port_count or readiness and no gang_options"`

	Signal   *signal `option:"interruption_signal" kind:"name of a signal" rule:"J.3" help:"the signal that asks a job to stop; without it a job that reads no input is killed at once"`
	RootOnly *bool   `option:"signal_root_process_only" default:"false" rule:"J.3" help:"the signal is for the job's first process alone"`

	ReserveFactor   *float64     `option:"memory_reserve_factor" above:"0" max:"1" rule:"J.1.2" help:"part of memory_limit that is reserved at first, and at least; in place of the next two"`
	DigestDefault   *float64     `option:"user_job_memory_digest_default_value" above:"0" max:"1" rule:"J.1.2" help:"part of memory_limit that is reserved at first; 0.5 without it"`
	DigestLower     *float64     `option:"user_job_memory_digest_lower_bound" above:"0" max:"1" rule:"J.1.2" help:"part of memory_limit that is reserved at least; 0.05 without it"`
	ProxyDigest     *proxyDigest `option:"job_proxy_memory_digest" rule:"J.1.2" help:"the same of what the job's supervisor is expected to take; without it the operation's"`
	UserMultiplier  *float64     `option:"user_job_resource_overdraft_memory_multiplier" min:"1" max:"10" rule:"J.2" help:"by how much the reserve of a job grows that was aborted for it; without it to all of memory_limit"`
	ProxyMultiplier *float64     `option:"job_proxy_resource_overdraft_memory_multiplier" min:"1" max:"10" rule:"J.2" help:"the same for the reserve of its supervisor"`
	MemoryProfile   *profileName `option:"memory_profile" kind:"text" rule:"J.1" help:"operations with it learn from each other; without it tasks of one name, command and isolation do"`

	TmpfsPath *workspacePath `option:"tmpfs_path" kind:"path in the workspace" max:"4095" unit:"bytes" rule:"J.5.2" help:"where a job gets a file system in memory"`
	TmpfsSize *int64         `option:"tmpfs_size" kind:"size" min:"4KiB" max:"64TiB" rule:"J.5.2" help:"how much may be in it; without it, memory_limit"`
	Tmpfs     []*tmpfs       `option:"tmpfs_volumes" proto:"tmpfs" max:"20" unit:"file systems" rule:"J.5.2" help:"several of them, in place of tmpfs_path and tmpfs_size"`
	Files     []*file        `option:"file_paths" proto:"files" short:"source" max:"1000" unit:"files" rule:"J.5.3" help:"files that a job finds in its workspace; a text alone is the source"`

	Isolation      *string  `option:"isolation" values:"none,default,strict" default:"default" rule:"J.5.2" help:"how far a job is kept apart from its node and other jobs"`
	CPUEnforcement *string  `option:"cpu_enforcement" values:"quota,weight" default:"quota" rule:"J.5.2" help:"quota: never more than cpu_limit; weight: more while nobody else wants the cores"`
	User           *account `option:"user" kind:"name or number of a user" rule:"J.5.2" help:"who a job is on its node; without it the node says"`
	Group          *account `option:"group" kind:"name or number of a group" rule:"J.5.2" help:"the group that its processes have on the node"`
}

// Task are the options of a task.
type Task struct {
	JobCount *int64 `option:"job_count" min:"1" max:"100000" unit:"jobs" required:"how many jobs are to run?" rule:"J.5" help:"jobs of the task; all tasks together have at most 100,000"`
	Job
	RestartCompleted *bool      `option:"restart_completed_jobs" default:"false" rule:"J.3.3" help:"a job that completed is started again, for services"`
	MaxAttempts      *int64     `option:"max_attempts" min:"1" max:"1000" unit:"failures" rule:"J.5.4" help:"a job that fails this often is given up, and the others go on; without it each failure counts for max_failed_job_count"`
	Cookies          *cookieSet `option:"cookies" proto:"" kind:"list of numbers and ranges" rule:"J.5.4" help:"which of the task's jobs run, such as [3, 7-9]; without it all"`
	RestartCode      *int64     `option:"restart_exit_code" min:"1" max:"255" rule:"J.3" help:"a job that exits with it after its signal runs again"`
	Outputs          []*kept    `option:"output_paths" proto:"outputs" max:"100" unit:"files" rule:"J.5.3" help:"files that are kept when a job has completed"`
	Readiness        *readiness `option:"readiness" rule:"J.3.2" help:"how an instance of a service is found to take requests; without it, it does when it runs"`
	MaxSurge         *int64     `option:"max_surge" min:"0" max:"1000" unit:"jobs" rule:"J.3.3" help:"so many instances are replaced before they are told to leave; 1 with readiness, else 0"`
	MinAvailable     *int64     `option:"min_available" min:"0" max:"100000" unit:"jobs" rule:"J.3.3" help:"so many others are ready when one is told to leave that need not go at once; none without it"`
	Gang             *gang      `option:"gang_options" proto:"gang" rule:"J.5" help:"its jobs are of use only together"`
}

// Mapper are the options of the one task of an operation of type map.
type Mapper struct {
	Job
	_ option.Elsewhere `option:"job_count" elsewhere:"how many jobs there are follows from the input: write job_count or data_size_per_job beside mapper"`
	_ option.Elsewhere `option:"cookies" elsewhere:"how many jobs there are follows from the input: leave it out"`
	_ option.Elsewhere `option:"max_attempts" elsewhere:"what a job fails on is cut into parts, down to a record, and max_failed_job_count and max_skipped_records say how much may fail: leave it out"`
	_ option.Elsewhere `option:"restart_completed_jobs" elsewhere:"a part of the input is read once: leave it out"`
	_ option.Elsewhere `option:"restart_exit_code" elsewhere:"what an interrupted job has not read goes to another one by itself: let it exit with 0"`
	_ option.Elsewhere `option:"output_paths" elsewhere:"what is kept of a mapper is its standard output, at output_path: write there"`
	_ option.Elsewhere `option:"max_surge" elsewhere:"its jobs read their input once, and none stands in for another: leave it out"`
	_ option.Elsewhere `option:"min_available" elsewhere:"its jobs read their input, and nobody waits for them to be ready: leave it out"`
	_ option.Elsewhere `option:"readiness" elsewhere:"its jobs read their input, nobody sends them requests: leave it out"`
	_ option.Elsewhere `option:"gang_options" elsewhere:"each job of a mapper is of use alone: leave it out"`
}

// proxyDigest are the bounds of the memory that a job's proxy is expected to use. Those that are
// not set are taken from the operation.
type proxyDigest struct {
	Default *float64 `option:"default_value" above:"0" max:"10" help:"times its estimate at first; 1 without it"`
	Lower   *float64 `option:"lower_bound" above:"0" max:"10" help:"times its estimate at least; 0.5 without it"`
	Upper   *float64 `option:"upper_bound" above:"0" max:"10" help:"times its estimate at most; 2 without it"`
}

// tmpfs is a file system in memory.
type tmpfs struct {
	Path *workspacePath `option:"path" kind:"path in the workspace" max:"4095" unit:"bytes" required:"a path within the workspace is needed" help:"where it is"`
	Size *int64         `option:"size" kind:"size" min:"4KiB" max:"64TiB" required:"how much may be in it?" help:"how much may be in it"`
}

// file is a file that is placed in a job's workspace.
type file struct {
	Source     *place         `option:"source" kind:"path or s3:// URL" max:"4095" unit:"bytes" required:"which file is it?" help:"a path that every node sees, or s3://bucket/key"`
	Path       *workspacePath `option:"path" kind:"path in the workspace" max:"4095" unit:"bytes" help:"where it is in the workspace; without it, under its last name"`
	Executable *bool          `option:"executable" default:"false" help:"it can be executed"`
}

// kept is a file of a job that is copied out of its workspace.
type kept struct {
	Path        *workspacePath `option:"path" kind:"path in the workspace" max:"4095" unit:"bytes" required:"a path within the workspace is needed" help:"which file of the workspace it is"`
	Destination *place         `option:"destination" kind:"path or s3:// URL" max:"4095" unit:"bytes" required:"where is it to be kept?" help:"where it is kept; with {operation_id}, {task}, {cookie} and {job_id}"`
}

// readiness says how to check whether an instance accepts requests: by one of the first four.
type readiness struct {
	HTTP     *httpPath      `option:"http" proto:"http_path" kind:"path of a URL" max:"4095" unit:"bytes" help:"a GET of it is answered with 2xx or 3xx"`
	TCP      *bool          `option:"tcp" help:"a connection is taken"`
	Exec     *arguments     `option:"exec" kind:"list of texts" max:"10000" unit:"parts" help:"a program exits with 0"`
	Socket   *bool          `option:"socket" help:"the instance says so itself, at WEIR_DISCOVERY"`
	Port     *int64         `option:"port" min:"0" max:"99" default:"0" help:"which of the job's ports http or tcp asks"`
	Period   *time.Duration `option:"period" min:"100ms" max:"1h" default:"1s" help:"how often an instance is asked"`
	Timeout  *time.Duration `option:"timeout" min:"100ms" max:"1h" default:"1s" help:"how long an answer may take"`
	Failures *int64         `option:"failures" min:"1" max:"1000" default:"3" unit:"answers" help:"so many in a row that fail make it not ready"`
}

// gang are the options of a task whose jobs are useful only together.
type gang struct {
	Size *int64 `option:"size" min:"1" unit:"jobs" help:"how many have a rank, at most 10,000; without it all"`
}
