package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
	"weir/scheduling/access"
)

func newWhoamiCommand(f *clientFlags) *cobra.Command {
	var on apipb.MayIRequest
	cmd := &cobra.Command{
		Use:   "whoami [RIGHT]",
		Short: "Show who you are to the cluster, and what you may do",
		Long: `Show who you are to the cluster: user, groups, as whom your jobs may run, and the rights that pools give to you.
The pools below a pool give its rights too. With a right and --pool or --operation it
says whether you have the right there; if not, who has it, and exits with 1.`,
		Example: `  weir whoami
  weir whoami use --pool ads
  weir whoami manage --operation '*nightly'`,
		ValidArgsFunction: fixed("read", "use", "manage", "administer"),
	}
	checked(cmd, func(args []string) error {
		asked := len(args) > 0
		if named := on.GetPool() != "" || on.GetOperation() != ""; named != asked || on.GetPool() != "" && on.GetOperation() != "" {
			return fmt.Errorf("give RIGHT together with --pool or --operation, or neither")
		}
		if !asked {
			return nil
		}
		_, err := access.ParseRight(args[0])
		return err
	})
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		if len(args) == 0 {
			return showWho(ctx, s)
		}
		on.Right = args[0]
		answer, err := s.MayI(ctx, &on)
		if err == nil && !answer.GetAllowed() {
			err = fmt.Errorf("no: %s", answer.GetReason())
		}
		return s.said(err, answer, "yes")
	})
	cmd.Flags().StringVar(&on.Pool, "pool", "", "pool on which you would need the right; '<Root>' is the root of the tree")
	cmd.Flags().StringVar(&on.Tree, "tree", "", "pool tree of --pool (default: the default tree)")
	cmd.Flags().StringVar(&on.Operation, "operation", "", "operation on which you would need the right")
	return cmd
}

func showWho(ctx context.Context, s *session) error {
	who, err := s.WhoAmI(ctx)
	if err != nil {
		return err
	}
	return s.show(view{message: who, text: func(time.Time) string { return whoText(who) }})
}

func whoText(who *apipb.WhoAmIResponse) string {
	page := newFacts()
	page.add("user", who.GetUser())
	page.add("role", who.GetRole())
	page.add("gateway", who.GetGateway())
	page.add("groups", strings.Join(who.GetGroups(), ", "))
	if who.GetRole() == "operator" {
		page.add("rights", "all")
		return page.String()
	}
	if mine := who.GetAccounts(); mine != nil {
		page.add("accounts", cmp.Or(identityText(mine.GetAccounts(), mine.GetGroups(), mine.GetIsolationNone()), "none by name (weir account list)"))
	}
	if len(who.GetRights()) == 0 {
		page.add("rights", "on no pool: what you start, you manage")
		return page.String()
	}
	g := newGrid("tree", "pool", "your rights")
	for _, on := range who.GetRights() {
		g.row(on.GetTree(), on.GetPool(), strings.Join(on.GetRights(), ", "))
	}
	return page.String() + "\n" + g.String()
}

func newGroupCommand(f *clientFlags) *cobra.Command {
	return group(&cobra.Command{
		Use:   "group",
		Short: "Show and change groups of users",
		Long: `Show and change groups of users, to whom pools give rights together (weir pool acl).
Changes need operator credentials.`,
		Example: "  weir group add ads ann bob\n  weir group list\n  weir group remove ads bob",
	}, &cobra.Command{
		Use:     "list",
		Short:   "List groups with their users",
		Example: "  weir group list\n  weir group list -o json",
		RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
			all, err := s.Groups(ctx, "")
			return view{message: &apipb.GroupsResponse{Groups: all}, rows: true, text: func(time.Time) string { return groupsText(all) }}, err
		}),
	}, editsGroup(f, &cobra.Command{
		Use:   "add GROUP [USER...]",
		Short: "Add users to a group; create the group if there is none",
		Long: `Add users to a group; create the group if there is none. A group whose users a gateway
tells the cluster of can be created without users.`,
		Example: "  weir group add ads ann bob",
	}, func(args []string) (string, *apipb.EditGroupRequest) {
		users := cmp.Or(strings.Join(args[1:], ", "), "no users")
		return fmt.Sprintf("group %s: added %s", args[0], users), &apipb.EditGroupRequest{Group: args[0], Add: args[1:]}
	}), editsGroup(f, &cobra.Command{
		Use:        "remove GROUP [USER...]",
		SuggestFor: suggestRemove,
		Short:      "Remove users from a group; without users, remove the group",
		Long: `Remove users from a group, and with that the rights that they have through it. Without
users, remove the group: no pool and no operation may give rights to it any more.`,
		Example: "  weir group remove ads bob\n  weir group remove ads",
	}, func(args []string) (string, *apipb.EditGroupRequest) {
		if len(args) == 1 {
			return "removed group " + args[0], &apipb.EditGroupRequest{Group: args[0], Delete: true}
		}
		return fmt.Sprintf("group %s: removed %s", args[0], strings.Join(args[1:], ", ")), &apipb.EditGroupRequest{Group: args[0], Remove: args[1:]}
	}))
}

