package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"weir/api/discovery"
	"weir/cmd/poll"
	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

func newOpGetCommand(f *clientFlags) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "get OPERATION",
		Short: "Show one operation, by id or alias",
		Long: `Show one operation, by id or alias. In json and yaml it has its whole spec too, with
defaults filled in.`,
		Example: `  weir op get '*nightly' --watch
  weir op get 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4a -o yaml`,
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			if watch {
				return watched(ctx, s, s.WatchOperation, args[0], func(op *apipb.Operation) view { return operationView(op, s.named(ctx, op)) })
			}
			op, err := s.GetOperation(ctx, args[0])
			if err != nil {
				return err
			}
			return s.show(operationView(op, s.named(ctx, op)))
		}),
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "follow the operation until it has ended, and refresh at each change")
	return cmd
}

// watched shows the values of a watch until it ends: whenever they change, and on a
// terminal also every period, so that ages stay current.
func watched[T any](ctx context.Context, s *session, watch func(context.Context, string) iter.Seq2[T, error], name string, draw func(T) view) error {
	frames := s.frames()
	// mu guards frames.
	var mu sync.Mutex
	again, stop := context.WithCancel(ctx)
	var redrawing sync.WaitGroup
	var notRedrawn, failed error
	redrawing.Go(func() {
		defer stop()
		notRedrawn = poll.Every(again, s.period, func() (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			if !frames.begun {
				return false, nil
			}
			return false, frames.draw(frames.last, nil)
		})
	})
	for seen, err := range watch(again, name) {
		if failed = err; failed == nil {
			mu.Lock()
			failed = frames.draw(draw(seen), nil)
			mu.Unlock()
		}
		if failed != nil || again.Err() != nil {
			break
		}
	}
	stop()
	redrawing.Wait()
	switch {
	case ctx.Err() != nil:
		return frames.end(ctx)
	case !errors.Is(notRedrawn, context.Canceled):
		return notRedrawn
	case failed != nil:
		return failed
	}
	return frames.finish()
}

func operationView(op *apipb.Operation, ids figures.IDs) view {
	return view{message: op, text: func(now time.Time) string { return operationText(op, ids, now) }}
}

func operationText(op *apipb.Operation, ids figures.IDs, now time.Time) string {
	page := newFacts()
	page.add("operation", op.GetId())
	page.add("type", op.GetType())
	page.add("retry of", when(op.GetRetryOf() != "", ids.Operation(op.GetRetryOf())))
	page.add("not shown", op.GetHidden())
	if op.GetSpecCut() {
		page.add("description", "shortened, to make room for operations that ended later")
	}
	page.add("title", op.GetTitle())
	page.add("alias", op.GetAlias())
	page.addState("state", stateText(op))
	page.add("since", moment(op.GetStateSince(), now))
	page.add("waits for", op.GetPendingReason())
	page.add("user", op.GetUser())
	page.add("pool", fmt.Sprintf("%s, weight %s", op.GetPool(), number(op.GetWeight(), 3)))
	page.add("started", moment(op.GetStartTime(), now))
	page.add("finished", moment(op.GetFinishTime(), now))
	page.add("took", lasted(op.GetStartTime(), op.GetFinishTime(), now))
	page.add("controller", when(op.GetController() != "", fmt.Sprintf("replica %s, epoch %d", op.GetController(), op.GetControllerEpoch())))
	if op.FairShare != nil {
		var claimed *float64
		if trees := op.GetTrees(); len(trees) > 0 {
			// All shares on this page are those in the first tree.
			claimed = trees[0].ClaimedShare
		}
		page.add("shares", sharesText(op.FairShare, op.UsageShare, op.DemandShare, claimed))
	}
	if len(op.GetTrees()) > 1 {
		for _, in := range op.GetTrees() {
			page.add("in tree "+in.GetTree(), placeText(in))
		}
	}
	page.add("lost work", wasteText(op.GetWaste()))
	page.add("input", inputText(op))
	page.add("output", outputText(op))
	for _, t := range op.GetTasks() {
		if t.GetGang() != nil {
			page.add("gang "+t.GetName(), gangText(t.GetGang()))
		}
	}
	annotations := op.GetAnnotations().AsMap()
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if label, is := op.GetLabels()[name]; is {
			page.add("label "+name, label)
			continue
		}
		page.add("annotation "+name, fmt.Sprint(annotations[name]))
	}
	others := counts(op.GetPreemptedOthers())
	return page.String() + when(len(op.GetTasks()) > 0, "\n"+tasksText(op)) + learnedText(op) + skippedText(op) + alertsText(op.GetAlerts()) +
		preemptedText(op, ids) + when(others != "", "\njobs of others preempted for it: "+others+"\n") + failureText(op.GetResult())
}

