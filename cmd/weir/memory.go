package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

func newMemoryCommand(f *clientFlags) *cobra.Command {
	return group(&cobra.Command{
		Use:   "memory",
		Short: "Show how much memory finished operations needed",
		Long: `Show how much memory finished operations needed. The next operation of the same
profile starts with that.`,
		Example: "  weir memory profiles\n  weir memory profiles ads/nightly",
	}, newMemoryProfilesCommand(f))
}

// profileFlags holds the flags of weir memory profiles.
type profileFlags struct {
	forget []string
	all    bool
	limit  int32
}

func newMemoryProfilesCommand(f *clientFlags) *cobra.Command {
	var flags profileFlags
	cmd := &cobra.Command{
		Use:   "profiles [KEY]",
		Short: "List memory profiles, the latest first, or forget some",
		Long: `List memory profiles, the latest first: the memory that jobs of finished operations used,
as fractions of their memory_limit. Tasks share a profile by their memory_profile,
or else by their name, command and isolation.

--forget and --forget-all make the next operations start without a profile. They
need operator credentials.`,
		Example: `  weir memory profiles
  weir memory profiles ads/nightly
  weir memory profiles --forget ads/nightly
  weir memory profiles --forget-all`,
	}
	checked(cmd, flags.check)
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		if flags.all || len(flags.forget) > 0 {
			return flags.run(ctx, s)
		}
		return showProfiles(ctx, s, strings.Join(args, ""), flags.limit)
	})
	cmd.Flags().StringArrayVar(&flags.forget, "forget", nil, "forget the profile of this key; can be repeated")
	cmd.Flags().BoolVar(&flags.all, "forget-all", false, "forget all profiles")
	cmd.Flags().Int32Var(&flags.limit, "limit", 100, "maximum number to list, up to 1000")
	return cmd
}

func (f *profileFlags) check(args []string) error {
	switch {
	case f.all && len(f.forget) > 0:
		return errors.New("--forget-all and --forget: give one of them")
	case len(args) > 0 && (f.all || len(f.forget) > 0):
		return fmt.Errorf("give either KEY %q to show it, or --forget", args[0])
	}
	for _, key := range f.forget {
		if key == "" {
			return errors.New("--forget: the key is empty (weir memory profiles lists them)")
		}
	}
	return nil
}

// run forgets the profiles that the flags name.
func (f *profileFlags) run(ctx context.Context, s *session) error {
	var forgotten int
	var err error
	if f.all {
		forgotten, err = s.ForgetAllMemoryProfiles(ctx)
	} else {
		forgotten, err = s.ForgetMemoryProfiles(ctx, f.forget...)
	}
	return s.said(err, &apipb.ForgetMemoryProfilesResponse{Forgotten: int32(forgotten)}, "%s forgotten", several(int64(forgotten), "memory profile"))
}

func showProfiles(ctx context.Context, s *session, key string, limit int32) error {
	page, err := s.MemoryProfiles(ctx, &apipb.MemoryProfilesRequest{Key: key, Limit: limit})
	if err != nil {
		return err
	}
	empty := when(len(page.GetProfiles()) == 0, "no memory profile yet: each finished operation of ten jobs or more saves one")
	return s.show(view{message: page, rows: key == "", empty: empty, text: func(now time.Time) string {
		if key != "" {
			return profileText(page.GetProfiles()[0], now)
		}
		return profilesText(page, now)
	}})
}

func profilesText(page *apipb.MemoryProfilesResponse, now time.Time) string {
	g := newGrid("key", "task", "jobs>", "operations>", "limit>", "process reserve>", "p50>", "p95>", "updated", "command")
	for _, p := range page.GetProfiles() {
		g.row(p.GetKey(), p.GetTask(), p.GetSamples(), p.GetOperations(), size(p.GetMemoryLimit()), size(p.GetReserve()),
			share(&p.P50), share(&p.P95), age(p.GetUpdatedTime(), now), clip(printable(p.GetCommand()), 40))
	}
	shown := len(page.GetProfiles())
	return g.String() + when(shown < int(page.GetTotal()), fmt.Sprintf("\nthe latest %d of %d: more with --limit\n", shown, page.GetTotal())) +
		when(page.GetHidden() > 0, fmt.Sprintf("\nof others, not shown: %d (it takes the right read: weir whoami)\n", page.GetHidden()))
}

func profileText(p *apipb.MemoryProfile, now time.Time) string {
	page := newFacts()
	page.add("profile", p.GetKey())
	page.add("task", p.GetTask())
	page.add("command", p.GetCommand())
	page.add("learned from", several(p.GetSamples(), "job")+" of "+several(p.GetOperations(), "operation"))
	page.add("last operation", p.GetLastOperation())
	page.add("updated", moment(p.GetUpdatedTime(), now))
	page.add("memory limit", size(p.GetMemoryLimit()))
	page.add("process reserve", size(p.GetReserve()))
	page.add("jobs use", fmt.Sprintf("half of them up to %s of the limit, 95 of 100 up to %s", share(&p.P50), share(&p.P95)))
	return page.String()
}

// reserveText describes the memory reserve of a job: the part of its processes and the part of
// its job proxy, each with its factor.
func reserveText(r *apipb.JobReserve, limit int64) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s for its processes", size(r.GetTotal()), size(r.GetUser())) +
		when(limit > 0, fmt.Sprintf(" (%s of the limit, %s)", share(&r.UserFactor), size(limit))) +
		fmt.Sprintf(", %s for its job proxy (%s times %s)", size(r.GetProxy()), number(r.GetProxyFactor(), 2), size(r.GetProxyEstimate()))
}

// learnedText draws the memory reserve that each task has learned for its next job: the part for
// the job's processes, which is within memory_limit, and the part for the job proxy, which is
// outside it.
func learnedText(op *apipb.Operation) string {
	g := newGrid("memory of", "limit>", "process reserve>", "of the limit>", "proxy reserve>", "together>", "learned from", "overdrafts>", "profile")
	for _, t := range op.GetTasks() {
		m := t.GetMemory()
		r := m.GetReserve()
		if r == nil {
			continue
		}
		from := "nothing yet"
		switch {
		case m.GetSamples() > 0 && m.GetFromProfile():
			from = several(m.GetSamples(), "job") + ", and earlier operations"
		case m.GetSamples() > 0:
			from = several(m.GetSamples(), "job")
		case m.GetFromProfile():
			from = "earlier operations"
		}
		g.row(t.GetName(), size(m.GetLimit()), size(r.GetUser()), share(&r.UserFactor), size(r.GetProxy()), size(r.GetTotal()), from,
			t.GetAbortedByReason()[lifecycle.AbortResourceOverdraft.String()], m.GetProfile())
	}
	return g.section("")
}

// alertsText lists the alerts of an operation, with advice to its owner.
func alertsText(alerts []*apipb.Alert) string {
	if len(alerts) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nalerts:\n")
	for _, a := range alerts {
		name := a.GetName() + when(a.GetTask() != "", " of task "+a.GetTask())
		fmt.Fprintf(&b, "  %s: %s\n", printable(name), printable(a.GetMessage()))
		b.WriteString(when(a.GetAdvice() != "", "    "+printable(a.GetAdvice())+"\n"))
	}
	return b.String()
}
