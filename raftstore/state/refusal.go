package state

import (
	"errors"
	"fmt"

	"weir/messages/commandpb"
	"weir/scheduling/pooltree"
)

// The codes of refusals. They are part of the API: never change or reuse one.
const (
	// CodeInvalidCommand: the command is malformed; its proposer has a bug.
	CodeInvalidCommand = "invalid_command"
	// CodeStaleTerm: the proposer is not the leader of the latest term.
	CodeStaleTerm = "stale_term"
	// CodeStaleEpoch: the proposer does not control the operation, or no longer does.
	CodeStaleEpoch = "stale_epoch"
	// CodeWrongCluster: the replica belongs to another cluster.
	CodeWrongCluster = "wrong_cluster"
	// CodeNewerVersion: the command, or a part of it, is newer than the version of the cluster.
	CodeNewerVersion = "newer_version"

	// CodeDenied: the subject lacks the right to the command.
	CodeDenied = "permission_denied"
	// CodeInvalidGroup: the group would have an invalid name, or an invalid list of users.
	CodeInvalidGroup = "invalid_group"
	// CodeUnknownGroup: no group has the name.
	CodeUnknownGroup = "unknown_group"
	// CodeGroupInUse: a pool gives rights to the group.
	CodeGroupInUse = "group_in_use"
	// CodeTooManyGroups: the cluster has reached the limit of groups.
	CodeTooManyGroups = "too_many_groups"

	// CodeInvalidAccount: the grant of accounts is invalid.
	CodeInvalidAccount = "invalid_account"
	// CodeUnknownAccount: the subject has no such grant to take away.
	CodeUnknownAccount = "unknown_account"
	// CodeTooManyGrants: the cluster has reached the limit of grants.
	CodeTooManyGrants = "too_many_grants"

	// CodeInvalidNodeGrant: the grant has an invalid pattern, tag or resource.
	CodeInvalidNodeGrant = "invalid_node_grant"
	// CodeUnknownNodeGrant: there is no grant of the pattern.
	CodeUnknownNodeGrant = "unknown_node_grant"
	// CodeNodesRefused: registered nodes would be refused.
	CodeNodesRefused = "nodes_refused"
	// CodeNodeNotGranted: the node claims more than grants give it.
	CodeNodeNotGranted = "node_not_granted"

	// CodeInvalidRevocation: the revocation names no certificates, or too much.
	CodeInvalidRevocation = "invalid_revocation"
	// CodeUnknownRevocation: there is no such revocation to lift.
	CodeUnknownRevocation = "unknown_revocation"

	// CodeInvalidStore: the object store would be invalid.
	CodeInvalidStore = "invalid_store"
	// CodeUnknownStore: no object store has the name.
	CodeUnknownStore = "unknown_store"
	// CodeStoreExists: an object store has the name, or one of the prefixes.
	CodeStoreExists = "store_exists"
	// CodeStoreDenied: the operation's pool may not use the object store.
	CodeStoreDenied = "store_denied"

	// CodeInvalidSpec: the operation's specification is invalid.
	CodeInvalidSpec = "invalid_spec"
	// CodeUnknownOperation: no operation in the state has the id.
	CodeUnknownOperation = "unknown_operation"
	// CodeDuplicateOperation: another operation has the id.
	CodeDuplicateOperation = "duplicate_operation"
	// CodeDuplicateAlias: an operation in progress has the alias.
	CodeDuplicateAlias = "duplicate_alias"
	// CodeInvalidOperationState: the operation is in a state that does not allow the request.
	CodeInvalidOperationState = "invalid_operation_state"
	// CodeAllocationsLeft: the operation cannot end while it has allocations.
	CodeAllocationsLeft = "allocations_left"
	// CodeTooManyOperations: the cluster has reached the limit of operations in progress.
	CodeTooManyOperations = "too_many_operations"
	// CodeTooManyBytes: the operations of a user, of a pool or of the cluster take as many bytes as
	// they may.
	CodeTooManyBytes = "too_many_bytes"
	// CodeTooManyJobs: the operation exceeds the limit of jobs.
	CodeTooManyJobs = "too_many_jobs"

	// CodeUnknownTree: no pool tree has the name.
	CodeUnknownTree = "unknown_tree"
	// CodeInvalidTree: the pool tree's options are invalid.
	CodeInvalidTree = "invalid_tree"
	// CodeTreeExists: a pool tree has the name already.
	CodeTreeExists = "tree_exists"
	// CodeTreeInUse: the pool tree has operations or nodes with jobs, or it is the
	// default tree.
	CodeTreeInUse = "tree_in_use"
	// CodeTreesOverlap: a node would belong to two pool trees.
	CodeTreesOverlap = "trees_overlap"
	// CodeNotAdmitted: the operation may not run in the pool tree of the node, or the grant or
	// preemption was planned by another tree.
	CodeNotAdmitted = "not_admitted"
	// CodeUnknownPool: no pool of the tree has the name.
	CodeUnknownPool = "unknown_pool"
	// CodePoolExists: a pool of the tree has the name already.
	CodePoolExists = "pool_exists"
	// CodePoolInUse: the pool has child pools or operations.
	CodePoolInUse = "pool_in_use"
	// CodeInvalidPool: the pool's settings are invalid.
	CodeInvalidPool = "invalid_pool"
	// CodePoolFull: a pool has reached its limit of operations.
	CodePoolFull = "pool_full"
	// CodeTooManyPools: the pool tree has reached its limit of pools.
	CodeTooManyPools = "too_many_pools"
	// CodePoolRunningLimit: a pool has reached its limit of running operations.
	CodePoolRunningLimit = "pool_running_limit"
	// CodeRevisionMismatch: the pool tree has changed meanwhile.
	CodeRevisionMismatch = "revision_mismatch"

	// CodeUnknownNode: no node has the id.
	CodeUnknownNode = "unknown_node"
	// CodeNodeOffline: the node is not online.
	CodeNodeOffline = "node_offline"
	// CodeNodeInUse: the node is online, or has jobs.
	CodeNodeInUse = "node_in_use"
	// CodeNodeDraining: the node is being drained and gets no new jobs.
	CodeNodeDraining = "node_draining"
	// CodeStaleIncarnation: the node's current incarnation is not the one in the command.
	CodeStaleIncarnation = "stale_incarnation"
	// CodeNodeFull: the node has too little of a resource left.
	CodeNodeFull = "node_full"
	// CodeNoPorts: the node has fewer free ports than the task's jobs need.
	CodeNoPorts = "no_ports"

	// CodeUnknownTask: the operation has no task of the name.
	CodeUnknownTask = "unknown_task"
	// CodeNoPendingJob: no job of the task is pending.
	CodeNoPendingJob = "no_pending_job"
	// CodeOperationSuspended: a suspended operation starts no jobs.
	CodeOperationSuspended = "operation_suspended"
	// CodeDuplicateJob: an allocation has the job id.
	CodeDuplicateJob = "duplicate_job"
	// CodeUnknownAllocation: the job has ended, was never granted, or is not where the command
	// says.
	CodeUnknownAllocation = "unknown_allocation"
	// CodeGangRestarting: jobs of an earlier incarnation of the gang have not ended.
	CodeGangRestarting = "gang_restarting"
	// CodeAllOrNone: another grant of the same gang was refused, so this one is refused too.
	CodeAllOrNone = "all_or_none"
	// CodeTooManySkipped: the operation has reached its limit of skipped records.
	CodeTooManySkipped = "too_many_skipped_records"
	// CodeOutputNotPublished: the operation cannot complete before its output is published.
	CodeOutputNotPublished = "output_not_published"

	// CodeStaleDigest: the digests lack samples that the digests in the state include.
	CodeStaleDigest = "stale_digest"
	// CodeStaleProfile: the memory profile has changed meanwhile.
	CodeStaleProfile = "stale_profile"
	// CodeUnknownProfile: no memory profile has the key.
	CodeUnknownProfile = "unknown_profile"
	// CodeStaleToken: the job was granted with a token other than the one in the command.
	CodeStaleToken = "stale_token"
)

// refusal is the error of a command, or of a part of one, that is refused.
type refusal struct {
	code    string
	message string
}

// Error implements error.
func (r *refusal) Error() string { return r.message }

// refuse returns the refusal of a command, with a code and a message.
func refuse(code, format string, args ...any) *refusal {
	return &refusal{code: code, message: fmt.Sprintf(format, args...)}
}

// record returns the refusal as part of a result.
func (r *refusal) record() *commandpb.Refusal {
	return &commandpb.Refusal{Code: r.code, Message: r.message}
}

// refusePool adds the code to an error of an edit of pools.
func refusePool(err error) *refusal {
	code := CodeInvalidPool
	switch {
	case errors.Is(err, pooltree.ErrUnknownPool):
		code = CodeUnknownPool
	case errors.Is(err, pooltree.ErrPoolExists):
		code = CodePoolExists
	case errors.Is(err, pooltree.ErrPoolInUse):
		code = CodePoolInUse
	}
	return &refusal{code: code, message: err.Error()}
}