// placeText describes an operation in one of its trees: pool, shares, and why it waits.
func placeText(in *apipb.OperationTree) string {
	return fmt.Sprintf("pool %s, %s", in.GetPool(), sharesText(in.FairShare, in.UsageShare, in.DemandShare, in.ClaimedShare)) +
		when(in.GetPendingReason() != "", ", waits: "+in.GetPendingReason())
}

// sharesText returns the fair, usage, demand and claimed shares of an operation.
func sharesText(fair, usage, demand, claimed *float64) string {
	return fmt.Sprintf("fair %s, usage %s, demand %s", share(fair), share(usage), share(demand)) +
		when(claimed != nil && *claimed > 0, ", claimed "+share(claimed))
}

// tasksText draws the progress of an operation's tasks.
func tasksText(op *apipb.Operation) string {
	g := newGrid("task", "jobs>", "pending>", "running>", "completed>", "failed>", "aborted>", "restarted>", "max memory>", "cpu time>", "run time>", "a job holds")
	row := func(name string, t *apipb.TaskProgress) {
		g.row(name, t.GetTotal(), t.GetPending(), t.GetRunning(), t.GetCompleted(), t.GetFailed(), t.GetAborted(), t.GetRestarted(),
			when(t.GetMaxMemory() > 0, size(t.GetMaxMemory())), seconds(t.GetCpuSeconds()), seconds(t.GetRunSeconds()), amounts(t.GetJobResources()))
	}
	for _, t := range op.GetTasks() {
		row(t.GetName(), t)
	}
	if len(op.GetTasks()) > 1 {
		row("all", op.GetProgress())
	}
	aborted := counts(op.GetProgress().GetAbortedByReason())
	return g.String() + when(aborted != "", "aborted by reason: "+aborted+"\n") + givenUpText(op)
}

// preemptedText lists the operation's jobs that were preempted for others.
func preemptedText(op *apipb.Operation, ids figures.IDs) string {
	g := newGrid("preempted", "for operation", "leaving>", "gone>")
	for _, p := range op.GetPreempted() {
		g.row(p.GetKind(), ids.Operation(p.GetForOperation()), p.GetLeaving(), p.GetGone())
	}
	return g.section("")
}

// seconds formats a number of seconds; "" if it is zero.
func seconds(s float64) string { return when(s != 0, span(time.Duration(s*float64(time.Second)))) }

func newOpInstancesCommand(f *clientFlags) *cobra.Command {
	var watch, ready bool
	cmd := &cobra.Command{
		Use:   "instances OPERATION",
		Short: "Show the addresses of an operation's jobs, by id or alias",
		Long: `Show the addresses of an operation's jobs, by id or alias: live ones, draining
ones, which are about to stop and should get no new requests, and for a while those that
have stopped. A live one is ready as soon as it runs, unless its task has readiness or
it reports its own state: then it is ready when the check succeeds or the report says so.

The replica answers from its own state. It learns by gossip which jobs are being
stopped and which instances are ready, so its answer may be ahead of
what is committed.`,
		Example: `  weir op instances '*search'
  weir op instances '*search' --ready
  weir op instances '*search' --watch -o json`,
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			if watch {
				return watched(ctx, s, s.WatchInstances, args[0], func(seen *apipb.WatchInstancesResponse) view {
					return instancesView(seen, ready, s.ids())
				})
			}
			seen, err := s.Instances(ctx, args[0])
			if err != nil {
				return err
			}
			return s.show(instancesView(&apipb.WatchInstancesResponse{OperationId: seen.GetOperationId(), Instances: seen.GetInstances(), Over: seen.GetOver()}, ready, s.ids()))
		}),
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "follow the instances until the operation has ended, and refresh at each change")
	cmd.Flags().BoolVar(&ready, "ready", false, "show only instances that are ready")
	return cmd
}

func instancesView(seen *apipb.WatchInstancesResponse, ready bool, ids figures.IDs) view {
	if ready {
		seen = proto.CloneOf(seen)
		seen.Instances = slices.DeleteFunc(seen.GetInstances(), func(in *apipb.Instance) bool { return !in.GetReady() })
	}
	what := cmp.Or(when(ready, "ready jobs"), "jobs with an address")
	empty := when(len(seen.GetInstances()) == 0, fmt.Sprintf("operation %s has no %s", seen.GetOperationId(), what))
	return view{message: seen, rows: true, empty: empty, fit: func(now time.Time, screen int) string { return instancesText(seen, ids, now, screen) }}
}

