package raftstore

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// raftLogger hands raft's log lines to slog. What raft calls info is about
// itself and goes to debug level; the store tells an operator what matters.
type raftLogger struct {
	log   *slog.Logger
	name  string
	level hclog.Level
	args  []any
}

var _ hclog.Logger = (*raftLogger)(nil)

func newRaftLogger(log *slog.Logger) *raftLogger {
	return &raftLogger{log: log.With("part", "raft"), name: "raft", level: hclog.Trace}
}

func slogLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Trace:
		return slog.LevelDebug - 4
	default:
		return slog.LevelDebug
	}
}

// everyday begins warnings of raft that are part of any change of leader, or of bringing
// a replica up to date that is new or was away: its log has not yet what the leader
// sends first, and the leader goes back until it has.
var everyday = []string{"heartbeat timeout reached", "failed to get previous log", "appendEntries rejected, sending older logs"}

// Log implements hclog.Logger.
func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	if !l.enabled(level) {
		return
	}
	at := slogLevel(level)
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

func (l *raftLogger) enabled(level hclog.Level) bool {
	return level >= l.level && level != hclog.Off && l.log.Enabled(context.Background(), slogLevel(level))
}

// Trace implements hclog.Logger.
func (l *raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug implements hclog.Logger.
func (l *raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info implements hclog.Logger.
func (l *raftLogger) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn implements hclog.Logger.
func (l *raftLogger) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error implements hclog.Logger.
func (l *raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// IsTrace implements hclog.Logger.
func (l *raftLogger) IsTrace() bool { return l.enabled(hclog.Trace) }

// IsDebug implements hclog.Logger.
func (l *raftLogger) IsDebug() bool { return l.enabled(hclog.Debug) }

// IsInfo implements hclog.Logger.
func (l *raftLogger) IsInfo() bool { return l.enabled(hclog.Info) }

// IsWarn implements hclog.Logger.
func (l *raftLogger) IsWarn() bool { return l.enabled(hclog.Warn) }

// IsError implements hclog.Logger.
func (l *raftLogger) IsError() bool { return l.enabled(hclog.Error) }

// ImpliedArgs implements hclog.Logger.
func (l *raftLogger) ImpliedArgs() []any { return l.args }

// With implements hclog.Logger.
func (l *raftLogger) With(args ...any) hclog.Logger {
	c := *l
	c.log = l.log.With(args...)
	c.args = append(append([]any(nil), l.args...), args...)
	return &c
}

// Name implements hclog.Logger.
func (l *raftLogger) Name() string { return l.name }

// Named implements hclog.Logger.
func (l *raftLogger) Named(name string) hclog.Logger { return l.ResetNamed(l.name + "." + name) }

// ResetNamed implements hclog.Logger.
func (l *raftLogger) ResetNamed(name string) hclog.Logger {
	c := *l
	c.name = name
	return &c
}

// SetLevel implements hclog.Logger.
func (l *raftLogger) SetLevel(level hclog.Level) { l.level = level }

// GetLevel implements hclog.Logger.
func (l *raftLogger) GetLevel() hclog.Level { return l.level }

// StandardLogger implements hclog.Logger.
func (l *raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.log.Handler(), slog.LevelDebug)
}

// StandardWriter implements hclog.Logger.
func (l *raftLogger) StandardWriter(options *hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(options).Writer()
}
