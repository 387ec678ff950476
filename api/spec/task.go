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
	// IsolationNone means that the job has only its own control groups.
	IsolationNone = "none"
	// IsolationDefault means that the job also has its own mounts and cannot gain privileges.
	IsolationDefault = "default"
	// IsolationStrict means that the job also has its own process namespace and a read-only root.
	IsolationStrict = "strict"
)

// Job are the options of the jobs of a task, and of a mapper.
type Job struct {
	Command     *command     `option:"command" kind:"list of texts, or a text with shell" required:"write a list, the program and its arguments" max:"10000" unit:"parts" help:"the program and its arguments; with shell: true, one line for /bin/sh -c"`
	Shell       *bool        `option:"shell" proto:"" help:"run command with /bin/sh -c"`
	Environment *environment `option:"environment" kind:"texts by name" max:"1000" unit:"variables, 128 KiB together" help:"environment variables, in addition to those that Weir sets"`

	CPULimit          *float64       `option:"cpu_limit" proto:"cpu_limit_hundredths" min:"0.01" max:"10000" default:"1" unit:"cores" rule:"J.5" help:"cores of a job, rounded to hundredths"`
	MemoryLimit       *int64         `option:"memory_limit" kind:"size" min:"1MiB" max:"64TiB" default:"512MiB" rule:"J.1" help:"upper limit of a job's memory"`
	GPULimit          *int64         `option:"gpu_limit" min:"0" max:"10000" default:"0" unit:"GPUs" rule:"J.5" help:"GPUs of a job"`
	NetworkLimit      *int64         `option:"network_limit" min:"0" max:"1125899906842624" default:"0" rule:"J.5" help:"network capacity of a job, in the unit that the nodes use"`
	DiskLimit         *int64         `option:"disk_limit" kind:"size" min:"1MiB" max:"64TiB" rule:"J.5" help:"disk space that a job's workspace may use; without it, no limit"`
	PidsLimit         *int64         `option:"pids_limit" min:"1" max:"4194304" unit:"processes" rule:"J.5.2" help:"maximum number of processes and threads of a job (default: the node's limit)"`
	PortCount         *int64         `option:"port_count" min:"0" max:"100" default:"0" unit:"ports" rule:"J.5" help:"number of TCP ports of its node that each job gets, in WEIR_PORT_0, WEIR_PORT_1 and so on"`
	JobTimeLimit      *time.Duration `option:"job_time_limit" min:"1s" max:"8784h" rule:"J.5" help:"time limit of a job; a job that runs longer fails"`
	MaxFailedJobCount *int64         `option:"max_failed_job_count" min:"0" max:"10000" default:"0" unit:"jobs" rule:"J.5" help:"number of failed jobs of the task at which the operation fails; 0: only the operation's limit applies"`
	Spread            *bool          `option:"spread" rule:"F.14.1" help:"start jobs on different nodes while these have room (default: true with port_count or readiness and without gang_options)"`

	Signal   *signal `option:"interruption_signal" kind:"name of a signal" rule:"J.3" help:"the signal that asks a job to stop; without one, a job that reads no input is killed at once"`
	RootOnly *bool   `option:"signal_root_process_only" default:"false" rule:"J.3" help:"send the signal only to the job's first process"`

	ReserveFactor   *float64     `option:"memory_reserve_factor" above:"0" max:"1" rule:"J.1.2" help:"part of memory_limit that is reserved at first and is also the minimum; in place of the next two options"`
	DigestDefault   *float64     `option:"user_job_memory_digest_default_value" above:"0" max:"1" rule:"J.1.2" help:"part of memory_limit that is reserved at first (default: 0.5)"`
	DigestLower     *float64     `option:"user_job_memory_digest_lower_bound" above:"0" max:"1" rule:"J.1.2" help:"minimum part of memory_limit that is reserved (default: 0.05)"`
	ProxyDigest     *proxyDigest `option:"job_proxy_memory_digest" rule:"J.1.2" help:"the same for the job proxy, as multiples of its estimated memory (default: the operation's)"`
	UserMultiplier  *float64     `option:"user_job_resource_overdraft_memory_multiplier" min:"1" max:"10" rule:"J.2" help:"factor by which the reserve grows when a job was aborted for exceeding it (default: it grows to memory_limit)"`
	ProxyMultiplier *float64     `option:"job_proxy_resource_overdraft_memory_multiplier" min:"1" max:"10" rule:"J.2" help:"the same for the reserve of the job proxy"`
	MemoryProfile   *profileName `option:"memory_profile" kind:"text" rule:"J.1" help:"name of the memory profile that tasks share; without one, tasks with the same name, command and isolation share a profile"`

	TmpfsPath *workspacePath `option:"tmpfs_path" kind:"path in the workspace" max:"4095" unit:"bytes" rule:"J.5.2" help:"path at which a job gets a file system in memory"`
	TmpfsSize *int64         `option:"tmpfs_size" kind:"size" min:"4KiB" max:"64TiB" rule:"J.5.2" help:"size limit of the tmpfs (default: memory_limit)"`
	Tmpfs     []*tmpfs       `option:"tmpfs_volumes" proto:"tmpfs" max:"20" unit:"file systems" rule:"J.5.2" help:"several tmpfs mounts, instead of tmpfs_path and tmpfs_size"`
	Files     []*file        `option:"file_paths" proto:"files" short:"source" max:"1000" unit:"files" rule:"J.5.3" help:"files that are placed in a job's workspace; a text alone is the source"`

	Isolation      *string  `option:"isolation" values:"none,default,strict" default:"default" rule:"J.5.2" help:"how strictly a job is isolated from its node and from other jobs; none needs a grant (weir account allow --isolation-none)"`
	CPUEnforcement *string  `option:"cpu_enforcement" values:"quota,weight" default:"quota" rule:"J.5.2" help:"quota: never more than cpu_limit; weight: more while cores are idle"`
	User           *account `option:"user" kind:"name or number of a user" rule:"J.5.2" help:"user that a job runs as on its node (default: the node's setting); needs a grant of an operator (weir account allow --as)"`
	Group          *account `option:"group" kind:"name or number of a group" rule:"J.5.2" help:"group that a job runs as on its node; needs a grant of an operator (weir account allow --group)"`
}

