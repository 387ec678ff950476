package state

import (
	"fmt"

	"weir/messages/bounds"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// startOperation accepts an operation. If the user has already started an operation with the same
// mutation id, it returns that operation, even if that has ended since.
func (c operationChange) startOperation(m *commandpb.StartOperation) *refusal {
	if m.GetMutationId() != "" {
		if o, ok := c.OperationByMutation(scheduling.User(m.GetUser()), m.GetByOperator(), m.GetMutationId()); ok {
			c.answerStart(o, true)
			return nil
		}
	}
	if err := c.checkStart(m); err != nil {
		return err
	}
	places, refused := c.placeAll("start operation", m.GetSpec(), scheduling.User(m.GetUser()))
	if refused != nil {
		return refused
	}
	if refused := c.checkStores("start operation", m.GetSpec(), places); refused != nil {
		return refused
	}
	given := givenBytes(m.GetSpec(), nil)
	if refused := c.checkBytes(places, scheduling.User(m.GetUser()), startBytes(c.limits, m.GetSpec())); refused != nil {
		return refused
	}
	o := c.insert(&version{
		generation: c.generation,
		state:      lifecycle.Starting,
		record: &statepb.Operation{
			Id:            m.GetOperationId(),
			Spec:          m.GetSpec(),
			State:         lifecycle.Starting.String(),
			User:          m.GetUser(),
			MutationId:    m.GetMutationId(),
			Trees:         c.takePlaces(places),
			StartTime:     c.timestamp(),
			AcceptedIndex: c.index,
			RetryOf:       m.GetRetryOf(),
			CountFailures: m.GetCountFailures(),
			ByOperator:    m.GetByOperator(),
			NeedsGrant:    c.by != nil && !c.by.GetOperator() && c.limits.GetByGrant() > 0 && wanted(m.GetSpec()).any(),
		},
		given: given,
	})
	o.measure()
	c.count(o, o.record.GetTrees(), lifecycle.None, lifecycle.Starting)
	c.note(o, "", nil)
	c.answerStart(o.record, false)
	answer := c.result.GetStartOperation()
	answer.Warnings = append(answer.Warnings, createdTexts(places, scheduling.User(m.GetUser()))...)
	c.emit(OperationAccepted{ID: o.id()})
	c.makeRoom(scheduling.User(m.GetUser()))
	return nil
}

// createdTexts says which pools a start has created because it names them, which may be typing mistakes.
func createdTexts(places []place, user scheduling.User) (texts []string) {
	for _, p := range places {
		if p.create != nil && p.create.Name != scheduling.PoolName(user) && p.create.Parent == p.pools.Settings().DefaultParentPool {
			texts = append(texts, fmt.Sprintf("pool %q did not exist: it is created for user %q, below %q, and removed with its last operation", p.create.Name, user, p.create.Parent))
		}
	}
	return texts
}

func (c operationChange) answerStart(op *statepb.Operation, repeated bool) {
	c.result.Value = &commandpb.Result_StartOperation{
		StartOperation: &commandpb.StartOperationResult{OperationId: op.GetId(), Repeated: repeated, Warnings: c.Bounded(op)},
	}
}

// checkStart refuses an operation that is invalid, exists already, or exceeds a limit.
func (c operationChange) checkStart(m *commandpb.StartOperation) *refusal {
	const what = "start operation"
	if m.GetOperationId() == "" {
		return refuse(CodeInvalidCommand, "%s: it has no id", what)
	}
	if _, ok := c.operations[scheduling.OperationID(m.GetOperationId())]; ok {
		return refuse(CodeDuplicateOperation, "%s %q: another operation has this id: choose a new one", what, m.GetOperationId())
	}
	spec := m.GetSpec()
	if err := c.checkSpec(what, spec); err != nil {
		return err
	}
	if alias := spec.GetAlias(); alias != "" {
		if holder, ok := c.OperationByAlias(alias); ok && c.operations[scheduling.OperationID(holder.GetId())].state.InProgress() {
			return refuse(CodeDuplicateAlias, "%s: alias %q: in use by operation %s, which is %s: wait for it, abort it or choose another alias",
				what, alias, holder.GetId(), holder.GetState())
		}
	}
	if refused := RightsIn(c.State).checkGroups(what+": acl", operationRights(spec.GetAcl()).Groups()); refused != nil {
		return refused
	}
	if limit := int(c.limits.GetOperations()); len(c.inProgress) >= limit {
		return refuse(CodeTooManyOperations, "%s: the cluster already has %d operations in progress, the maximum (limit operations): "+
			"wait for some to end", what, limit)
	}
	return nil
}

// checkSpec refuses a specification that would break invariants of the state. Users'
// input is checked earlier, with more helpful messages.
func (c operationChange) checkSpec(what string, spec *statepb.OperationSpec) *refusal {
	var b breach
	alias := spec.GetAlias()
	b.when(spec.GetType() == "", "type is empty: use vanilla")
	b.when(len(spec.GetTasks()) == 0, "no tasks: an operation needs at least one")
	b.when(alias != "" && alias[0] != '*', "alias %q: it must start with *", alias)
	b.when(spec.GetMaxFailedJobCount() < 0, "max_failed_job_count %d is negative", spec.GetMaxFailedJobCount())
	b.when(spec.GetType() == lifecycle.Map && (len(spec.GetTasks()) != 1 || spec.GetMap() == nil),
		"an operation of type %s must have exactly one task, the mapper, and an input: it has %d tasks", lifecycle.Map, len(spec.GetTasks()))
	b.when(spec.GetMap().GetMaxSkippedRecords() < 0, "max_skipped_records %d is negative", spec.GetMap().GetMaxSkippedRecords())
	b.add(checkVault(spec.GetVault()))
	names := make(map[string]bool, len(spec.GetTasks()))
	var jobs int64
	for _, t := range spec.GetTasks() {
		b.when(t.GetName() == "", "tasks: a name is empty")
		b.when(names[t.GetName()], "tasks: name %q is used twice", t.GetName())
		err := checkTaskSpec(spec, t)
		b.when(err != nil, "tasks: %q: %w", t.GetName(), err)
		names[t.GetName()] = true
		jobs += int64(t.GetJobCount())
	}
	if b.err != nil {
		return refuse(CodeInvalidSpec, "%s: %v", what, b.err)
	}
	return c.checkJobs(what, jobs)
}

// checkTaskSpec returns what is wrong with a task, or nil.
func checkTaskSpec(spec *statepb.OperationSpec, t *statepb.TaskSpec) error {
	var b breach
	reads, again, size := spec.GetType() == lifecycle.Map, t.GetRestartCompletedJobs(), t.GetGang().GetSize()
	b.when(t.GetJobCount() < 1 && !reads, "job_count is %d, it must be at least 1", t.GetJobCount())
	b.when(t.GetMaxFailedJobCount() < 0, "max_failed_job_count %d is negative", t.GetMaxFailedJobCount())
	b.when(t.GetPortCount() < 0 || t.GetPortCount() > maxPort, "port_count %d: it must be from 0 to %d", t.GetPortCount(), maxPort)
	b.add(checkReadiness(t))
	b.add(checkSweep(spec, t))
	b.when(t.GetMaxSurge() < 0 || t.GetMinAvailable() < 0, "max_surge %d, min_available %d: neither can be negative", t.GetMaxSurge(), t.GetMinAvailable())
	b.when(t.GetMaxSurge() > 0 && (!again || t.GetInterruptionSignal() == ""),
		"max_surge needs restart_completed_jobs and interruption_signal: without them jobs are not replaced")
	b.when(reads && again, "restart_completed_jobs is not allowed in an operation of type %s: its jobs are done when their input is read", lifecycle.Map)
	b.when(size < 0 || size > t.GetJobCount(), "gang_options: size %d: it must be from 1 to job_count, %d", size, t.GetJobCount())
	b.when(t.GetGang() != nil && (reads || again),
		"gang_options are not allowed with restart_completed_jobs or in an operation of type %s: the jobs of a gang start and complete together", lifecycle.Map)
	return b.err
}

// maxSealedBytes bounds sealed secrets: they are JSON, in which a byte may take six.
const maxSealedBytes = 6*bounds.Secrets + 4<<10

// checkVault returns what is wrong with sealed secrets, or nil.
func checkVault(v *statepb.Vault) error {
	var b breach
	names, sealed := v.GetNames(), len(v.GetSealed())
	b.when(v != nil && (len(names) == 0 || len(names) > bounds.MaxSecrets), "secure_vault: %d secrets, it must have 1 to %d", len(names), bounds.MaxSecrets)
	b.when(v != nil && (sealed == 0 || sealed > maxSealedBytes), "secure_vault: %d sealed bytes, it must have 1 to %d", sealed, maxSealedBytes)
	for i, name := range names {
		b.when(name == "" || len(name) > bounds.SecretName || i > 0 && names[i-1] >= name, "secure_vault: name %.40q is empty, too long or out of order", name)
	}
	return b.err
}

// withoutSecrets returns the spec of an operation that has ended: the names of its secrets remain.
func withoutSecrets(spec *statepb.OperationSpec) *statepb.OperationSpec {
	if len(spec.GetVault().GetSealed()) == 0 {
		return spec
	}
	spec = shallow(spec)
	spec.Vault = &statepb.Vault{Names: spec.GetVault().GetNames()}
	return spec
}

// checkReadiness returns what is wrong with a task's readiness check, or nil.
func checkReadiness(t *statepb.TaskSpec) error {
	r := t.GetReadiness()
	if r == nil {
		return nil
	}
	var b breach
	asksPort := r.GetHttpPath() != "" || r.GetTcp()
	b.when(asksPort && (r.GetPort() < 0 || r.GetPort() >= t.GetPortCount()), "readiness: port %d: the task has %d ports", r.GetPort(), t.GetPortCount())
	b.when(!asksPort && len(r.GetExec()) == 0 && !r.GetSocket(), "readiness: one of http, tcp, exec and socket is required")
	b.when(!r.GetSocket() && (r.GetPeriod().AsDuration() <= 0 || r.GetTimeout().AsDuration() <= 0 || r.GetFailures() < 1),
		"readiness: period, timeout and failures must be more than 0")
	return b.err
}

// checkJobs refuses more jobs than the limit of an operation.
func (c operationChange) checkJobs(what string, jobs int64) *refusal {
	if limit := int64(c.limits.GetJobsPerOperation()); jobs > limit {
		return refuse(CodeTooManyJobs, "%s: it has %d jobs, at most %d are allowed (limit jobs_per_operation): split it", what, jobs, limit)
	}
	return nil
}
