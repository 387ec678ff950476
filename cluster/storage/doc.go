// Package storage lists the input of map operations and publishes their output, on paths
// that are the same on replicas and nodes and in object stores that speak S3.
//
// Only replicas use it: nodes get a path, or a URL that is valid for one object for
// some days, and need no credentials.
//
// Jobs write to a staging folder beside the output. Once complete, the output becomes
// visible in one step that never replaces anything: a file is linked, a folder renamed,
// an object completed. Each step may be repeated after a crash at any point: an output
// that exists already is recognised by the inode, or by the operation's name in the
// object's metadata. An object store has no atomic step for many objects: there an output
// folder is complete when its object _SUCCESS exists.
package storage
