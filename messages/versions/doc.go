// Package versions says what is written since which version of the cluster.
//
// The cluster's version is a number in the replicated state. It is raised once all processes can
// (weir cluster upgrade finish). What is newer than it is neither written nor sent, so that until
// then every process can be replaced by one of the version before. The table has a row for each
// command, field, record, message and format that did not exist in version 1; a test compares it with
// the descriptors of released versions, and with the options and statistics that they had.
//
// To add something: raise Current if this release has not done so yet, and add a row. Commands, and
// what is in them, are checked when they are proposed and when they are applied. Whoever writes
// something else that is new asks the state for its version first.
package versions

import (
	"errors"
	"fmt"
	"strings"
)

// Versions of the cluster that this program reads and writes.
const (
	// Oldest is the oldest version whose data the program reads.
	Oldest = 1
	// Current is the newest one.
	Current = 2
)

// programs are the releases of weir that made versions of the cluster.
var programs = map[uint32]string{1: "0.1.0", 2: "0.2.0"}

var (
	// ErrNewer is returned for data of a version of the cluster that the program does not know.
	ErrNewer = errors.New("newer than this program")
	// ErrOlder is returned for data of a version of the cluster that the program no longer reads.
	ErrOlder = errors.New("older than this program reads")
)

// Range is a range of versions that a program reads.
type Range struct{ Oldest, Newest uint32 }

// Program is what this program reads.
var Program = Range{Oldest, Current}

// Check returns an error unless a program reads data of the version. It matches ErrNewer or ErrOlder
// and names what can. A version of 0 is 1.
func (r Range) Check(version uint32) error {
	switch version = max(version, 1); {
	case version > r.Newest:
		return fmt.Errorf("%w: it needs cluster version %d, but this program (weir %s) works with %s: start %s", ErrNewer, version, programs[Current], r, programOf(version))
	case version < r.Oldest:
		return fmt.Errorf("%w: it has cluster version %d, but this program (weir %s) works with %s: start %s, and finish the upgrade with it (weir cluster upgrade finish)",
			ErrOlder, version, programs[Current], r, programOf(r.Oldest))
	}
	return nil
}

// String returns the range in words.
func (r Range) String() string {
	if r.Oldest == r.Newest {
		return fmt.Sprintf("cluster version %d", r.Oldest)
	}
	return fmt.Sprintf("cluster versions %d to %d", r.Oldest, r.Newest)
}

// programOf says which program works with a version.
func programOf(version uint32) string {
	if name := programs[version]; name != "" {
		return "weir " + name
	}
	return fmt.Sprintf("a newer weir, whose `weir version` names cluster version %d", version)
}

// ProgramNow returns the first release that works with the current version.
func ProgramNow() string { return programOf(Current) }

// TooOld returns the error for a process whose program works with a lesser version than that of the cluster.
func TooOld(process string, can, version uint32) error {
	return fmt.Errorf("%s is too old: its program works with cluster version %d, but the cluster has version %d: install %s or later there, and start it again",
		process, max(can, 1), version, programOf(version))
}

// plain reports whether a name is that of something that is no protobuf message or field.
func plain(name string) bool { return strings.Contains(name, " ") }
