package storm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/examples/clique/playground"
)

// ErrBroken is returned by Run when a service that is spared has lost requests.
var ErrBroken = errors.New("what was promised does not hold")

// Run runs the service through two storms and prints what came out, the summary last. It
// returns ErrBroken when the first one has lost requests that were not on the node that died.
// It leaves nothing behind but pictures.
func Run(ctx context.Context, c Config) (err error) {
	if err := c.Validate(); err != nil {
		return err
	}
	spared, plain, instances, err := runBoth(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "\n%s\n%s\n", eventsTable(spared, plain), requestsTable(spared, plain))
	for _, r := range []*result{spared, plain} {
		drawn, err := r.draw(c.Pictures, instances)
		if err != nil {
			return err
		}
		for _, line := range r.failures() {
			fmt.Fprintln(c.Out, line)
		}
		fmt.Fprintf(c.Out, "%s: instances over time: %s\n", names[r.spared], strings.Join(drawn, " "))
	}
	faults := c.broken(spared)
	for _, fault := range faults {
		fmt.Fprintln(c.Out, "WRONG:", fault)
	}
	fmt.Fprintln(c.Out, summary(spared, plain))
	if len(faults) > 0 {
		return ErrBroken
	}
	return nil
}

// runBoth runs the service with what spares it and without, on a cluster that lives as long.
func runBoth(ctx context.Context, c Config) (spared, plain *result, instances int, err error) {
	fmt.Fprintf(c.Out, "starting 3 replicas and %d agents on this machine; the seed is %d\n", c.Agents, c.Seed)
	up, err := playground.Start(ctx, c.Weir, c.Agents)
	if up != nil {
		defer func() { err = errors.Join(err, up.Stop()) }()
	}
	if err != nil {
		return nil, nil, 0, err
	}
	s := &stage{Config: c, Cluster: up}
	if err := s.furnish(ctx); err != nil {
		return nil, nil, 0, err
	}
	if s.cpu, s.places, err = up.Places(ctx, perNode); err != nil {
		return nil, nil, 0, err
	}
	nodes, err := up.ListNodes(ctx, "")
	if err != nil {
		return nil, nil, 0, err
	}
	for _, node := range nodes {
		s.nodes = append(s.nodes, node.GetId())
	}
	slices.Sort(s.nodes)
	if spared, err = s.play(ctx, true); err != nil {
		return nil, nil, 0, err
	}
	plain, err = s.play(ctx, false)
	return spared, plain, s.instances(), err
}
