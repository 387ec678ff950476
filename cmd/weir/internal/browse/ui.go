// Package browse has the verbs that serve Weir's page to browsers.
package browse

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/api/gateway"
	"weir/api/web"
	"weir/cluster/wire"
)

// UI is what weir ui takes from the program.
type UI struct {
	Version string
	// Open returns a client with the caller's certificate.
	Open func() (*client.Client, error)
	// Usage marks an error as a mistake in the command line.
	Usage func(error) error
}

// NewUICommand returns the verb weir ui, without the flags that say which cluster.
func NewUICommand(by UI) *cobra.Command {
	var listen string
	var write bool
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open the cluster's page in a browser, as yourself",
		Long: `Serve the cluster's page on this machine, with your own certificate, until Ctrl-C. Open the
address that it prints: the token in it admits to the page, and is another one each time.
Whoever has the address sees what you may see.

The page changes nothing without --write.`,
		Example: "  weir ui\n  weir ui --write\n  weir ui --listen 127.0.0.1:7070",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := by.Open()
			if err != nil {
				return by.Usage(err)
			}
			defer cluster.Close()
			port, err := wire.ListenLoopback(listen)
			if err != nil {
				return by.Usage(fmt.Errorf("--%w", err))
			}
			local, err := gateway.NewLocal(gateway.Config{
				Files: web.Files(), Cluster: cluster, Origin: &url.URL{Scheme: "http", Host: port.Addr().String()}, Version: by.Version, Write: write,
			})
			if err != nil {
				_ = port.Close()
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), local.URL())
			fmt.Fprintln(cmd.ErrOrStderr(), hint(write))
			return serve(cmd.Context(), port, local, nil)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "host:port of the page, on a loopback address; port 0: any that is free")
	cmd.Flags().BoolVar(&write, "write", false, "let the page change what you may change")
	registerNone(cmd, "listen")
	return cmd
}

func hint(write bool) string {
	if write {
		return "the page may change what you may change; Ctrl-C ends it"
	}
	return "read-only (--write lets the page change things); Ctrl-C ends it"
}

// registerNone says that only the user knows what these flags can be.
func registerNone(cmd *cobra.Command, flags ...string) {
	none := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)
	for _, name := range flags {
		if err := cmd.RegisterFlagCompletionFunc(name, none); err != nil {
			panic(err)
		}
	}
}
