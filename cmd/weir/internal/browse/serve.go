package browse

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds of the connections of browsers.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeaders    = 32 << 10
)

// serve answers requests until ctx is done. Calls in flight end then: the page opens them again elsewhere,
// or says that it is cut off.
func serve(ctx context.Context, port net.Listener, handler http.Handler, logger *slog.Logger) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaders,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	if logger != nil {
		// Browsers close connections whenever they like.
		server.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelDebug)
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(port); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
