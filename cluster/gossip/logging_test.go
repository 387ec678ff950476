package gossip_test

import (
	"context"
	"log/slog"
)

// whenLogged is a handler that leaves a sign when a text is logged.
type whenLogged struct {
	slog.Handler
	text string
	seen chan struct{}
}

// Enabled implements slog.Handler.
func (h whenLogged) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h whenLogged) Handle(_ context.Context, record slog.Record) error {
	if record.Message == h.text {
		select {
		case h.seen <- struct{}{}:
		default:
		}
	}
	return nil
}
