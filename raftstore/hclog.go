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

// raftLog hands raft's log lines to slog. What raft calls info is about itself and goes to
// debug level; the store tells an operator what matters.
type raftLog struct{ log *slog.Logger }

// newRaftLogger returns a logger for raft, which writes nothing by itself.
func newRaftLogger(log *slog.Logger) hclog.Logger {
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Off, Output: io.Discard})
	logger.RegisterSink(raftLog{log.With("part", "raft")})
	return logger
}

var slogLevels = map[hclog.Level]slog.Level{
	hclog.Error: slog.LevelError, hclog.Warn: slog.LevelWarn, hclog.Info: slog.LevelDebug, hclog.Debug: slog.LevelDebug, hclog.Trace: slog.LevelDebug - 4,
}

// everyday begins warnings of raft that are part of any change of leader, or of bringing
// a replica up to date that is new or was away: its log has not yet what the leader
// sends first, and the leader goes back until it has.
var everyday = []string{"heartbeat timeout reached", "failed to get previous log", "appendEntries rejected, sending older logs"}

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