func instancesText(seen *apipb.WatchInstancesResponse, ids figures.IDs, now time.Time, screen int) string {
	g := newGrid("task?2", "cookie>?1", "job", "state", "address", "node?3", "started?4")
	for _, in := range seen.GetInstances() {
		said := in.GetState()
		switch {
		case in.GetReady():
			said += ", ready"
		case in.GetUnready() != "":
			said += ", not ready: " + in.GetUnready()
		case said == discovery.Live:
			said += ", not ready"
		}
		said += when(in.GetReason() != "", ": "+in.GetReason())
		if in.GetDeadline() != nil && in.GetDeadline().AsTime().After(now) {
			said += fmt.Sprintf(", %s left", span(in.GetDeadline().AsTime().Sub(now)))
		}
		g.row(in.GetTask(), in.GetCookie(), ids.ID(in.GetJobId()), stateCell(said), addressesText(in), in.GetNode(), age(in.GetStartTime(), now))
	}
	return g.within(screen)
}

// addressesText returns the ports of an instance, each with its host.
func addressesText(in *apipb.Instance) string {
	all := make([]string, len(in.GetPorts()))
	for i, port := range in.GetPorts() {
		all[i] = net.JoinHostPort(in.GetHost(), fmt.Sprint(port))
	}
	return strings.Join(all, " ")
}

// readPart returns the fraction of the input that has been read.
func readPart(p *apipb.InputProgress) *float64 {
	part := float64(p.GetBytes()) / float64(max(p.GetBytesTotal(), 1))
	return &part
}

// inputText returns the size and progress of a map operation's input; "" for other
// operations.
func inputText(op *apipb.Operation) string {
	var parts []string
	if in := op.GetInput(); in != nil {
		parts = append(parts, fmt.Sprintf("%s in %s", size(in.GetBytes()), several(in.GetFiles(), "file")))
	}
	if p := op.GetProgress().GetInput(); p != nil {
		parts = append(parts, fmt.Sprintf("%s (%s) and %s read", size(p.GetBytes()), share(readPart(p)), several(p.GetRows(), "row")))
		if p.GetSkippedRecords() > 0 {
			parts = append(parts, several(p.GetSkippedRecords(), "record")+" skipped")
		}
	}
	return strings.Join(parts, "; ")
}

// outputText returns the path and size of a map operation's output; "" for other
// operations.
func outputText(op *apipb.Operation) string {
	switch out := op.GetOutput(); {
	case out != nil:
		return fmt.Sprintf("%s: %s, %s", out.GetPath(), several(out.GetRows(), "row"), size(out.GetBytes()))
	case op.GetType() == lifecycle.Map && !terminal(op):
		return "none until the operation completes"
	case op.GetType() == lifecycle.Map:
		return "none: the operation did not complete"
	}
	return ""
}

// skippedText lists the records on which every job failed.
func skippedText(op *apipb.Operation) string {
	g := newGrid("skipped record of", "from byte>", "to>", "it begins with")
	for _, t := range op.GetTasks() {
		for _, r := range t.GetInput().GetSkipped() {
			g.row(r.GetFile(), r.GetBegin(), r.GetEnd(), clip(printable(r.GetHead()), 60))
		}
	}
	return g.section("")
}

// sliceText describes the input slice of a job. Its file has a name only until the
// operation ends.
func sliceText(s *apipb.InputSlice) string {
	if s.GetFile() == "" {
		return fmt.Sprintf("bytes %d to %d of a file whose name was dropped when the operation ended", s.GetBegin(), s.GetEnd())
	}
	return fmt.Sprintf("%s, bytes %d to %d", s.GetFile(), s.GetBegin(), s.GetEnd())
}

// inputFacts adds what a job of a map operation reads, has read and has written.
func inputFacts(page facts, j *apipb.Job) {
	in := j.GetInput()
	const most = 10
	for i, s := range in.GetSlices() {
		if i == most {
			page.add("and", fmt.Sprintf("%d more slices", len(in.GetSlices())-most))
			break
		}
		page.add("reads", sliceText(s))
	}
	if in != nil && j.GetFinishTime() != nil {
		page.add("has read", fmt.Sprintf("%s, %s", several(in.GetRows(), "row"), size(in.GetBytes()))+
			when(in.GetRestBytes() > 0, fmt.Sprintf("; %s were left to another job", size(in.GetRestBytes()))))
	}
	out := j.GetOutput()
	page.add("has written", when(out != nil, fmt.Sprintf("%s, %s", several(out.GetRows(), "row"), size(out.GetBytes()))))
}

// gangText returns the progress of a gang.
func gangText(g *apipb.GangProgress) string {
	return fmt.Sprintf("incarnation %d, %d of %d ranks have completed", g.GetIncarnation(), g.GetCompletedRanks(), g.GetSize()) +
		when(g.GetReason() != "", "; the previous incarnation ended: "+g.GetReason())
}

// rankText returns a job's rank in its gang; "" for a job outside a gang.
func rankText(j *apipb.Job) string {
	switch {
	case j.GangRank != nil:
		return fmt.Sprintf("%d of incarnation %d", j.GetGangRank(), j.GetGangIncarnation())
	case j.GetGangIncarnation() > 0:
		return fmt.Sprintf("none: spare job of incarnation %d", j.GetGangIncarnation())
	}
	return ""
}
