package top

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// NewCommand returns the verb. run opens the cluster, and calls a function with it and a context that
// ends the view; usage marks an error as one of the command line.
func NewCommand(run func(cmd *cobra.Command, show func(ctx context.Context, c Cluster) error) error, usage func(error) error) *cobra.Command {
	cfg := Config{}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the cluster in the terminal: pools, operations, jobs, nodes and events",
		Long: `Watch the cluster in the terminal: pools, operations, jobs, nodes and events, each as it is
now, and why. Number keys choose a view, Enter goes deeper, Esc back, / filters, s sorts, x
explains, ? lists all keys.

It changes nothing, unless started with --write: then the selected operation or job can be
aborted or interrupted and the selected node drained. It asks first, and says whose jobs end
and how much work is lost.`,
		Example: "  weir top\n  weir top --interval 10s\n  weir top --write",
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, out, err := screen(cmd, cfg)
			if err != nil {
				return usage(err)
			}
			return run(cmd, func(ctx context.Context, c Cluster) error { return Run(ctx, c, cfg, in, out) })
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&cfg.Interval, "interval", 2*time.Second, "how often to refresh what is on the screen")
	flags.BoolVar(&cfg.Write, "write", false, "allow to abort, interrupt and drain")
	flags.StringVar(&cfg.Tree, "tree", "", "only pools of this tree (default: all trees)")
	return cmd
}

// screen returns the terminal, or an error that says why there is none and what to use instead.
func screen(cmd *cobra.Command, cfg Config) (in, out *os.File, err error) {
	const instead = "use weir pool list, weir op list, weir node list or weir events, also with --watch"
	if cfg.Interval < MinInterval {
		return nil, nil, fmt.Errorf("--interval %v: must be at least %v", cfg.Interval, MinInterval)
	}
	if name := os.Getenv("TERM"); name == "dumb" || name == "" {
		return nil, nil, fmt.Errorf("weir top needs a terminal that can be drawn on, and TERM is %q: %s", name, instead)
	}
	in, inFile := cmd.InOrStdin().(*os.File)
	out, outFile := cmd.OutOrStdout().(*os.File)
	if !inFile || !outFile || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil, nil, fmt.Errorf("weir top needs a terminal as standard input and output: %s", instead)
	}
	return in, out, nil
}
