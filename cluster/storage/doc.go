// Package storage finds the input of map operations and takes their output, on paths
// that replicas and nodes see alike and in object stores that speak S3.
//
// A replica needs it alone: nodes are told a path, or a URL that is good for one object
// and some days, and need no credentials.
//
// What jobs write waits in a staging folder beside the output, and becomes visible by
// one step when it is whole: a file is linked, a folder renamed, an object completed,
// and none of them ever in place of another. Each step may be repeated after a crash at
// any line: what is there already is known by the inode, or by the operation's name in
// the object's metadata. An object store has no step for many objects: there an output
// folder is whole when its object _SUCCESS is there.
package storage
