package bench

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"weir/actors/agent/runner/proctree"
	"weir/cmd/weir/internal/devcluster"
)

// scaleGoal is the most that a figure is to be for up to so many nodes.
type scaleGoal struct {
	nodes int
	most  float64
}

// scaleFigure is a row of the table. A figure has the first goal that is for as many nodes.
type scaleFigure struct {
	name, format string
	goals        []scaleGoal
}

// goalJobs is the most running allocations a node for which there are goals.
const goalJobs = 30

// The rows of the table.
var (
	registeredIn   = &scaleFigure{"1 bring-up: all nodes registered", "%.1f s", []scaleGoal{{1000, 5}, {5000, 25}, {10_000, 50}}}
	bringLeader    = &scaleFigure{"  processor time: leader", "%.1f s", nil}
	bringFollower  = &scaleFigure{"  a follower", "%.1f s", nil}
	bringNodes     = &scaleFigure{"  the nodes", "%.1f s", nil}
	refused        = &scaleFigure{"  connections refused", "%.0f", nil}
	ended          = &scaleFigure{"  connections ended", "%.0f", nil}
	idleLeader     = &scaleFigure{"2 idle: leader, of a core", "%.1f %%", []scaleGoal{{10_000, 50}}}
	idleFollower   = &scaleFigure{"  a follower", "%.1f %%", nil}
	idleHeartbeat  = &scaleFigure{"  leader, a heartbeat", "%.0f µs", nil}
	nodeLeader     = &scaleFigure{"  memory a node: leader", "%.1f KiB", nil}
	nodeFollower   = &scaleFigure{"  a follower", "%.1f KiB", nil}
	filledIn       = &scaleFigure{"3 filling: all allocations granted", "%.1f s", nil}
	filledRate     = &scaleFigure{"  allocations a second", "%.0f", nil}
	memoryLeader   = &scaleFigure{"  memory: leader", "%.2f GiB", []scaleGoal{{10_000, 2}}}
	memoryFollower = &scaleFigure{"  a follower", "%.2f GiB", nil}
	jobLeader      = &scaleFigure{"  memory an allocation: leader", "%.0f B", nil}
	jobFollower    = &scaleFigure{"  a follower", "%.0f B", nil}
	fullLeader     = &scaleFigure{"  then idle: leader, of a core", "%.1f %%", []scaleGoal{{10_000, 50}}}
	fullFollower   = &scaleFigure{"  a follower", "%.1f %%", nil}
	fullHeartbeat  = &scaleFigure{"  leader, a heartbeat", "%.0f µs", nil}
	poolsReplicas  = &scaleFigure{"4 100 viewers of pools: replicas, of a core", "%.1f %%", []scaleGoal{{10_000, 10}}}
	poolsGateway   = &scaleFigure{"  their gateway", "%.1f %%", nil}
	nodesReplicas  = &scaleFigure{"  of nodes: replicas, of a core", "%.1f %%", []scaleGoal{{10_000, 10}}}
	nodesGateway   = &scaleFigure{"  their gateway", "%.1f %%", nil}
	topPools       = &scaleFigure{"  weir top: an update of pools", "%.0f ms", []scaleGoal{{10_000, 100}}}
	topNodes       = &scaleFigure{"  of nodes", "%.0f ms", []scaleGoal{{10_000, 100}}}
	pagePools      = &scaleFigure{"  page: scripting an update of pools", "%.1f ms", []scaleGoal{{10_000, 100}}}
	pageOperations = &scaleFigure{"  of operations", "%.1f ms", []scaleGoal{{10_000, 100}}}
	pageNodes      = &scaleFigure{"  of nodes", "%.1f ms", []scaleGoal{{10_000, 100}}}
	pageOperation  = &scaleFigure{"  of an operation", "%.1f ms", []scaleGoal{{10_000, 100}}}
	acceptedIn     = &scaleFigure{"5 failover: submission accepted", "%.2f s", []scaleGoal{{5000, 3}, {10_000, 6}}}
	grantedIn      = &scaleFigure{"  its job runs", "%.2f s", []scaleGoal{{5000, 3}, {10_000, 6}}}
	lostJobs       = &scaleFigure{"  allocations lost", "%.0f", []scaleGoal{{math.MaxInt, 0}}}
	lostNodes      = &scaleFigure{"  nodes offline", "%.0f", []scaleGoal{{math.MaxInt, 0}}}
	churnAsked     = &scaleFigure{"6 churn: jobs a second that end", "%.0f", nil}
	churnRate      = &scaleFigure{"  of which completed", "%.0f", nil}
	churnLeader    = &scaleFigure{"  leader, of a core", "%.1f %%", nil}

	scaleFigures = []*scaleFigure{
		registeredIn, bringLeader, bringFollower, bringNodes, refused, ended,
		idleLeader, idleFollower, idleHeartbeat, nodeLeader, nodeFollower,
		filledIn, filledRate, memoryLeader, memoryFollower, jobLeader, jobFollower, fullLeader, fullFollower, fullHeartbeat,
		poolsReplicas, poolsGateway, nodesReplicas, nodesGateway, topPools, topNodes,
		pagePools, pageOperations, pageNodes, pageOperation,
		acceptedIn, grantedIn, lostJobs, lostNodes,
		churnAsked, churnRate, churnLeader,
	}
)

// scaleColumn has the figures of a number of nodes.
type scaleColumn struct {
	nodes, jobs int
	measured    map[*scaleFigure]float64
}

