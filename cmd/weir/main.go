// Command weir is every part of Weir: the replicas of its control plane, the
// agents on the nodes, and the client.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// version is the version that replicas, agents and clients report. A build may set it:
// -ldflags "-X main.version=…".
var version = "0.1.0"

func main() {
	// The first signal asks for an orderly end; a second one kills as usual.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := newRootCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	code := codeOf(err)
	if coded, ok := errors.AsType[*exitError](err); ok {
		err = coded.err
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "weir:", err)
	}
	os.Exit(code)
}

// The exit codes of weir.
const (
	// exitFailure: the command failed.
	exitFailure = 1
	// exitUsage: the command line or a file named in it is wrong.
	exitUsage = 2
	// exitNotReached: no replica, or no leading replica, answered.
	exitNotReached = 3
	// exitOperationEnded: the operation that was waited for failed or was aborted.
	exitOperationEnded = 4
	// exitDisk: a replica's or an agent's disk failed, is full or hangs. Starting it
	// again may help.
	exitDisk = 10
	// exitDamaged: a replica's or an agent's data is damaged. It has to be rebuilt.
	exitDamaged = 11
	// exitRemoved: the replica has been removed from its cluster.
	exitRemoved = 12
	// exitForeignData: a replica's or an agent's data belongs to another replica or agent, or to
	// a newer version.
	exitForeignData = 13
)

// codeOf returns the exit code of an error.
func codeOf(err error) int {
	if coded, ok := errors.AsType[*exitError](err); ok {
		return coded.code
	}
	return exitFailure
}

// exitError ends the process with a code. If err is nil, no message is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }
