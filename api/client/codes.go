package client

import "slices"

// Code is a stable code of a refusal, with what it means to a caller.
type Code struct {
	// Name is the code, such as pool_full.
	Name string
	// Meaning is a sentence, and so is Do: what the caller can do.
	Meaning, Do string
	// Again says that the same request may succeed later.
	Again bool
	// Inner says that only replicas and agents get the code; clients may see it in logs and events.
	Inner bool
}

// Codes returns all codes that refusals have, sorted by name.
func Codes() []Code { return slices.Clone(codes) }

// FindCode returns what a code means.
func FindCode(name string) (Code, bool) {
	for _, c := range codes {
		if c.Name == name {
			return c, true
		}
	}
	return Code{}, false
}

const (
	again   = true
	outdone = "Another replica answers; clients in Go try it by themselves."
	byThem  = "Nothing: replicas and agents handle it."
	noRight = "Ask those who may give the right (weir whoami shows yours), or use another pool."
)

// codes are sorted by name.
var codes = []Code{
	{Name: "all_or_none", Meaning: "Another grant for the same gang was refused, so this one was too.", Do: byThem, Inner: true},
	{Name: "allocations_left", Meaning: "The operation cannot end while it has allocations.", Do: byThem, Inner: true},
	{Name: "answer_too_large", Meaning: "The answer would have more bytes than clients read.", Do: "Ask for a part: with a limit, a filter or a range."},
	{Name: "canceled", Meaning: "The caller ended the call.", Do: "Call again if the answer is still wanted.", Again: again},
	{Name: "deadline_exceeded", Meaning: "The call took longer than the caller allowed.", Do: "Call again with more time.", Again: again},
	{Name: "duplicate_alias", Meaning: "An operation in progress has the alias.", Do: "Choose another alias, or wait until that operation has ended."},
	{Name: "duplicate_job", Meaning: "An allocation has the job's id.", Do: byThem, Inner: true},
	{Name: "duplicate_operation", Meaning: "Another operation has the id.", Do: "Start it again: each start gets an id of its own.", Again: again},
	{Name: "events_gone", Meaning: "The events are no longer kept.", Do: "Read from the present state on: watch without an index."},
	{Name: "events_missing", Meaning: "This replica lacks some of the events.", Do: outdone, Again: again},
	{Name: "gang_restarting", Meaning: "Jobs of an earlier incarnation of the gang have not ended.", Do: byThem, Inner: true},
	{Name: "group_in_use", Meaning: "A pool gives rights to the group.", Do: "Take the rights of the group away first: weir pool acl POOL --revoke."},
	{Name: "internal", Meaning: "The replica failed on this request.", Do: "Look for the request in the replica's log, and report it."},
	{Name: "invalid_account", Meaning: "The grant of accounts is invalid.", Do: "Correct what the message names."},
	{Name: "invalid_argument", Meaning: "The request is invalid.", Do: "Correct what the message names."},
	{Name: "invalid_command", Meaning: "The request is invalid, or does not fit the state.", Do: "Correct what the message names."},
	{Name: "invalid_group", Meaning: "The group would have an invalid name or list of users.", Do: "Correct what the message names."},
	{Name: "invalid_node_grant", Meaning: "The grant has an invalid pattern, tag or resource.", Do: "Correct what the message names."},
	{Name: "invalid_operation_state", Meaning: "The operation is in a state that does not allow the request, for example because it has ended.", Do: "Look at its state (weir op get): it may already be as you want it."},
	{Name: "invalid_pool", Meaning: "The pool's options are invalid, or an operation cannot be in this pool.", Do: "Correct what the message names, or use another pool."},
	{Name: "invalid_revocation", Meaning: "The revocation names no certificates, or too many, such as your own.", Do: "Correct what the message names."},
	{Name: "invalid_spec", Meaning: "The specification of the operation is invalid.", Do: "Correct the option that the message names."},
	{Name: "invalid_store", Meaning: "The object store would be invalid.", Do: "Correct what the message names."},
	{Name: "invalid_tree", Meaning: "The options of the pool tree are invalid.", Do: "Correct the option that the message names."},
	{Name: "job_ended", Meaning: "The job has ended already.", Do: "Nothing; weir job get says how it ended."},
	{Name: "members_not_changed", Meaning: "The membership of the cluster was not changed.", Do: "The message says why; weir cluster members shows who is there."},
	{Name: "never_started", Meaning: "The job ended before it had a process, so there is no output.", Do: "weir job get says why it ended."},
	{Name: "newer_version", Meaning: "The request needs a newer version of the cluster.", Do: "Finish the upgrade: weir cluster upgrade status says how far it is."},
	{Name: "no_pending_job", Meaning: "No job of the task is pending.", Do: byThem, Inner: true},
	{Name: "no_ports", Meaning: "The node has fewer free ports than the task's jobs need.", Do: byThem, Inner: true},
	{Name: "no_quorum", Meaning: "The replicas did not agree in time.", Do: "Try again; weir status says whether a majority is up.", Again: again},
	{Name: "no_such_file", Meaning: "The job has no such file, or none that may be read.", Do: "weir job files JOB lists what there is."},
	{Name: "no_such_job", Meaning: "The job was never granted, or is no longer archived.", Do: "Check the id: weir job list OPERATION."},
	{Name: "no_such_session", Meaning: "The command that was run in a job has ended and been forgotten, was not used for a minute, or its agent was restarted.", Do: "Run it again."},
	{Name: "no_vault_key", Meaning: "The replica has no key to seal secrets with.", Do: "An operator gives the replicas one: weir tls vault-key."},
	{Name: "node_draining", Meaning: "The node is being drained and gets no new jobs.", Do: byThem, Inner: true},
	{Name: "node_full", Meaning: "The node has too little of a resource left.", Do: byThem, Inner: true},
	{Name: "node_in_use", Meaning: "The node is online, or has jobs.", Do: "Stop its agent and wait until its jobs have ended."},
	{Name: "node_not_granted", Meaning: "The node claims more than the grants give it.", Do: "An operator allows it (weir node allow), or its agent claims less.", Inner: true},
	{Name: "node_offline", Meaning: "The node is not online.", Do: "Wait until its agent is back: weir node list.", Again: again},
	{Name: "nodes_refused", Meaning: "Registered nodes would be refused.", Do: "Change the grant, or shut the nodes out with --force."},
	{Name: "not_admitted", Meaning: "The operation may not run in the pool tree of the node.", Do: byThem, Inner: true},
	{Name: "not_interruptible", Meaning: "The job's task has neither input nor an interruption_signal.", Do: "Abort the job, or set interruption_signal in the task."},
	{Name: "not_leader", Meaning: "The replica does not lead; nothing was done.", Do: outdone, Again: again},
	{Name: "not_transferred", Meaning: "Leadership stayed where it was.", Do: "The message says why; try again.", Again: again},
	{Name: "nothing_to_retry", Meaning: "No job of the operation can be run again by itself.", Do: "Start the operation again."},
	{Name: "operation_suspended", Meaning: "A suspended operation starts no jobs.", Do: byThem, Inner: true},
	{Name: "outcome_unknown", Meaning: "The request may have been carried out, or may still be.", Do: "Look whether it was; a start with a mutation_id can be repeated as it is.", Again: again},
	{Name: "output_gone", Meaning: "The job's output is no longer kept.", Do: "Keep more with the options of the task, or have the job write files."},
	{Name: "output_not_published", Meaning: "The operation cannot complete before its output is published.", Do: byThem, Inner: true},
	{Name: "overloaded", Meaning: "Too many requests are waiting.", Do: "Try again after the time that the answer names; call less often.", Again: again},
	{Name: "permission_denied", Meaning: "You lack the right to this.", Do: noRight},
	{Name: "pool_exists", Meaning: "A pool of the tree has the name already.", Do: "Change that pool, or choose another name."},
	{Name: "pool_full", Meaning: "A pool has reached its limit of operations that have not ended.", Do: "Wait, use another pool, or have the limit raised with the command in the message.", Again: again},
	{Name: "pool_in_use", Meaning: "The pool has subpools or operations.", Do: "Move or remove them first."},
	{Name: "pool_running_limit", Meaning: "A pool has reached its limit of running operations.", Do: byThem, Inner: true},
	{Name: "resource_exhausted", Meaning: "The request is larger than it may be.", Do: "Send less: the message names the limit."},
	{Name: "revision_mismatch", Meaning: "The pool tree has changed since you read it.", Do: "Read it again, and repeat the change with its new revision."},
	{Name: "secrets_gone", Meaning: "The operation has ended, and its secrets are no longer kept.", Do: "Give them again: --secure-vault."},
	{Name: "stale_digest", Meaning: "The digests lack samples that the state includes.", Do: byThem, Inner: true},
	{Name: "stale_epoch", Meaning: "The proposer does not control the operation, or no longer does.", Do: byThem, Inner: true},
	{Name: "stale_incarnation", Meaning: "The node has begun another life since.", Do: byThem, Inner: true},
	{Name: "stale_profile", Meaning: "The memory profile has changed meanwhile.", Do: byThem, Inner: true},
	{Name: "stale_term", Meaning: "The proposer is not the leader of the latest term.", Do: byThem, Inner: true},
	{Name: "stale_token", Meaning: "The job was granted with another token.", Do: byThem, Inner: true},
	{Name: "stopping", Meaning: "The replica is shutting down.", Do: outdone, Again: again},
	{Name: "store_denied", Meaning: "The operation's pool may not use the object store.", Do: "Use another store or pool, or ask an operator: weir store list shows who may use which."},
	{Name: "store_exists", Meaning: "An object store has the name, or one of the prefixes.", Do: "Remove that store first, or choose another name."},
	{Name: "too_many_bytes", Meaning: "The operations of a user, of a pool or of the cluster, or pools, take as many bytes as they may.", Do: "Wait until some have ended, or shorten descriptions; the message names the limit and what takes most.", Again: again},
	{Name: "too_many_grants", Meaning: "The cluster has reached its limit of grants.", Do: "Remove some, or use groups and patterns."},
	{Name: "too_many_groups", Meaning: "The cluster has reached its limit of groups.", Do: "Remove some."},
	{Name: "too_many_jobs", Meaning: "The operation has more jobs than one may have.", Do: "Use fewer or larger jobs, or several operations."},
	{Name: "too_many_operations", Meaning: "The cluster has reached its limit of operations in progress.", Do: "Wait until some have ended; an operator raises it with weir server --max-operations.", Again: again},
	{Name: "too_many_pools", Meaning: "The pool tree has reached its limit of pools.", Do: "Remove some."},
	{Name: "too_many_sessions", Meaning: "As many commands run in the job, or on its node, as may.", Do: "End one, or wait until one has ended.", Again: again},
	{Name: "too_many_skipped_records", Meaning: "The operation has reached max_skipped_records.", Do: byThem, Inner: true},
	{Name: "tree_exists", Meaning: "A pool tree has the name already.", Do: "Change that tree, or choose another name."},
	{Name: "tree_in_use", Meaning: "The pool tree has operations, or nodes with jobs, or is the default tree.", Do: "End what is in it, or make another tree the default."},
	{Name: "trees_overlap", Meaning: "A node would belong to two pool trees.", Do: "Change the nodes_filter of one of them."},
	{Name: "unauthenticated", Meaning: "It is not known who you are.", Do: "Use a valid certificate of this cluster, or sign in again."},
	{Name: "unavailable", Meaning: "Not possible at the moment.", Do: "Try again; the message says what is missing.", Again: again},
	{Name: "unimplemented", Meaning: "The replica does not know the call, or browsers cannot make it.", Do: "Check the name; an older replica may lack it."},
	{Name: "unknown", Meaning: "The answer was not one of a replica.", Do: "Check that the address is that of a replica and not of something in between."},
	{Name: "unknown_account", Meaning: "There is no such grant of accounts to take away.", Do: "Check the name: weir account list."},
	{Name: "unknown_allocation", Meaning: "The job has ended, was never granted, or is elsewhere.", Do: "Look at it again: weir job get."},
	{Name: "unknown_group", Meaning: "No group has the name.", Do: "Check the name: weir group list."},
	{Name: "unknown_node", Meaning: "No node has the id.", Do: "Check the name: weir node list."},
	{Name: "unknown_node_grant", Meaning: "There is no grant of the pattern.", Do: "Check the pattern: weir node grants."},
	{Name: "unknown_operation", Meaning: "No operation has the id or alias: never submitted, or no longer archived.", Do: "Check the name: weir op list."},
	{Name: "unknown_path", Meaning: "There is no attribute at the path.", Do: "Look at what is above it: weir get PATH."},
	{Name: "unknown_pool", Meaning: "No pool of the tree has the name.", Do: "Check the name and the tree: weir pool list."},
	{Name: "unknown_profile", Meaning: "No memory profile has the key.", Do: "Check the key: weir memory profiles."},
	{Name: "unknown_replica", Meaning: "No replica has the id.", Do: "Check the id: weir cluster members."},
	{Name: "unknown_revocation", Meaning: "There is no such revocation to lift.", Do: "Check it: weir tls revoke --list."},
	{Name: "unknown_store", Meaning: "No object store has the name.", Do: "Check the name: weir store list."},
	{Name: "unknown_task", Meaning: "The operation has no task of the name.", Do: "Check the name: weir op get."},
	{Name: "unknown_tree", Meaning: "No pool tree has the name.", Do: "Check the name: weir tree list."},
	{Name: "upgrade_blocked", Meaning: "A process cannot work with the next version of the cluster, or nobody knows whether it can.", Do: "Do what the message says for each process: see weir cluster upgrade status."},
	{Name: "wrong_cluster", Meaning: "The replica belongs to another cluster.", Do: byThem, Inner: true},
}
