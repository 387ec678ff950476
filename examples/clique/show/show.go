package show

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weir/examples/clique/playground"
)

// ErrBroken is returned by Run when what the example shows did not happen.
var ErrBroken = errors.New("what was promised does not hold")

// stage is a cluster on which the service is run.
type stage struct {
	Config
	*playground.Cluster
	// jobs of either operation fill the cluster, cpu is what each of them takes.
	jobs int
	cpu  float64
}

// Run runs the service twice and prints what came out, the summary last. It returns
// ErrBroken when not all of it is as promised. It leaves nothing behind but pictures.
func Run(ctx context.Context, c Config) (err error) {
	if err := c.Validate(); err != nil {
		return err
	}
	ordinary, gentle, err := runBoth(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "\n%s\n%s\n", requestsTable(ordinary, gentle), instancesTable(ordinary, gentle))
	for _, r := range []*result{ordinary, gentle} {
		files, err := r.draw(c.Pictures)
		if err != nil {
			return err
		}
		for _, line := range r.failures() {
			fmt.Fprintln(c.Out, line)
		}
		fmt.Fprintf(c.Out, "%s: usage share against fair share: %s\n", names[r.mode], strings.Join(files, " "))
	}
	faults := c.broken(ordinary, gentle)
	for _, fault := range faults {
		fmt.Fprintln(c.Out, "WRONG:", fault)
	}
	fmt.Fprintln(c.Out, summary(ordinary, gentle))
	if len(faults) > 0 {
		return ErrBroken
	}
	return nil
}

// runBoth runs the service in both modes on a cluster that lives as long.
func runBoth(ctx context.Context, c Config) (ordinary, gentle *result, err error) {
	fmt.Fprintf(c.Out, "starting 3 replicas and %d agents on this machine\n", c.Agents)
	up, err := playground.Start(ctx, c.Weir, c.Agents)
	if up != nil {
		defer func() { err = errors.Join(err, up.Stop()) }()
	}
	if err != nil {
		return nil, nil, err
	}
	s := &stage{Config: c, Cluster: up}
	if err := s.furnish(ctx); err != nil {
		return nil, nil, err
	}
	if s.cpu, s.jobs, err = up.Places(ctx, perNode); err != nil {
		return nil, nil, err
	}
	if ordinary, err = s.play(ctx, normal); err != nil {
		return nil, nil, err
	}
	gentle, err = s.play(ctx, graceful)
	return ordinary, gentle, err
}
