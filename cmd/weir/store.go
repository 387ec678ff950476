package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
)

func newStoreCommand(f *clientFlags) *cobra.Command {
	return group(&cobra.Command{
		Use:   "store",
		Short: "Give operations credentials of object stores",
		Long: `Give operations credentials of object stores. A store has prefixes of objects and pools:
operations in these pools, and in pools below them, read and write the objects with the
store's credentials. No other operation can. Objects with none of the prefixes are read
and written with the credentials of the replicas. All of this needs operator credentials.`,
		Example: "  weir store add ads --endpoint https://s3.example.com --access-key AK1 --secret-key-file key --prefix s3://ads --pool ads\n  weir store list",
	}, &cobra.Command{
		Use:     "list",
		Short:   "List stores, without secret keys",
		Example: "  weir store list\n  weir store list -o json",
		RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
			all, err := s.Stores(ctx)
			return view{message: all, rows: true, text: func(time.Time) string { return storesText(all) }}, err
		}),
	}, changesStore(f, true, &cobra.Command{
		Use:     "add STORE",
		Short:   "Create a store",
		Long:    "Create a store. Without --pool, operations in all pools of its tree may use it.",
		Example: `  weir store add ads --endpoint https://s3.example.com --access-key AK1 --secret-key-file key --prefix s3://ads --prefix s3://shared/ads --pool ads`,
	}), changesStore(f, false, &cobra.Command{
		Use:   "set STORE",
		Short: "Change a store",
		Long: `Change what is given of a store; the rest stays. --prefix and --pool replace all prefixes
and all pools. Running jobs keep the URLs that they have.`,
		Example: "  weir store set ads --access-key AK2 --secret-key-file key\n  weir store set ads --pool ads --pool research",
	}), &cobra.Command{
		Use:        "remove STORE",
		SuggestFor: suggestRemove,
		Short:      "Remove a store",
		Long:       "Remove a store. Its objects are then read and written with the credentials of the replicas.",
		Example:    "  weir store remove ads",
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			err := s.EditStore(ctx, &apipb.EditStoreRequest{Store: &apipb.NamedStore{Name: args[0]}, Delete: true})
			return s.said(err, &apipb.EditStoreResponse{}, "removed store %s", args[0])
		}),
	})
}

// changesStore makes cmd create or change a store.
func changesStore(f *clientFlags, create bool, cmd *cobra.Command) *cobra.Command {
	var store apipb.NamedStore
	var file string
	flags := cmd.Flags()
	flags.StringVar(&store.Endpoint, "endpoint", "", "URL of the store, such as https://s3.example.com")
	flags.StringVar(&store.Region, "region", "", "region of the store (default: us-east-1)")
	flags.StringVar(&store.AccessKey, "access-key", "", "access key")
	flags.StringVar(&file, "secret-key-file", "", "file with the secret key; - for standard input")
	flags.StringSliceVar(&store.Prefixes, "prefix", nil, "objects that it is for: s3://BUCKET or s3://BUCKET/KEY, with all below; can be repeated")
	flags.StringSliceVar(&store.Pools, "pool", nil, "pool whose operations may use it, with the pools below; can be repeated")
	flags.StringVar(&store.Tree, "tree", "", "tree of the pools (default: the default tree; of a store that there is, its tree)")
	checked(cmd, func([]string) error {
		if !create {
			if store.GetEndpoint() == "" && store.GetRegion() == "" && store.GetAccessKey() == "" && file == "" && len(store.GetPrefixes())+len(store.GetPools()) == 0 && store.GetTree() == "" {
				return errors.New("there is nothing to change: give a flag, such as --pool")
			}
			return nil
		}
		return require(cmd, "endpoint", "access-key", "secret-key-file", "prefix")
	})
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		store.Name = args[0]
		req := &apipb.EditStoreRequest{Store: &store, Create: create}
		if file != "" {
			key, err := readSecretKey(cmd, file)
			if err != nil {
				return err
			}
			req.SecretKey = key
		}
		return s.said(s.EditStore(ctx, req), &apipb.EditStoreResponse{}, "%s store %s", when(create, "created")+when(!create, "changed"), args[0])
	})
	return cmd
}

// readSecretKey reads a key from a file, or from standard input for -.
func readSecretKey(cmd *cobra.Command, file string) (string, error) {
	_, data, err := readInput("secret key", file, cmd.InOrStdin())
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(data))
	if key == "" || strings.ContainsAny(key, "\n\x00") {
		return "", usage(fmt.Errorf("%s: must have one line, the secret key", file))
	}
	if info, err := os.Stat(file); err == nil && file != "-" && info.Mode().Perm()&0o004 != 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: everyone on this machine can read it: chmod go-r %s\n", file, file)
	}
	return key, nil
}

func storesText(all *apipb.StoresResponse) string {
	g := newGrid("store", "endpoint", "access key", "prefixes", "tree", "pools")
	for _, o := range all.GetStores() {
		g.row(o.GetName(), o.GetEndpoint(), o.GetAccessKey(), strings.Join(o.GetPrefixes(), ", "), o.GetTree(), strings.Join(o.GetPools(), ", "))
	}
	return g.String()
}
