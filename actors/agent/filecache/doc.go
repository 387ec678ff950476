// Package filecache keeps the files that jobs find in their workspaces on the node, so
// that each is fetched once.
//
// A file is known by the SHA-256 of its content. Which content a source had, and what it
// looked like then, is remembered: a path at which the same file is, with the same size and
// times, or a URL whose server says that nothing has changed, is not read again. Jobs that
// want the same source at once, with the same rights to it, share one reading of it. What was not used for longest goes when
// there is no room, but nothing that is being placed.
//
// A job gets a copy of its own, without a right to write, and nothing that it does to it
// changes what the cache has. A program among them can be run when it has been placed. The
// copy is checked on its way: what does not have its hash any more is dropped and fetched
// again, also after a restart of the agent.
//
// What the cache has is bounded, and so is what is on its way into it, but for downloads whose
// size their server does not say: each of them is bounded alone until it has been read.
//
// The deciding half is index.go.
package filecache