// of returns a figure, and its goal.
func (c *scaleColumn) of(f *scaleFigure) (value, goal string) {
	value, goal = "not measured", "–"
	is, measured := c.measured[f]
	if measured {
		value = fmt.Sprintf(f.format, is)
	}
	for _, g := range f.goals {
		if c.nodes > g.nodes || c.jobs > goalJobs {
			continue
		}
		goal = fmt.Sprintf(f.format, g.most)
		if measured && is > g.most {
			goal += " MISSED"
		}
		break
	}
	return value, goal
}

// tellScale tells a table of all columns.
func tellScale(columns []*scaleColumn) {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "scale")
	for _, c := range columns {
		fmt.Fprintf(w, "\t%d nodes, %d jobs each\tgoal", c.nodes, c.jobs)
	}
	fmt.Fprintln(w)
	for _, f := range scaleFigures {
		fmt.Fprint(w, f.name)
		for _, c := range columns {
			value, goal := c.of(f)
			fmt.Fprintf(w, "\t%s\t%s", value, goal)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	tell("%s", strings.TrimSuffix(table.String(), "\n"))
}

// gauged is what replicas and nodes have taken until a moment.
type gauged struct {
	at time.Time
	// leader is of the leader, follower of one of the others on average.
	leader, follower, nodes time.Duration
}

// gauge reads what the leader, the others and the nodes have taken.
func (s *scale) gauge(b *testing.B) gauged {
	b.Helper()
	g := gauged{at: time.Now()}
	for _, m := range s.replicas(b) {
		took := processorTime(b, m.Process.Pid)
		if m.Name == s.leader {
			g.leader = took
		} else {
			g.follower += took / followers
		}
	}
	for _, p := range s.processes {
		g.nodes += processorTime(b, p.command.Process.Pid)
	}
	return g
}

// since is what was taken after before, and in which time.
func (g gauged) since(before gauged) (took gauged, within time.Duration) {
	return gauged{leader: g.leader - before.leader, follower: g.follower - before.follower, nodes: g.nodes - before.nodes}, g.at.Sub(before.at)
}

// memory returns the bytes of the leader, and of one of the others on average, that are not of files.
func (s *scale) memory(b *testing.B) (leader, follower float64) {
	b.Helper()
	for _, m := range s.replicas(b) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.Process.Pid))
		if err != nil {
			b.Fatal(err)
		}
		sizes, err := proctree.Sizes(data)
		if err != nil {
			b.Fatal(err)
		}
		if m.Name == s.leader {
			leader = float64(sizes["RssAnon"])
		} else {
			follower += float64(sizes["RssAnon"]) / followers
		}
	}
	return leader, follower
}

// replicas are the members that are replicas.
func (s *scale) replicas(b *testing.B) []devcluster.Member {
	b.Helper()
	record, err := devcluster.Load(s.c.Dir)
	if err != nil {
		b.Fatal(err)
	}
	return record.Members
}

// ports is how connections with replicas fare.
type ports struct {
	refused, begun, open float64
	// heard is how many messages the leader has received, asking how many requests are open.
	heard, asking float64
}

// ports reads the metrics of all replicas.
func (s *scale) ports(b *testing.B) ports {
	b.Helper()
	sum, err := s.readPorts(b)
	if err != nil {
		b.Fatal(err)
	}
	return sum
}

// readPorts is like ports, for replicas that may be too busy to answer.
func (s *scale) readPorts(b *testing.B) (sum ports, err error) {
	b.Helper()
	config, err := s.c.Settings.Config()
	if err != nil {
		return sum, err
	}
	for _, m := range s.replicas(b) {
		request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, config.URL(m.Address)+"/metrics", nil)
		if err != nil {
			return sum, err
		}
		answer, err := config.HTTP.Do(request)
		if err != nil {
			return sum, err
		}
		values, err := readMetrics(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			return sum, fmt.Errorf("metrics of %s: %s, %w", m.Name, answer.Status, err)
		}
		for name, value := range values {
			switch name, _, _ := strings.Cut(name, "{"); name {
			case "weir_connections_refused_total", "weir_remote_refusals_total":
				sum.refused += value
			case "weir_remote_connects_total":
				sum.begun += value
			case "weir_remote_peers":
				sum.open += value
			case "weir_gateway_requests_in_flight":
				sum.asking += value
			}
		}
		if m.Name == s.leader {
			sum.heard = values["weir_remote_received_messages_total"]
		}
	}
	return sum, nil
}

// jobCounts are numbers of jobs.
type jobCounts struct {
	running, completed, aborted int64
	// reasons are why jobs were aborted.
	reasons map[string]int64
}

// count counts the jobs of all operations.
func (s *scale) count(b *testing.B) (sum jobCounts) {
	b.Helper()
	sum.reasons = map[string]int64{}
	for _, id := range s.operations {
		operation, err := s.c.GetOperation(b.Context(), id)
		if err != nil {
			b.Fatal(err)
		}
		progress := operation.GetProgress()
		sum.running += progress.GetRunning()
		sum.completed += progress.GetCompleted()
		sum.aborted += progress.GetAborted()
		for reason, jobs := range progress.GetAbortedByReason() {
			sum.reasons[reason] += jobs
		}
	}
	return sum
}

// until waits for something.
func (s *scale) until(b *testing.B, what string, holds func() bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), scalePatience)
	defer cancel()
	for !holds() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			b.Fatalf("%s: not after %v", what, scalePatience)
		}
	}
}
