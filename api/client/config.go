package client

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"connectrpc.com/connect"
)

// Config says which cluster a Client calls, and how long it retries.
type Config struct {
	// Addresses are the host:port of replicas, at least one.
	Addresses []string
	// HTTP sends requests. It must not have a timeout of its own, which would end
	// output and watches early.
	HTTP connect.HTTPClient
	// URL returns the base URL of the replica at an address.
	URL func(address string) string
	// Try is how long the first tries of a call may take. The time doubles with each round
	// over the replicas, up to MaxTry, so that a slow cluster can still answer. Default
	// 1 s: much longer than a write, but short enough that a frozen replica uses up
	// little of Deadline.
	Try time.Duration
	// MaxTry bounds a try. Default 4 s.
	MaxTry time.Duration
	// Deadline is how long calls are retried without an answer; calls that wait for
	// an operation are retried for longer. Default 15 s: several elections.
	Deadline time.Duration
	// Poll is how long one try of a wait for an operation lasts, and so how long it
	// takes to notice a replica that hangs. Default 5 s.
	Poll time.Duration
	// Trying, if set, is called once, with the reason, when a call has had no answer
	// for TryingAfter. TryingAfter defaults to 2 s: longer than most elections.
	Trying      func(why string)
	TryingAfter time.Duration
	// Outage, if set, is how long a wait for an operation is retried while no replica
	// answers; if 0, only the caller's context ends the wait.
	Outage time.Duration
	// Logger logs failed tries; nil for no log.
	Logger *slog.Logger
}

// complete returns the configuration with defaults, or an error that names the first
// invalid setting.
func (c Config) complete() (Config, error) {
	if len(c.Addresses) == 0 {
		return c, errors.New("client: no replica address given")
	}
	for _, address := range c.Addresses {
		if err := checkAddress(address); err != nil {
			return c, fmt.Errorf("client: %w", err)
		}
	}
	if c.HTTP == nil || c.URL == nil {
		return c, errors.New("client: HTTP and URL are needed")
	}
	for _, d := range []struct {
		name    string
		value   *time.Duration
		missing time.Duration
	}{
		{"try", &c.Try, time.Second}, {"max try", &c.MaxTry, 4 * time.Second},
		{"deadline", &c.Deadline, 15 * time.Second}, {"retry after", &c.TryingAfter, 2 * time.Second}, {"poll", &c.Poll, 5 * time.Second},
		{"outage", &c.Outage, 0},
	} {
		switch {
		case *d.value == 0:
			*d.value = d.missing
		case *d.value < 0:
			return c, fmt.Errorf("client: %s %s is negative", d.name, *d.value)
		}
	}
	c.MaxTry = max(c.MaxTry, c.Try)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// checkAddress returns an error unless address is host:port.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("address %q: host:port is needed, such as 10.0.0.1:7070", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("address %q: port %q: a number from 1 to 65535 is needed, such as in 10.0.0.1:7070", address, port)
	}
	return nil
}