// Task are the options of a task.
type Task struct {
	JobCount *int64 `option:"job_count" min:"1" max:"100000" unit:"jobs" required:"write the number of jobs" rule:"J.5" help:"number of jobs; all tasks together have at most 100,000"`
	Job
	RestartCompleted *bool      `option:"restart_completed_jobs" default:"false" rule:"J.3.3" help:"start a job again when it has completed, for services"`
	MaxAttempts      *int64     `option:"max_attempts" min:"1" max:"1000" unit:"failures" rule:"J.5.4" help:"number of failures after which a job is given up while the others continue; without it, each failure counts towards max_failed_job_count"`
	Cookies          *cookieSet `option:"cookies" proto:"" kind:"list of numbers and ranges" rule:"J.5.4" help:"which of the task's jobs run, such as [3, 7-9] (default: all)"`
	RestartCode      *int64     `option:"restart_exit_code" min:"1" max:"255" rule:"J.3" help:"exit code with which an interrupted job asks to run again"`
	Outputs          []*kept    `option:"output_paths" proto:"outputs" max:"100" unit:"files" rule:"J.5.3" help:"files that are kept when a job has completed"`
	Readiness        *readiness `option:"readiness" rule:"J.3.2" help:"how to check whether an instance of a service accepts requests; without it, an instance is ready as soon as it runs"`
	MaxSurge         *int64     `option:"max_surge" min:"0" max:"1000" unit:"jobs" rule:"J.3.3" help:"maximum number of instances that are replaced before they are told to leave (default: 1 with readiness, else 0)"`
	MinAvailable     *int64     `option:"min_available" min:"0" max:"100000" unit:"jobs" rule:"J.3.3" help:"minimum number of other instances that are ready when one is told to leave, unless it has to leave at once (default: 0)"`
	Gang             *gang      `option:"gang_options" proto:"gang" rule:"J.5" help:"its jobs are useful only together"`
}

