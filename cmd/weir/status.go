package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"weir/api/client"
	"weir/cmd/weir/internal/figures"
	"weir/cmd/weir/internal/top"
	"weir/messages/apipb"
	"weir/messages/statepb"
)

func newStatusCommand(f *clientFlags) *cobra.Command {
	return watchable(&cobra.Command{
		Use:   "status",
		Short: "Show the health of the cluster",
		Long: `Show the health of the cluster and what needs attention.

All known replicas are asked once; the answer shown is that of a replica that sees a
leader with a majority, if there is one. Without such a leader the exit code is 3.`,
		Example: `  weir status
  weir status --watch
  weir status -o json | jq .problems`,
		RunE: f.verb(func(ctx context.Context, s *session, _ []string) error {
			able := false
			err := s.repeat(ctx, isSet(s.cmd, "watch"), func(ctx context.Context) (view, error) {
				answers := s.StatusAll(ctx)
				best, err := bestStatus(answers)
				if err != nil {
					return view{}, err
				}
				best = withOthers(best, answers)
				able = acts(best)
				return statusView(best), nil
			})
			if err == nil && !able {
				return &exitError{exitNotReached, errors.New("no leader with a majority of the replicas")}
			}
			return err
		}),
	})
}

// newTopCommand returns the terminal view. It draws on the whole screen, so it says itself that the
// cluster does not answer.
func newTopCommand(f *clientFlags) *cobra.Command {
	cmd := top.NewCommand(func(cmd *cobra.Command, show func(context.Context, top.Cluster) error) error {
		c, err := f.open(nil)
		if err != nil {
			return usage(err)
		}
		defer c.Close()
		ctx, cancel := f.limit(cmd.Context())
		defer cancel()
		err = show(ctx, top.NewCluster(c, top.Texts{
			Event:   happened,
			Explain: explanationsText,
		}))
		if errors.Is(err, context.DeadlineExceeded) {
			// --timeout has ended it.
			return nil
		}
		return explain(err)
	}, usage)
	checked(cmd, func([]string) error {
		switch {
		case !f.format.forPeople():
			return fmt.Errorf("--output %s: weir top is for people: use weir status, weir pool list, weir op list or weir node list", f.format)
		case f.timeout < 0:
			return fmt.Errorf("--timeout %v: must not be negative", f.timeout)
		}
		return nil
	})
	return cmd
}

// bestStatus returns the status of the replica that knows most: one that sees a leader with
// a majority, and of those the most up-to-date.
func bestStatus(answers []client.ReplicaStatus) (*apipb.StatusResponse, error) {
	var best *apipb.StatusResponse
	silent := &client.UnreachableError{What: "status"}
	for _, answer := range answers {
		switch {
		case answer.Err != nil:
			try := client.Try{Address: answer.Address, Count: 1, Err: answer.Err}
			var one *client.UnreachableError
			if errors.As(answer.Err, &one) && len(one.Tried) == 1 {
				try = one.Tried[0]
				silent.Elapsed = max(silent.Elapsed, one.Elapsed)
			}
			silent.Tried = append(silent.Tried, try)
		case best == nil || betterStatus(answer.Status, best):
			best = answer.Status
		}
	}
	if best == nil {
		return nil, silent
	}
	return best, nil
}

// lagEntries is how many log entries a replica may be behind another: a few full batches.
const lagEntries = 5000

// withOthers adds to a status the problems that other replicas report of themselves, how far each is in the
// log, and the replicas that do not answer.
func withOthers(best *apipb.StatusResponse, answers []client.ReplicaStatus) *apipb.StatusResponse {
	best = proto.CloneOf(best)
	for _, answer := range answers {
		st := answer.Status
		if i := slices.IndexFunc(best.GetMembers(), func(m *apipb.Member) bool { return m.GetId() == st.GetReplica() }); i >= 0 {
			best.Members[i].AppliedIndex = st.GetAppliedIndex()
		}
		if answer.Err != nil {
			if problem := silentReplica(best, answer, answers); problem != "" {
				best.Problems = append(best.Problems, problem)
			}
			continue
		}
		if st.GetReplica() == best.GetReplica() {
			continue
		}
		self, clock := "replica "+st.GetReplica()+" ", "clock of "+st.GetReplica()+" "
		for _, problem := range st.GetProblems() {
			if (strings.HasPrefix(problem, self) || strings.HasPrefix(problem, clock)) && !slices.Contains(best.Problems, problem) {
				best.Problems = append(best.Problems, problem)
			}
		}
		if behind := int64(best.GetAppliedIndex()) - int64(st.GetAppliedIndex()); behind > lagEntries {
			best.Problems = append(best.Problems, fmt.Sprintf("%sis %d log entries behind %s: it is catching up, or its disk or network is too slow",
				self, behind, best.GetReplica()))
		}
		best.Credentials = withCredentials(best.GetCredentials(), st.GetCredentials())
	}
	if problem := rotationProblem(best.GetCredentials()); problem != "" {
		best.Problems = append(best.Problems, problem)
	}
	return best
}

// silentReplica returns the problem of a replica that does not answer. It returns "" if the replica
// is known to be down, or if all members answer: then the address is that of a removed replica.
func silentReplica(best *apipb.StatusResponse, answer client.ReplicaStatus, answers []client.ReplicaStatus) string {
	who := answer.Address
	for _, m := range best.GetMembers() {
		if m.GetAddress() == answer.Address {
			if !m.GetAlive() {
				return ""
			}
			who = fmt.Sprintf("replica %s at %s", m.GetId(), answer.Address)
		}
	}
	if who == answer.Address && acts(best) && allAnswer(best.GetMembers(), answers) {
		return ""
	}
	return fmt.Sprintf("%s is unreachable from here: %s", who, silence(answer.Err))
}

