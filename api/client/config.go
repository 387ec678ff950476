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

// Config is what a Client works with.
type Config struct {
	// Addresses are the host:port of replicas, one at least.
	Addresses []string
	// HTTP sends requests. It must not have a timeout of its own, or output and
	// watches end early.
	HTTP connect.HTTPClient
	// URL returns the base URL of the replica at an address.
	URL func(address string) string
	// Try is how long the first tries of a call may take; it doubles with each
	// round over the replicas, to MaxTry: a slow cluster is not a dead one. Default
	// 1 s: many times what a write takes, and a frozen replica leaves most of the
	// deadline.
	Try time.Duration
	// MaxTry bounds a try. Default 4 s.
	MaxTry time.Duration
	// Deadline is how long calls go on without an answer; those that wait for an
	// operation go on for longer. Default 15 s: some elections.
	Deadline time.Duration
	// Poll is how long one try of a wait for an operation lasts. Default 5 s: a
	// replica that hangs is noticed that late.
	Poll time.Duration
	// Trying, if set, is told once why there is no answer, when the tries of a call
	// have gone on for TryingAfter without one. Default of that 2 s: longer than most
	// elections.
	Trying      func(why string)
	TryingAfter time.Duration
	// Outage, if set, is how long a wait for an operation goes on while no replica
	// answers; without it only the caller's context ends the wait.
	Outage time.Duration
	// Logger hears of tries that were not answered; nil stands for silence.
	Logger *slog.Logger
}

// complete returns the configuration with defaults, or an error that names what
// cannot work.
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