// Mapper are the options of the one task of an operation of type map.
type Mapper struct {
	Job
	_ option.Elsewhere `option:"job_count" elsewhere:"the number of jobs follows from the input: write job_count or data_size_per_job beside mapper"`
	_ option.Elsewhere `option:"cookies" elsewhere:"the number of jobs follows from the input: leave it out"`
	_ option.Elsewhere `option:"max_attempts" elsewhere:"input on which a job fails is cut into smaller parts, down to one record; max_failed_job_count and max_skipped_records limit how much may fail: leave it out"`
	_ option.Elsewhere `option:"restart_completed_jobs" elsewhere:"each part of the input is read only once: leave it out"`
	_ option.Elsewhere `option:"restart_exit_code" elsewhere:"what an interrupted job has not read goes to another job automatically: let it exit with 0"`
	_ option.Elsewhere `option:"output_paths" elsewhere:"only the standard output of a mapper is kept, at output_path: write to standard output"`
	_ option.Elsewhere `option:"max_surge" elsewhere:"its jobs read their input once, and cannot replace each other: leave it out"`
	_ option.Elsewhere `option:"min_available" elsewhere:"its jobs read their input, and are not checked for readiness: leave it out"`
	_ option.Elsewhere `option:"readiness" elsewhere:"its jobs read their input, and get no requests: leave it out"`
	_ option.Elsewhere `option:"gang_options" elsewhere:"mapper jobs do not depend on each other, so they cannot form a gang: leave it out"`
}

// proxyDigest are the bounds of the memory that a job's proxy is expected to use. Bounds that
// are not set are taken from the operation.
type proxyDigest struct {
	Default *float64 `option:"default_value" above:"0" max:"10" help:"multiple of its estimate that is reserved at first (default: 1)"`
	Lower   *float64 `option:"lower_bound" above:"0" max:"10" help:"minimum multiple of its estimate that is reserved (default: 0.5)"`
	Upper   *float64 `option:"upper_bound" above:"0" max:"10" help:"maximum multiple of its estimate that is reserved (default: 2)"`
}

// tmpfs is a file system in memory.
type tmpfs struct {
	Path *workspacePath `option:"path" kind:"path in the workspace" max:"4095" unit:"bytes" required:"a path within the workspace is needed" help:"path at which it is mounted"`
	Size *int64         `option:"size" kind:"size" min:"4KiB" max:"64TiB" required:"write the size limit" help:"size limit"`
}

// file is a file that is placed in a job's workspace.
type file struct {
	Source     *place         `option:"source" kind:"path or s3:// URL" max:"4095" unit:"bytes" required:"write a path that every node sees, or s3://bucket/key" help:"a path that every node sees, or s3://bucket/key"`
	Path       *workspacePath `option:"path" kind:"path in the workspace" max:"4095" unit:"bytes" help:"path in the workspace (default: the last name in source)"`
	Executable *bool          `option:"executable" default:"false" help:"make the file executable"`
}

// kept is a file of a job that is copied out of its workspace.
type kept struct {
	Path        *workspacePath `option:"path" kind:"path in the workspace" max:"4095" unit:"bytes" required:"a path within the workspace is needed" help:"path of the file in the workspace"`
	Destination *place         `option:"destination" kind:"path or s3:// URL" max:"4095" unit:"bytes" required:"write the path or s3:// URL at which it is kept" help:"where it is kept; may contain {operation_id}, {task}, {cookie} and {job_id}"`
}

// readiness says how to check whether an instance accepts requests. Exactly one of the first four
// options is set.
type readiness struct {
	HTTP     *httpPath      `option:"http" proto:"http_path" kind:"path of a URL" max:"4095" unit:"bytes" help:"ready if a GET of this path is answered with 2xx or 3xx"`
	TCP      *bool          `option:"tcp" help:"ready if a connection is accepted"`
	Exec     *arguments     `option:"exec" kind:"list of texts" max:"10000" unit:"parts" help:"ready if this program exits with 0"`
	Socket   *bool          `option:"socket" help:"the instance reports its own state, through WEIR_DISCOVERY"`
	Port     *int64         `option:"port" min:"0" max:"99" default:"0" help:"index of the job's port that the http or tcp check connects to"`
	Period   *time.Duration `option:"period" min:"100ms" max:"1h" default:"1s" help:"how often an instance is checked"`
	Timeout  *time.Duration `option:"timeout" min:"100ms" max:"1h" default:"1s" help:"how long an answer may take"`
	Failures *int64         `option:"failures" min:"1" max:"1000" default:"3" unit:"answers" help:"number of consecutive failures after which an instance is not ready"`
}

// gang are the options of a task whose jobs are useful only together.
type gang struct {
	Size *int64 `option:"size" min:"1" unit:"jobs" help:"number of jobs with a rank, at most 10,000 (default: all)"`
}
