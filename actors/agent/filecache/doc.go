// Package filecache caches the files for jobs' workspaces on the node, so that each is
// fetched once.
//
// A file is identified by the SHA-256 of its content. The cache remembers which content a
// source had, and does not read the source again while the source is unchanged: a path still names
// the same file with the same size and times, or the server of a URL confirms that nothing has
// changed. Jobs that want the same source at once, with the same rights to it, share one fetch.
// When there is no room, the least recently used content is evicted, except content that is being
// placed.
//
// A job gets a read-only copy of its own, and nothing that it does to the copy changes the
// cache. A program among the files can be run as soon as it has been placed. The hash is
// checked while copying: a content that no longer matches is dropped and fetched again, also
// after a restart of the agent.
//
// The cache is bounded, including files being fetched. Downloads whose server does not give their
// size are the exception: until such a download has ended, it may take as much room as the whole
// cache.
//
// The decisions about eviction are made in index.go.
package filecache
