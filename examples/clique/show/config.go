package show

import (
	"errors"
	"fmt"
	"time"

	"weir/examples/clique/load"
	"weir/examples/clique/playground"
)

// Config is the configuration of the show. Its Notice applies to the ordinary run.
type Config struct {
	playground.Config
	// Alone is how long the service runs alone at first. Together is how long the heavy
	// operation runs beside it, at least. After is how long the service is alone again, at
	// least.
	Alone, Together, After time.Duration
	// ShortTimeout and LongTimeout are how long a preempted instance has to leave, in the
	// ordinary and in the graceful run.
	ShortTimeout, LongTimeout time.Duration
	// Starvation is how long an operation has to be below its fair share before others are
	// preempted for it.
	Starvation time.Duration
	// LongNotice is the notice of the graceful run, which has time for a longer one; 0 means
	// Notice.
	LongNotice time.Duration
}

// notice is the notice under a mode of preemption.
func (c Config) notice(mode string) time.Duration {
	if mode == graceful && c.LongNotice > 0 {
		return c.LongNotice
	}
	return c.Notice
}

// DefaultConfig returns a show of about 70 s.
func DefaultConfig() Config {
	return Config{
		Config: playground.Config{Pictures: "clique", Agents: 4, Load: load.DefaultConfig(), Requests: 10_000, Notice: time.Second},
		Alone:  5 * time.Second, Together: 14 * time.Second, After: 6 * time.Second,
		ShortTimeout: 2 * time.Second, LongTimeout: 30 * time.Second, Starvation: time.Second,
	}
}

// Validate returns an error if c is invalid.
func (c Config) Validate() error {
	switch {
	case c.Agents < 1:
		return fmt.Errorf("show: %d agents: must be at least 1", c.Agents)
	case c.Alone < 0 || c.Together < 0 || c.After < 0 || c.LongNotice < 0:
		return errors.New("show: times and numbers of requests must not be negative")
	case c.ShortTimeout <= 0 || c.Starvation <= 0:
		return fmt.Errorf("show: short timeout %v, starvation %v: must be positive", c.ShortTimeout, c.Starvation)
	case c.Notice >= c.ShortTimeout:
		return fmt.Errorf("show: the notice %v must be less than the short timeout %v: otherwise nothing could be finished", c.Notice, c.ShortTimeout)
	case c.Load.Lengths.Longest <= c.ShortTimeout:
		return fmt.Errorf("show: the longest request %v must take longer than the short timeout %v: otherwise nothing would fail", c.Load.Lengths.Longest, c.ShortTimeout)
	case c.LongTimeout <= c.notice(graceful)+c.Load.Lengths.Longest:
		return fmt.Errorf("show: the long timeout %v must be more than the notice %v plus the longest request %v", c.LongTimeout, c.notice(graceful), c.Load.Lengths.Longest)
	}
	if err := c.Config.Validate(); err != nil {
		return fmt.Errorf("show: %w", err)
	}
	return nil
}