// allAnswer reports whether every member has answered, at any address.
func allAnswer(members []*apipb.Member, answers []client.ReplicaStatus) bool {
	members = slices.DeleteFunc(slices.Clone(members), func(m *apipb.Member) bool { return m.GetSuffrage() == "" })
	return len(members) > 0 && !slices.ContainsFunc(members, func(m *apipb.Member) bool {
		return !slices.ContainsFunc(answers, func(a client.ReplicaStatus) bool { return a.Err == nil && a.Status.GetReplica() == m.GetId() })
	})
}

func betterStatus(a, b *apipb.StatusResponse) bool {
	if acts(a) != acts(b) {
		return acts(a)
	}
	return cmp.Or(cmp.Compare(a.GetTerm(), b.GetTerm()), cmp.Compare(a.GetAppliedIndex(), b.GetAppliedIndex())) > 0
}

// acts reports whether there is a leader that a majority follows.
func acts(st *apipb.StatusResponse) bool { return st.GetQuorum() && st.GetLeader() != "" }

// statusView shows a status.
func statusView(st *apipb.StatusResponse) view {
	calm := proto.CloneOf(st)
	calm.AppliedIndex, calm.Replica, calm.Log = 0, "", nil
	calm.CheckedIndex, calm.CheckedTime, calm.HashedIndex, calm.StateHash = 0, nil, 0, nil
	for _, m := range calm.GetMembers() {
		m.AppliedIndex = 0
	}
	for i, problem := range calm.GetProblems() {
		// A new duration or count alone is not worth printing again.
		calm.Problems[i] = strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return -1
			}
			return r
		}, problem)
	}
	return view{message: st, calm: calm, text: func(now time.Time) string { return statusText(st, now) }}
}

// maxDraining is how many drained nodes a status names.
const maxDraining = 5

// statusText begins with the health of the cluster.
func statusText(st *apipb.StatusResponse, now time.Time) string {
	var b strings.Builder
	health := "working; needs attention:"
	switch {
	case !acts(st):
		health = fmt.Sprintf("UNAVAILABLE; last known to replica %s:", printable(st.GetReplica()))
	case len(st.GetProblems()) == 0:
		health = "healthy"
	}
	fmt.Fprintf(&b, "cluster %s: %s\n", printable(st.GetClusterId()), health)
	for _, problem := range st.GetProblems() {
		b.WriteString("  ! " + printable(problem) + "\n")
	}
	page := newFacts()
	leader := cmp.Or(st.GetLeader(), "not known")
	switch {
	case acts(st):
		leader += fmt.Sprintf(" (term %d)", st.GetTerm())
	case st.GetLeader() != "":
		leader += " (without a majority)"
	}
	page.add("leader", leader)
	if running := st.GetClusterVersion(); running > 0 {
		page.add("cluster version", fmt.Sprint(running)+when(running < st.GetCan(), fmt.Sprintf("; %d once the upgrade is finished (weir cluster upgrade status)", st.GetCan())))
	}
	page.add("nodes", fmt.Sprintf("%d online, %d offline", st.GetNodesOnline(), st.GetNodesOffline()))
	if pace := st.GetPace(); pace != nil {
		millis := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
		page.add("heartbeats", fmt.Sprintf("each %v, lease %v", millis(pace.GetHeartbeatMillis()), millis(pace.GetLeaseMillis())))
	}
	page.add("node grants", cmp.Or(when(st.GetNodeGrants() > 0, fmt.Sprint(st.GetNodeGrants())), "none: nodes register with any tags and resources (weir node allow)"))
	named := st.GetDraining()[:min(len(st.GetDraining()), maxDraining)]
	for _, n := range named {
		page.add(cmp.Or(when(n.GetState() == statepb.NodeOffline, drainedOffline), "draining"), n.GetId()+": "+drainText(n, now))
	}
	if more := len(st.GetDraining()) - len(named) + int(st.GetDrainingLeftOut()); more > 0 {
		page.add("draining", fmt.Sprintf("and %d more: see weir node list", more))
	}
	page.add("operations", fmt.Sprintf("%d in progress: %d running, %d pending",
		st.GetOperationsInProgress(), st.GetOperationsRunning(), st.GetOperationsPending()))
	page.add("jobs", fmt.Sprintf("%d running, %d pending", st.GetJobsRunning(), st.GetJobsPending()))
	page.add("resources", amounts(st.GetTotal()))
	page.add("in use", amounts(st.GetUsage()))
	if st.GetCheckedIndex() > 0 {
		page.add("states checked", fmt.Sprintf("index %d, %s", st.GetCheckedIndex(), figures.Age(st.GetCheckedTime(), now)))
	}
	page.add("answered by", fmt.Sprintf("%s, version %s, log index %d", st.GetReplica(), st.GetVersion(), st.GetAppliedIndex()))
	b.WriteString("\n" + page.String())
	if len(st.GetMembers()) > 0 {
		b.WriteString("\n" + membersText(st.GetMembers(), true))
	}
	return b.String()
}

// silence returns in a few words why a replica did not answer.
func silence(err error) string {
	var call *os.SyscallError
	var network *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &call):
		return call.Err.Error()
	case errors.As(err, &network):
		return network.Err.Error()
	default:
		return err.Error()
	}
}