// editsGroup makes cmd apply the change of a group that the function edit returns, and print the
// text `done`.
func editsGroup(f *clientFlags, cmd *cobra.Command, edit func(args []string) (done string, edit *apipb.EditGroupRequest)) *cobra.Command {
	force := false
	cmd.Flags().BoolVar(&force, "force", false, "remove or create the group although operations name it in their acl: whoever is in a group of this name has rights on them")
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		done, request := edit(args)
		request.Force = force
		return s.said(s.EditGroup(ctx, request), &apipb.EditGroupResponse{}, "%s", done)
	})
	return cmd
}

func groupsText(groups []*apipb.Group) string {
	g := newGrid("group", "users")
	for _, group := range groups {
		g.row(group.GetName(), cmp.Or(strings.Join(group.GetUsers(), ", "), none))
	}
	return g.String()
}

func newAccountCommand(f *clientFlags) *cobra.Command {
	return group(&cobra.Command{
		Use:   "account",
		Short: "Show and change who may have jobs run as which account of the machines",
		Long: `Show and change who may have jobs run as which account of the machines (user and group in
a specification), and who may say isolation: none there. Without a grant both are
refused. Operators need none. Changes need operator credentials.`,
		Example: "  weir account allow user:ann --as ann --group ads\n  weir account list\n  weir account disallow user:ann",
	}, &cobra.Command{
		Use:     "list",
		Short:   "List who may have jobs run as which account",
		Example: "  weir account list\n  weir account list -o json",
		RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
			all, err := s.Accounts(ctx)
			return view{message: all, rows: true, text: func(now time.Time) string { return accountsText(all, now) }}, err
		}),
	}, editsAccounts(f, &cobra.Command{
		Use:   "allow SUBJECT",
		Short: "Allow a subject to have jobs run as accounts of the machines",
		Long: `Allow a subject (user:NAME, group:NAME or * for everyone) to have jobs run as accounts
and with groups of the machines, by name or by number, as specifications write them. It
adds to what the subject may already. Jobs of root also need --allow-root-jobs on the
agents.`,
		Example: "  weir account allow user:ann --as ann --group ads\n  weir account allow group:build --as build --isolation-none",
	}, false), editsAccounts(f, &cobra.Command{
		Use:        "disallow SUBJECT",
		SuggestFor: suggestRemove,
		Short:      "Take such grants away; all of a subject, if none is named",
		Long: `Take such grants away; all of a subject, if none is named. Jobs that run go on. No other
job of operations that need the grant starts until it is given again.`,
		Example: "  weir account disallow user:ann --as ann\n  weir account disallow group:build",
	}, true))
}

// editsAccounts makes cmd change the grants of a subject.
func editsAccounts(f *clientFlags, cmd *cobra.Command, disallow bool) *cobra.Command {
	request := apipb.EditAccountsRequest{Disallow: disallow}
	flags := cmd.Flags()
	flags.StringSliceVar(&request.Accounts, "as", nil, "account of the machines, by name or number; may be given several times")
	flags.StringSliceVar(&request.Groups, "group", nil, "group of the machines, by name or number; may be given several times")
	flags.BoolVar(&request.IsolationNone, "isolation-none", false, "isolation: none in specifications")
	cmd.ValidArgsFunction = f.suggest(true, subjectNames)
	checked(cmd, func(args []string) error {
		if len(request.GetAccounts()) == 0 && len(request.GetGroups()) == 0 && !request.GetIsolationNone() && !disallow {
			return errors.New("give at least one of --as, --group and --isolation-none")
		}
		for flag, names := range map[string][]string{"--as": request.GetAccounts(), "--group": request.GetGroups()} {
			for _, name := range names {
				if !access.IsAccount(name) {
					return fmt.Errorf("%s %q: must be the name or the number of a %s of the machines", flag, name, map[string]string{"--as": "user", "--group": "group"}[flag])
				}
			}
		}
		_, err := access.ParseSubject(args[0])
		return err
	})
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		request.Subject = args[0]
		done := "%s may have jobs run %s"
		if disallow {
			done = "%s may no longer have jobs run %s"
		}
		what := identityText(request.GetAccounts(), request.GetGroups(), request.GetIsolationNone())
		return s.said(s.EditAccounts(ctx, &request), &apipb.EditAccountsResponse{}, done, args[0], cmp.Or(what, "as any account"))
	})
	return cmd
}

// identityText says as whom jobs run.
func identityText(accounts, groups []string, isolationNone bool) string {
	return joined(", ", when(len(accounts) > 0, "as "+strings.Join(accounts, ", ")), when(len(groups) > 0, "in group "+strings.Join(groups, ", ")),
		when(isolationNone, "with isolation: none"))
}

func accountsText(all *apipb.AccountsResponse, now time.Time) string {
	g := newGrid("subject", "accounts", "groups", "isolation: none", "changed")
	for _, a := range all.GetAccounts() {
		g.row(a.GetSubject(), cmp.Or(strings.Join(a.GetAccounts(), ", "), none), cmp.Or(strings.Join(a.GetGroups(), ", "), none),
			cmp.Or(when(a.GetIsolationNone(), "yes"), none), moment(a.GetModifiedTime(), now))
	}
	return g.String()
}

// subjectNames suggests subjects: users with operations, groups, and everyone.
func subjectNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	out := []cobra.Completion{string(access.Everyone)}
	groups, err := groupNames(ctx, s)
	for _, name := range groups {
		out = append(out, string(access.GroupSubject(name)))
	}
	users, more := userNames(ctx, s)
	for _, name := range users {
		out = append(out, "user:"+name)
	}
	return out, errors.Join(err, more)
}

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
