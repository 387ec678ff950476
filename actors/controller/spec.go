package controller

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"weir/cluster/vault"
	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// Spec returns the spec of a granted job. addresses are the addresses of the cluster, for the job.
// It fails when the allocation names a task that the operation does not have.
func Spec(op *statepb.Operation, allocation *statepb.Allocation, addresses []string) (*actorpb.JobSpec, error) {
	task := taskOf(op, allocation)
	if task == nil {
		return nil, fmt.Errorf("spec of job %s: operation %s has no task %q", allocation.GetJobId(), op.GetId(), allocation.GetTask())
	}
	reserve := reserveOf(op, task, allocation)
	return &actorpb.JobSpec{
		JobId:              allocation.GetJobId(),
		OperationId:        op.GetId(),
		Task:               task.GetName(),
		Cookie:             allocation.GetCookie(),
		JobCount:           task.GetJobCount(),
		Argv:               task.GetArgv(),
		Shell:              task.GetShell(),
		Environment:        environment(op, task, allocation, addresses),
		CpuLimitHundredths: task.GetCpuLimitHundredths(),
		MemoryLimit:        task.GetMemoryLimit(),
		GpuLimit:           task.GetGpuLimit(),
		JobTimeLimitMillis: task.GetJobTimeLimit().AsDuration().Milliseconds(),

		InterruptionSignal:    task.GetInterruptionSignal(),
		SignalRootProcessOnly: task.GetSignalRootProcessOnly(),
		RestartExitCode:       task.RestartExitCode,

		MemoryReserve:         reserve.GetUser(),
		JobProxyMemoryReserve: reserve.GetProxy(),

		Tmpfs:          task.GetTmpfs(),
		DiskLimit:      task.GetDiskLimit(),
		Isolation:      task.GetIsolation(),
		CpuEnforcement: task.GetCpuEnforcement(),
		PidsLimit:      task.GetPidsLimit(),
		User:           task.GetUser(),
		Group:          task.GetGroup(),
		Files:          jobFiles(task, allocation),
		Outputs:        keptFiles(task, allocation),
		Readiness:      task.GetReadiness(),
	}, nil
}

// ErrVault is returned if this replica cannot open the secrets of an operation.
var ErrVault = errors.New("secrets not opened")

// Secrets returns the secrets of an operation, by name; nil if it has none. Only the spec of a job
// may contain them.
func Secrets(op *statepb.Operation, v *vault.Vault) (map[string]string, error) {
	sealed := op.GetSpec().GetVault().GetSealed()
	if len(sealed) == 0 {
		return nil, nil
	}
	secrets, err := v.Open(vault.OfOperation(op.GetId()), sealed)
	if err != nil {
		return nil, fmt.Errorf("%w: operation %s: %w", ErrVault, op.GetId(), err)
	}
	return secrets, nil
}

// reserveOf returns how the memory of a job is divided between its processes and its proxy. An
// allocation of an older version has no reserve: it holds the job's limit, without memory for the
// proxy.
func reserveOf(op *statepb.Operation, task *statepb.TaskSpec, allocation *statepb.Allocation) *statepb.JobReserve {
	if allocation.GetReserve() != nil {
		return allocation.GetReserve()
	}
	t := op.GetSpec().MemoryTask(task)
	held := allocation.GetResources().GetMemory()
	reserve := &statepb.JobReserve{User: held, ProxyEstimate: t.ProxyEstimate}
	if t.Limit > 0 {
		reserve.UserFactor = min(1, float64(held)/float64(t.Limit))
	}
	return reserve
}

// jobFiles returns the files of a job's workspace.
func jobFiles(task *statepb.TaskSpec, allocation *statepb.Allocation) (files []*actorpb.JobFile) {
	names := namesOf(task, allocation)
	for _, file := range task.GetFiles() {
		files = append(files, &actorpb.JobFile{Source: names.Replace(file.GetSource()), Path: names.Replace(file.GetPath()), Executable: file.GetExecutable()})
	}
	return files
}

// namesOf replaces the placeholders in the paths of a job's files.
func namesOf(task *statepb.TaskSpec, allocation *statepb.Allocation) *strings.Replacer {
	return task.Places(allocation.GetOperationId(), allocation.GetCookie(), allocation.GetJobId())
}

// keptFiles returns the files of a job's workspace that are kept, each with its own destination.
func keptFiles(task *statepb.TaskSpec, allocation *statepb.Allocation) (kept []*statepb.KeptFile) {
	names := namesOf(task, allocation)
	for _, file := range task.GetOutputs() {
		kept = append(kept, &statepb.KeptFile{Path: file.GetPath(), Destination: names.Replace(file.GetDestination())})
	}
	return kept
}

// environment returns the task's environment and the variables of every job.
func environment(op *statepb.Operation, task *statepb.TaskSpec, allocation *statepb.Allocation, addresses []string) map[string]string {
	env := make(map[string]string, len(task.GetEnvironment())+9)
	maps.Copy(env, task.GetEnvironment())
	maps.Copy(env, map[string]string{
		"WEIR_OPERATION_ID":   op.GetId(),
		"WEIR_JOB_ID":         allocation.GetJobId(),
		"WEIR_JOB_COOKIE":     strconv.Itoa(int(allocation.GetCookie())),
		"WEIR_TASK_NAME":      task.GetName(),
		"WEIR_TASK_JOB_COUNT": strconv.Itoa(int(task.GetJobCount())),
		"WEIR_ADDRESSES":      strings.Join(addresses, ","),
	})
	if gang := task.GetGang(); gang != nil {
		env["WEIR_GANG_SIZE"] = strconv.Itoa(int(gang.GetSize()))
		env["WEIR_OPERATION_INCARNATION"] = strconv.FormatInt(allocation.GetGangIncarnation(), 10)
		// A spare job of the gang has no rank.
		if allocation.GangRank != nil && allocation.GetGangRank() >= 0 {
			env["WEIR_GANG_RANK"] = strconv.Itoa(int(allocation.GetGangRank()))
		}
	}
	return env
}
