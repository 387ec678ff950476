// Command weir is every part of Weir: the replicas of its control plane, the
// agents on the nodes, and the client.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"weir/api/client"
	"weir/messages/apipb"
)

// version is the version that replicas, agents and clients report. A build may set it:
// -ldflags "-X main.version=…".
var version = "0.2.0"

func main() {
	// The first signal asks for an orderly end; a second one kills as usual.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := newRootCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	f, said := failureOf(err)
	switch {
	case said == "":
	case asksJSON(os.Args[1:]):
		fmt.Fprintln(os.Stderr, f.line())
	default:
		fmt.Fprintln(os.Stderr, "weir:", said)
	}
	os.Exit(codeOf(err))
}

// The exit codes of weir; endings says what they mean.
const (
	exitFailure        = 1
	exitUsage          = 2
	exitNotReached     = 3
	exitOperationEnded = 4
	exitRefused        = 5
	exitNotFound       = 6
	exitTimedOut       = 7
	exitDisk           = 10
	exitDamaged        = 11
	exitRemoved        = 12
	exitForeignData    = 13
	exitDiverged       = 15
	exitInterrupted    = 130
)

// endings are the exit codes, with the code in JSON of an error that no replica gave one, what it
// means, and what the caller can do.
var endings = []struct {
	exit int
	client.Code
}{
	{exitFailure, client.Code{Name: "failed", Meaning: "The command failed, for a reason that has no exit code of its own.", Do: "Read the message."}},
	{exitUsage, client.Code{Name: "usage", Meaning: "The command line, a file named in it, or the settings are wrong; nothing was sent.", Do: "Correct what the message names."}},
	{exitNotReached, client.Code{Name: "unreachable", Meaning: "No replica carried the request out in time, for example because there is no leader.", Do: "Check weir context show and weir status, then try again.", Again: true}},
	{exitOperationEnded, client.Code{Name: "operation_failed", Meaning: "The operation that was waited for failed or was aborted.", Do: "See weir op get and weir job list; weir op retry runs it again."}},
	{exitRefused, client.Code{Name: "refused", Meaning: "The cluster refuses the request as it is.", Do: "See the code and the message."}},
	{exitNotFound, client.Code{Name: "not_found", Meaning: "What the command names does not exist.", Do: "See the code and the message."}},
	{exitTimedOut, client.Code{Name: "timed_out", Meaning: "What was waited for did not happen within --timeout. It goes on.", Do: "Wait again, or give it up as the message says.", Again: true}},
	{exitDisk, client.Code{Name: "disk_failed", Meaning: "Server and agent: the disk failed, is full or hangs.", Do: "Repair it, then restart."}},
	{exitDamaged, client.Code{Name: "data_damaged", Meaning: "Server and agent: the data are not what was written.", Do: "See running.md."}},
	{exitRemoved, client.Code{Name: "removed", Meaning: "Server: it was removed from the cluster.", Do: "See running.md."}},
	{exitForeignData, client.Code{Name: "foreign_data", Meaning: "Server and agent: the data are another's, or of another version, or in use; or the cluster has a newer version.", Do: "See running.md."}},
	{exitDiverged, client.Code{Name: "state_differs", Meaning: "Server: its state is not that of the other replicas.", Do: "Start it with --rebuild; see running.md."}},
	{exitInterrupted, client.Code{Name: "interrupted", Meaning: "A signal, such as Ctrl-C, ended the command. What it had begun may go on.", Do: "Look at what was done, then try again.", Again: true}},
}

// failure is an error for programs.
type failure struct {
	// Code is the stable code of a replica's refusal, or one of endings.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Retryable says that the same command may succeed later.
	Retryable bool `json:"retryable"`
	// Action is what the caller can do.
	Action string `json:"action"`
	// Unsure says that a change may have been made although the command failed.
	Unsure   bool `json:"maybe_applied"`
	ExitCode int  `json:"exit_code"`
}

// failureOf returns an error for programs, and for people; "" if nothing is to be printed.
func failureOf(err error) (f failure, said string) {
	f.ExitCode = codeOf(err)
	if coded, ok := errors.AsType[*exitError](err); ok {
		err = coded.err
	}
	if err == nil {
		return f, ""
	}
	said = err.Error()
	f.Message = said
	var known client.Code
	for _, e := range endings {
		if e.exit == f.ExitCode {
			known = e.Code
		}
	}
	if refused, ok := errors.AsType[*client.Error](err); ok {
		f.Message = strings.TrimSuffix(f.Message, inBrackets(refused))
		known.Name, known.Again = refused.Code, false
		if found, ok := client.FindCode(refused.Code); ok {
			known = found
		}
	}
	if silent, ok := errors.AsType[*client.UnreachableError](err); ok {
		f.Unsure = silent.Unsure
	}
	f.Unsure = f.Unsure || known.Name == apipb.CodeOutcomeUnknown
	f.Code, f.Retryable, f.Action = known.Name, known.Again, known.Do
	return f, said
}

// inBrackets returns the code of a refusal as people see it after the message.
func inBrackets(refused *client.Error) string { return " (" + refused.Code + ")" }

// line returns the error as one line of JSON.
func (f failure) line() string {
	line, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(line)
}

// asksJSON reports whether a command line asks for JSON, also if it is wrong besides.
func asksJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "--":
			return false
		case "-o", "--output":
			if i+1 < len(args) && args[i+1] == "json" {
				return true
			}
		case "-ojson", "-o=json", "--output=json":
			return true
		}
	}
	return false
}

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
