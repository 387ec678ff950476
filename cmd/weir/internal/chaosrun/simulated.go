package chaosrun

import (
	"context"
	"fmt"
	"time"

	"weir/chaos"
	"weir/cmd/weir/internal/devcluster"
)

// joinPatience bounds how long simulated nodes may take to register: thousands of them take some minutes.
const joinPatience = 10 * time.Minute

// simulate starts the simulated nodes of the run in this process, and returns what ends them.
func (cfg *Config) simulate(ctx context.Context, reach *devcluster.Reach) (end func(), err error) {
	if len(cfg.Simulated.Names) == 0 {
		return func() {}, nil
	}
	if err := chaos.MakeSimulatedTree(ctx, reach.Client, len(cfg.Simulated.Names)); err != nil {
		return nil, err
	}
	nodes := cfg.Simulated
	nodes.Tags = []string{chaos.Simulated}
	within, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	running, err := reach.StartFleet(within, nodes)
	if err != nil {
		return nil, err
	}
	cfg.Watcher.Say(fmt.Sprintf("%d simulated nodes run", len(nodes.Names)))
	return running.Close, nil
}
