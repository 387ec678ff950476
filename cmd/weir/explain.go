package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
	"weir/messages/explainpb"
	"weir/raftstore/state"
)

func newExplainCommand(f *clientFlags) *cobra.Command {
	var tree string
	cmd := group(&cobra.Command{
		Use:   "explain",
		Short: "Explain why jobs wait, how a share was computed, why a job was preempted",
		Long: `Explain why jobs wait, how a share was computed, why a job was preempted.

The first line is the answer, the lines below are its reasons, recorded by the
leader's scheduler as it decided, and read from the replicated state. In json and
yaml each fact has a stable code and its numbers.`,
		Example: "  weir explain op '*nightly'\n  weir explain job 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4a\n  weir explain pool ads -o json",
	},
		newExplainVerb(f, &tree, "op OPERATION", "Explain why the jobs of an operation wait, and how its share was computed", operationNames(false),
			func(name string) *apipb.ExplainRequest { return &apipb.ExplainRequest{Operation: name} }),
		newExplainVerb(f, &tree, "job JOB", "Explain whether a job can be preempted, and why it was", jobNames(false),
			func(name string) *apipb.ExplainRequest { return &apipb.ExplainRequest{Job: name} }),
		newExplainVerb(f, &tree, "pool POOL", "Explain how the share of a pool was computed, and which of its limits are reached", poolNames,
			func(name string) *apipb.ExplainRequest { return &apipb.ExplainRequest{Pool: name} }))
	cmd.PersistentFlags().StringVar(&tree, "tree", "", "pool tree (default: all trees of an operation, the default tree of a pool)")
	return cmd
}

func newExplainVerb(f *clientFlags, tree *string, use, short string, names lister, request func(name string) *apipb.ExplainRequest) *cobra.Command {
	verb, what, _ := strings.Cut(use, " ")
	return watchable(&cobra.Command{
		Use:               use,
		Short:             short,
		Example:           fmt.Sprintf("  weir explain %s %s --watch", verb, what),
		ValidArgsFunction: f.suggest(true, names),
		RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
			m := request(args[0])
			m.Tree = *tree
			said, err := s.Explain(ctx, m)
			answer := &apipb.ExplainResponse{Explanations: said}
			ids, of := s.named(ctx, answer), ""
			if m.GetJob() != "" && err == nil && s.format.forPeople() {
				if job, unknown := s.GetJob(ctx, m.GetJob()); unknown == nil {
					ids, of = s.called(ctx, job.GetOperationId()), "of operation "+job.GetOperationId()+"\n"
				}
			}
			return view{message: answer, text: func(now time.Time) string { return ids.In(of) + explanationsText(said, ids, now) }}, explainedElsewhere(ctx, s, args[0], err)
		}),
	})
}

// explainedElsewhere adds a hint to the error if the id of an unknown operation is that of a job,
// or the reverse.
func explainedElsewhere(ctx context.Context, s *session, id string, err error) error {
	switch client.CodeOf(err) {
	case state.CodeUnknownOperation:
		if _, known := s.GetJob(ctx, id); known == nil {
			return fmt.Errorf("%w; %s is a job: weir explain job %s", err, id, id)
		}
	case apipb.CodeNoSuchJob:
		if _, known := s.GetOperation(ctx, id); known == nil {
			return fmt.Errorf("%w; %s is an operation: weir explain op %s", err, id, id)
		}
	}
	return err
}

func explanationsText(all []*explainpb.Explanation, ids figures.IDs, now time.Time) string {
	parts := make([]string, len(all))
	for i, x := range all {
		parts[i] = explanationText(x, ids, now)
	}
	return strings.Join(parts, "\n")
}

