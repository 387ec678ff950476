package storm

import (
	"errors"
	"fmt"
	"io"
	"time"

	"weir/examples/clique/load"
)

// Config says how a storm is.
type Config struct {
	// Weir is the program weir, Self the program clique.
	Weir, Self string
	// Pictures is the folder for the pictures; it is made if it is missing.
	Pictures string
	Out      io.Writer
	// Agents is how many nodes the cluster has: one is drained while another is dead.
	Agents int
	Load   load.Config
	// Duration is for how long events begin; each kind has one at least.
	Duration time.Duration
	// Requests of a run, at least: it goes on until so many were sent.
	Requests int
	// Seed decides which events come when, and where.
	Seed uint64
	// Timeout is how long an instance has to leave a drained node, or when it is preempted.
	Timeout time.Duration
	// Notice is how long an instance takes requests after its signal.
	Notice time.Duration
	// Dead is how long the node stays dead that dies.
	Dead time.Duration
}

// DefaultConfig returns a storm of ten minutes.
func DefaultConfig() Config {
	c := Config{
		Pictures: "clique", Agents: 4, Load: load.DefaultConfig(), Duration: 10 * time.Minute, Requests: 20_000, Seed: 1,
		Timeout: time.Minute, Notice: time.Second, Dead: 45 * time.Second,
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
	case c.Weir == "" || c.Self == "" || c.Pictures == "" || c.Out == nil:
		return errors.New("storm: a program, the folder of pictures or the place to print to is missing")
	case c.Agents < leastAgents:
		return fmt.Errorf("storm: %d agents: must be at least %d", c.Agents, leastAgents)
	case c.Duration < 0 || c.Requests < 0 || c.Notice < 0 || c.Dead < 0:
		return errors.New("storm: times and numbers of requests must not be negative")
	case c.Timeout/2 <= c.Notice+c.Load.Lengths.Longest:
		// Where there is no room for a successor, an instance is told after half of the time.
		return fmt.Errorf("storm: half of the timeout of %v is not more than the notice of %v and the longest request of %v", c.Timeout, c.Notice, c.Load.Lengths.Longest)
	}
	return c.Load.Validate()
}
