package storm

import (
	"errors"
	"fmt"
	"time"

	"weir/examples/clique/load"
	"weir/examples/clique/playground"
)

// Config is the configuration of a storm. Load.Seed also determines which events happen when
// and where. One node may be drained while another is dead.
type Config struct {
	playground.Config
	// Duration is how long events keep starting. Each kind of event happens at least once.
	Duration time.Duration
	// Timeout is how long an instance has to leave when it is preempted or its node is drained.
	Timeout time.Duration
	// Dead is the minimum time for which the killed node stays down.
	Dead time.Duration
}

// DefaultConfig returns a storm of ten minutes.
func DefaultConfig() Config {
	c := Config{
		Config:   playground.Config{Pictures: "clique", Agents: 4, Load: load.DefaultConfig(), Requests: 20_000, Notice: time.Second},
		Duration: 10 * time.Minute, Timeout: time.Minute, Dead: 45 * time.Second,
	}
	// A load small enough for a small machine that also runs the cluster.
	c.Load.Workers, c.Load.Rate, c.Load.Bound = 16, 40, 200
	return c
}

// leastAgents is the minimum number of agents: two nodes remain while one is drained and another is
// dead.
const leastAgents = 4

// Validate returns an error if c is invalid.
func (c Config) Validate() error {
	switch {
	case c.Agents < leastAgents:
		return fmt.Errorf("storm: %d agents: must be at least %d", c.Agents, leastAgents)
	case c.Duration < 0 || c.Dead < 0:
		return errors.New("storm: times and numbers of requests must not be negative")
	case c.Timeout/2 <= c.Notice+c.Load.Lengths.Longest:
		// Without room for a successor, an instance gets its signal after half of the timeout.
		return fmt.Errorf("storm: half of the timeout %v must be more than the notice %v plus the longest request %v", c.Timeout, c.Notice, c.Load.Lengths.Longest)
	}
	if err := c.Config.Validate(); err != nil {
		return fmt.Errorf("storm: %w", err)
	}
	return nil
}
