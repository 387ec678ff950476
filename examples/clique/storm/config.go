package storm

import (
	"errors"
	"fmt"
	"time"

	"weir/examples/clique/load"
	"weir/examples/clique/playground"
)

// Config says how a storm is. The seed of the load decides which events come when, and where,
// too. One node is drained while another is dead.
type Config struct {
	playground.Config
	// Duration is for how long events begin; each kind has one at least.
	Duration time.Duration
	// Timeout is how long an instance has to leave a drained node, or when it is preempted.
	Timeout time.Duration
	// Dead is how long the node stays dead that dies.
	Dead time.Duration
}

// DefaultConfig returns a storm of ten minutes.
func DefaultConfig() Config {
	c := Config{
		Config:   playground.Config{Pictures: "clique", Agents: 4, Load: load.DefaultConfig(), Requests: 20_000, Notice: time.Second},
		Duration: 10 * time.Minute, Timeout: time.Minute, Dead: 45 * time.Second,
	}
	// Little enough to go on for long beside the cluster, on a small machine.
	c.Load.Workers, c.Load.Rate, c.Load.Bound = 16, 40, 200
	return c
}

// leastAgents leave two nodes while one is drained and another is dead.
const leastAgents = 4

// Validate says what is wrong with c, if something is.
func (c Config) Validate() error {
	switch {
	case c.Agents < leastAgents:
		return fmt.Errorf("storm: %d agents: must be at least %d", c.Agents, leastAgents)
	case c.Duration < 0 || c.Dead < 0:
		return errors.New("storm: times and numbers of requests must not be negative")
	case c.Timeout/2 <= c.Notice+c.Load.Lengths.Longest:
		// Where there is no room for a successor, an instance is told after half of the time.
		return fmt.Errorf("storm: half of the timeout of %v is not more than the notice of %v and the longest request of %v", c.Timeout, c.Notice, c.Load.Lengths.Longest)
	}
	if err := c.Config.Validate(); err != nil {
		return fmt.Errorf("storm: %w", err)
	}
	return nil
}