// explanationText formats an explanation for people: the answer, and the facts below it.
func explanationText(x *explainpb.Explanation, ids figures.IDs, now time.Time) string {
	var b strings.Builder
	title := x.GetSubject() + " " + ids.Owned(x.GetId()) + when(x.GetState() != "", ", "+x.GetState()) +
		when(x.GetSubject() != "pool" && x.GetPool() != "", ", in pool "+x.GetPool()) + when(x.GetTree() != "", " of tree "+x.GetTree())
	fmt.Fprintf(&b, "%s\n", printable(title))
	fmt.Fprintf(&b, "%s\n", printable(sentence(ids.In(here(cmp.Or(x.GetText(), "nothing to explain"), now)))))
	if x.GetEstimatedStart() != nil {
		fmt.Fprintf(&b, "expected start: %s\n", printable(startText(x, now)))
	}
	for i, fact := range x.GetFacts() {
		// The expected start is shown above already.
		if i > 0 && fact.GetCode() != "estimated_start" {
			fmt.Fprintf(&b, "  - %s\n", printable(ids.In(here(fact.GetText(), now))))
		}
	}
	if n := x.GetFactsLeftOut(); n > 0 {
		fmt.Fprintf(&b, "  - and %d more\n", n)
	}
	victims := newGrid("job", "operation", "title", "user", "pool", "node", "started")
	for _, v := range x.GetLikelyVictims() {
		of := v.GetOperation()
		victims.row(ids.ID(v.GetJob()), ids.ID(of), ids.Title(of), ids.User(of), ids.Pool(of), v.GetNode(), age(v.GetStartTime(), now))
	}
	tasks := newGrid("task", "waits for", "jobs", "nodes that fit", "nodes")
	for _, t := range x.GetTasks() {
		if differ(x.GetTasks()) {
			tasks.row(t.GetName(), t.GetVerdict(), t.GetPending(), t.GetNodes().GetFit(), t.GetNodes().GetAll())
		}
	}
	waits := newGrid("waits for", "operations", "jobs", "first", "why it waits")
	for _, w := range x.GetWaits() {
		waits.row(w.GetVerdict(), w.GetOperations(), w.GetJobs(), ids.Operation(w.GetFirst()), ids.In(here(w.GetText(), now)))
	}
	return b.String() + victims.section("jobs that would be preempted:\n") + tasks.section("what its tasks wait for:\n") +
		when(x.GetTasksLeftOut() > 0, fmt.Sprintf("%d more of its tasks have jobs to start\n", x.GetTasksLeftOut())) +
		waits.section("what its operations wait for:\n")
}

// startText returns the expected start of a job, its range, and how the job gets its
// resources.
func startText(x *explainpb.Explanation, now time.Time) string {
	start := x.GetEstimatedStart().AsTime().Sub(now)
	text := cmp.Or(when(start >= time.Second, "in about "+span(start)), "at any moment")
	if latest := x.GetEstimatedLatest(); latest != nil {
		earliest := x.GetEstimatedEarliest().AsTime().Sub(now)
		from := cmp.Or(when(earliest >= time.Second, fmt.Sprintf("between %s and ", span(earliest))), "at most ")
		text += ", " + from + span(latest.AsTime().Sub(now))
	}
	return text + when(x.GetEstimatedBy() != "", " ("+strings.ReplaceAll(x.GetEstimatedBy(), "_", " ")+")")
}

// differ reports whether tasks wait for different things.
func differ(tasks []*explainpb.Task) bool {
	return slices.ContainsFunc(tasks, func(t *explainpb.Task) bool { return t.GetVerdict() != tasks[0].GetVerdict() })
}

// instants matches times as replicas write them into texts.
var instants = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b`)

// here converts the times in a text to the local time zone.
func here(text string, now time.Time) string {
	return instants.ReplaceAllStringFunc(text, func(instant string) string {
		t, err := time.Parse(time.RFC3339Nano, instant)
		if err != nil {
			return instant
		}
		return t.In(now.Location()).Format("2006-01-02 15:04:05 MST")
	})
}

// sentence capitalizes the first letter of text.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
