package devcluster

// Bytes is what a replica takes at most, in bytes.
type Bytes struct{ Snapshot, Folder, Memory int64 }

// BytesOf returns what a replica takes at most if its operations take the bytes of a quota, and its
// logs of events and audit these; pools and memory profiles are small. It is the table "What a
// replica takes at most" of docs/running.md, for benchmarks and tests.
func BytesOf(quota, events, audit int64) Bytes {
	const (
		mebi = 1 << 20
		// What is in progress comes on top of the quota: history, and records of nodes and jobs.
		rest = 16 * mebi
		// Of raftstore.Config: log behind a snapshot and before the next, in memory, and the queue.
		behind, before, cache, queue = 32 * mebi, 64 * mebi, 32 * mebi, 64 * mebi
		// Calls and messages in flight, and what is allocated while the collector runs on a busy machine,
		// which counts as alive until it runs again.
		flight, collecting = 128 * mebi, 192 * mebi
	)
	snapshot := quota + rest
	return Bytes{
		Snapshot: snapshot,
		// Two snapshots while one is written; the log goes on meanwhile, and its file has free pages.
		Folder: 2*snapshot + 2*(behind+max(before, snapshot)) + events + audit,
		// Garbage takes up to twice what lives. The snapshot that is written shares the records. Pages of
		// files are not counted: the system takes them back.
		Memory: 3 * (snapshot + cache + queue + flight + collecting),
	}
}
