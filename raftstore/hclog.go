package raftstore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// raftLog passes raft's log lines to slog. Lines that raft logs at info level concern raft
// itself and go to debug level; the store logs the events that matter to an operator.
type raftLog struct{ log *slog.Logger }

// newRaftLogger returns a logger for raft that writes only to log.
func newRaftLogger(log *slog.Logger) hclog.Logger {
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Off, Output: io.Discard})
	logger.RegisterSink(raftLog{log.With("part", "raft")})
	return logger
}

var slogLevels = map[hclog.Level]slog.Level{
	hclog.Error: slog.LevelError, hclog.Warn: slog.LevelWarn, hclog.Info: slog.LevelDebug, hclog.Debug: slog.LevelDebug, hclog.Trace: slog.LevelDebug - 4,
}

// everyday lists prefixes of raft's warnings that are normal when the leader changes or when a new
// or returning replica catches up. Such a replica lacks the entry before the first one that the
// leader sends, so the leader goes back until it finds an entry that the replica has. A candidate that
// the others have elected may send entries before its request for a vote arrives.
var everyday = []string{
	"heartbeat timeout reached", "failed to get previous log", "appendEntries rejected, sending older logs",
	"rejecting vote request since our last term is greater",
}

// Accept implements hclog.SinkAdapter.
func (l raftLog) Accept(_ string, level hclog.Level, msg string, args ...any) {
	at := slogLevels[level]
	if !l.log.Enabled(context.Background(), at) {
		return
	}
	if level == hclog.Warn && slices.ContainsFunc(everyday, func(begin string) bool { return strings.HasPrefix(msg, begin) }) {
		at = slog.LevelInfo
	}
	for i, arg := range args {
		// hclog.Fmt delays formatting: a format and its arguments.
		if f, ok := arg.(hclog.Format); ok && len(f) > 0 {
			args[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	l.log.Log(context.Background(), at, msg, args...)
}
