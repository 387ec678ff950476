package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"weir/actors"
	"weir/api/health"
	"weir/api/metrics"
	"weir/cluster/wire"
)

// serveAgent serves an agent's metrics and health, if the flags ask for it, until `stop` is
// called.
func serveAgent(f *agentFlags, protection protection, station *actors.Station, log *slog.Logger) (stop func() error, err error) {
	if f.metricsListen == "" {
		if f.metricsInsecure {
			return nil, &exitError{exitUsage, errors.New("--metrics-insecure has no effect without --metrics-listen")}
		}
		return func() error { return nil }, nil
	}
	listener, err := listenMetrics(f, protection)
	if errors.Is(err, syscall.EADDRINUSE) {
		// The port may be free later, so this is not a usage error.
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("--metrics-listen: %w", err)}
	}
	routes := http.NewServeMux()
	routes.Handle("GET /metrics", metrics.NewAgent(version, station, protection.expires()))
	routes.Handle("GET /healthz", health.Alive())
	routes.Handle("GET /readyz", health.Ready(
		health.Check{Name: "registered", Ask: func(context.Context) error {
			return failing(!station.Stats().Agent.Registered, "not registered with a leader yet")
		}},
		health.Check{Name: "lease", Ask: func(context.Context) error {
			return failing(station.Stats().Agent.LeaseLeft == 0, "the node has no lease: no contact with a leader for too long")
		}},
	))
	server := &http.Server{
		Handler: routes, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics server stopped", "address", f.metricsListen, "error", err)
		}
	}()
	log.Info("serving metrics", "address", listener.Addr().String(), "plaintext", f.metricsInsecure)
	return server.Close, nil
}

func listenMetrics(f *agentFlags, protection protection) (net.Listener, error) {
	if f.metricsInsecure {
		return wire.ListenLoopback(f.metricsListen)
	}
	mutual, ok := protection.security.(wire.Mutual)
	if !ok {
		return nil, errors.New("an agent without credentials serves metrics on loopback only, and only with --metrics-insecure")
	}
	return wire.ListenMutual(f.metricsListen, mutual.Credentials, watchers...)
}

// failing returns an error if `wrong` is true.
func failing(wrong bool, what string) error {
	if wrong {
		return errors.New(what)
	}
	return nil
}
