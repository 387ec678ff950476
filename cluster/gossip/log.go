package gossip

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// newLog returns a logger for memberlist that writes to the logger `to`.
func newLog(to *slog.Logger) *log.Logger { return log.New(logWriter{to}, "", 0) }

// logWriter turns memberlist's lines, "[WARN] memberlist: text", into records.
type logWriter struct{ to *slog.Logger }

// logLevels maps memberlist's levels. Its errors, such as a packet that could
// not be sent, are normal on a network, so they are warnings here.
var logLevels = map[string]slog.Level{
	"[ERR]":   slog.LevelWarn,
	"[WARN]":  slog.LevelWarn,
	"[INFO]":  slog.LevelInfo,
	"[DEBUG]": slog.LevelDebug,
}

// Write implements io.Writer.
func (w logWriter) Write(line []byte) (int, error) {
	word, text, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	level, known := logLevels[word]
	if !known {
		level, text = slog.LevelWarn, word+" "+text
	}
	w.to.Log(context.Background(), level, "memberlist", "text", strings.TrimPrefix(text, "memberlist: "))
	return len(line), nil
}
