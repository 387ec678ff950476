package state

import (
	"google.golang.org/protobuf/proto"

	"weir/messages/bounds"
	"weir/messages/statepb"
)

// minEvents is the minimum of events_per_operation: the first event, the last event, and the one
// that counts the events left out between them.
const minEvents = 3

// The names and the defaults of the limits of what operations take in bytes. The records stay with
// each replica, in memory or on its shelf, and are in its snapshots.
const (
	limitUserBytes = "operation_bytes_per_user"
	limitPoolBytes = "operation_bytes_per_pool"
	limitBytes     = "operation_bytes"

	limitTreeBytes    = "pool_bytes_per_tree"
	limitForestBytes  = "pool_bytes"
	limitProfileBytes = "memory_profile_bytes"

	defaultUserBytes = 256 << 20
	defaultPoolBytes = 512 << 20
	defaultBytes     = 2 << 30
	// A list of a tree's pools fits into an answer; pools usually take less than 1 KiB.
	defaultTreeBytes   = 16 << 20
	defaultForestBytes = 64 << 20
	// A profile usually takes some KiB.
	defaultProfileBytes = 64 << 20
)

// DefaultLimits returns the limits of a cluster whose leader sets none. They are without bounds in
// bytes, which logs of old do not have.
func DefaultLimits() *statepb.Limits {
	return &statepb.Limits{
		// A day of a busy cluster; a record takes some KiB.
		ArchivedOperations: 10000,
		// Enough to see why jobs fail.
		FinishedJobsPerOperation: 200,
		// An operation usually has about 10 events; users cause the rest.
		EventsPerOperation: 200,
		// Operations that have not ended, in all pools together.
		Operations: 5000,
		// J.5: jobs of all tasks together.
		JobsPerOperation: 100000,
		// An update of fair shares looks at every pool; ephemeral ones count.
		PoolsPerTree: 10000,
		// A profile takes some KiB.
		MemoryProfiles: 10000,
	}
}

// maxGrants is the limit of subjects with grants of accounts, and of grants of nodes, that the leader of
// a term sets.
const maxGrants = 1000

// WithGrants returns limits with the rule that accounts of the machines need a grant, as the leader of
// a term sets them.
func WithGrants(l *statepb.Limits) *statepb.Limits {
	granted := &statepb.Limits{ByGrant: maxGrants}
	proto.Merge(granted, l)
	return granted
}

// WithBytes returns limits with the bounds in bytes, as the leader of a term sets them.
func WithBytes(l *statepb.Limits) *statepb.Limits {
	bounded := &statepb.Limits{ByBytes: true, ByProgress: true, PoolBytesPerTree: defaultTreeBytes, PoolBytes: defaultForestBytes, MemoryProfileBytes: defaultProfileBytes}
	proto.Merge(bounded, l)
	return bounded
}

// cutError returns an error as it is kept: cut to limit bytes, unless the log is one of old.
func cutError(l *statepb.Limits, why *statepb.Error, limit int) *statepb.Error {
	if !l.GetByBytes() {
		return why
	}
	return bounds.CutError(why, limit)
}

// cutText returns a text for people, cut as cutError does it.
func cutText(l *statepb.Limits, text string, limit int) string {
	if !l.GetByBytes() {
		return text
	}
	return bounds.Cut(text, limit)
}

// completeLimits replaces each limit that is 0 by its default. Those in bytes of pools and memory
// profiles do not hold while they are 0, as in logs that are older than they are.
func completeLimits(l *statepb.Limits) (*statepb.Limits, *refusal) {
	d := DefaultLimits()
	if d.ByBytes = l.GetByBytes(); d.GetByBytes() {
		d.OperationBytesPerUser, d.OperationBytesPerPool, d.OperationBytes = defaultUserBytes, defaultPoolBytes, defaultBytes
	}
	d.ByProgress = d.GetByBytes() && l.GetByProgress()
	// Without the limit, accounts need no grant, as in logs of old.
	d.ByGrant = l.GetByGrant()
	for _, limit := range []struct {
		name        string
		value       int32
		least       int32
		destination *int32
	}{
		{"archived_operations", l.GetArchivedOperations(), 1, &d.ArchivedOperations},
		{"finished_jobs_per_operation", l.GetFinishedJobsPerOperation(), 1, &d.FinishedJobsPerOperation},
		{"events_per_operation", l.GetEventsPerOperation(), minEvents, &d.EventsPerOperation},
		{"operations", l.GetOperations(), 1, &d.Operations},
		{"jobs_per_operation", l.GetJobsPerOperation(), 1, &d.JobsPerOperation},
		{"pools_per_tree", l.GetPoolsPerTree(), 1, &d.PoolsPerTree},
		{"memory_profiles", l.GetMemoryProfiles(), 1, &d.MemoryProfiles},
		{"by_grant", l.GetByGrant(), 1, &d.ByGrant},
	} {
		switch {
		case limit.value == 0:
		case limit.value < limit.least:
			return nil, refuse(CodeInvalidCommand, "begin term: limit %s is %d: it must be at least %d, or 0 for the default %d",
				limit.name, limit.value, limit.least, *limit.destination)
		default:
			*limit.destination = limit.value
		}
	}
	for _, limit := range []struct {
		name        string
		value       int64
		destination *int64
	}{
		{limitUserBytes, l.GetOperationBytesPerUser(), &d.OperationBytesPerUser},
		{limitPoolBytes, l.GetOperationBytesPerPool(), &d.OperationBytesPerPool},
		{limitBytes, l.GetOperationBytes(), &d.OperationBytes},
		{limitTreeBytes, l.GetPoolBytesPerTree(), &d.PoolBytesPerTree},
		{limitForestBytes, l.GetPoolBytes(), &d.PoolBytes},
		{limitProfileBytes, l.GetMemoryProfileBytes(), &d.MemoryProfileBytes},
	} {
		if limit.value < 0 {
			return nil, refuse(CodeInvalidCommand, "begin term: limit %s is %d: it must be at least 1, or 0 for the default", limit.name, limit.value)
		}
		if limit.value > 0 {
			*limit.destination = limit.value
		}
	}
	return d, nil
}

// checkPools refuses a change after which a tree has more pools, or takes more bytes, than the
// limits. A tree that already has more, because a limit was lowered, can still be edited.
func (c treeChange) checkPools(what string, t *tree, pools int, bytes int64) *refusal {
	if limit := int(c.limits.GetPoolsPerTree()); pools > limit && pools > len(t.record.GetPools()) {
		return refuse(CodeTooManyPools, "%s: tree %q would have %d pools instead of %d, but the limit pools_per_tree is %d: remove some",
			what, t.record.GetName(), pools, len(t.record.GetPools()), limit)
	}
	return c.checkForest(what, t, bytes)
}
