package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
	"weir/scheduling/access"
)

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
		Long: `Take such grants away; all of a subject, if none is named. Jobs that run go on. Of
operations that need the grant, each job that would start from then on fails.`,
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
