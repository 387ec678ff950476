package bench

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/cmd/weir/internal/devcluster"
	"weir/messages/apipb"
)

var (
	scaleNodes = flag.String("scale-nodes", "1000", "BenchmarkScale: numbers of nodes, with commas between them")
	scaleJobs  = flag.Int("scale-jobs", 30, "BenchmarkScale: running allocations a node")
)

const (
	// followers is how many replicas do not lead.
	followers = 2
	// scalePatience is how long a step may take.
	scalePatience = 15 * time.Minute
	// scaleSpan is how long idleness and churn are watched, and leaseSpan nodes after a failover: longer than the longest
	// lease.
	scaleSpan, leaseSpan = 20 * time.Second, 35 * time.Second
	// churned is how many jobs a second come and go in a churn: as many as docs/scale.md gives one leader.
	churned = 500
	// operationJobs is the most jobs of an operation. They are granted before those of the next are asked for, and their
	// nodes have begun them: the nodes share the processors with the replicas, and would not be heard otherwise.
	operationJobs = 10_000
	// quiet is how many requests of nodes are open, at most, when jobs have begun; some are heartbeats.
	quiet = 300
)

// scale is a cluster with many nodes.
type scale struct {
	c           *cluster
	nodes, jobs int
	leader      string
	processes   []*nodesProcess
	operations  []string
	column      *scaleColumn
}

// BenchmarkScale is what many nodes cost: to register them, to keep them, to fill them with jobs, to be
// looked at, to lose the leader, and to run jobs that come and go. It takes minutes, and runs only if one of its flags is given: `make bench-scale`. The
// nodes are simulated, in one process of their own, or a few where one may not have as many open files. All steps share
// the processors of the machine: the goals are for two cores with nothing else on them.
func BenchmarkScale(b *testing.B) {
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || strings.HasPrefix(f.Name, "scale-") })
	if !asked {
		b.Skip("it takes minutes: make bench-scale")
	}
	var columns []*scaleColumn
	for _, text := range strings.Split(*scaleNodes, ",") {
		nodes, err := strconv.Atoi(text)
		if err != nil || nodes <= 0 || *scaleJobs <= 0 {
			b.Fatalf("-scale-nodes %q, -scale-jobs %d: must be numbers above 0", *scaleNodes, *scaleJobs)
		}
		column := &scaleColumn{nodes: nodes, jobs: *scaleJobs, measured: map[*scaleFigure]float64{}}
		columns = append(columns, column)
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				s := &scale{c: startClusterOf(b, "default", followers+1, 0), nodes: nodes, jobs: *scaleJobs, column: column}
				s.run(b)
			}
		})
	}
	tellScale(columns)
}

// run measures one thing after the other. What follows a step that fails is not measured.
func (s *scale) run(b *testing.B) {
	b.Helper()
	s.lookForLeader(b)
	ownLeader, ownFollower := s.memory(b)
	s.bringUp(b)
	s.idle(b, idleLeader, idleFollower, idleHeartbeat)
	emptyLeader, emptyFollower := s.memory(b)
	s.measured(nodeLeader, (emptyLeader-ownLeader)/float64(s.nodes)/(1<<10))
	s.measured(nodeFollower, (emptyFollower-ownFollower)/float64(s.nodes)/(1<<10))
	s.fill(b)
	ofLeader, ofFollower := s.memory(b)
	s.measured(memoryLeader, ofLeader/(1<<30))
	s.measured(memoryFollower, ofFollower/(1<<30))
	s.measured(jobLeader, (ofLeader-emptyLeader)/float64(s.allocations()))
	s.measured(jobFollower, (ofFollower-emptyFollower)/float64(s.allocations()))
	s.idle(b, fullLeader, fullFollower, fullHeartbeat)
	s.look(b)
	s.failOver(b)
	s.churn(b)
}

// measured keeps a figure, and tells it at once: the table comes after minutes.
func (s *scale) measured(f *scaleFigure, value float64) {
	s.column.measured[f] = value
	fmt.Fprintf(os.Stderr, "%d nodes: %s: %s\n", s.nodes, strings.TrimSpace(f.name), fmt.Sprintf(f.format, value))
}

func (s *scale) allocations() int { return s.nodes * s.jobs }

// percent is how much of a core was taken.
func percent(took, within time.Duration) float64 { return 100 * took.Seconds() / within.Seconds() }

// bringUp starts the nodes, and waits until all are connected with all replicas.
func (s *scale) bringUp(b *testing.B) {
	b.Helper()
	all := simulated{Dir: s.c.Dir, First: 1, Count: s.nodes, Jobs: s.jobs, Patience: scalePatience}
	if err := s.c.CertifyFleet(all.names()); err != nil {
		b.Fatal(err)
	}
	portsBefore := s.ports(b)
	before := s.gauge(b)
	s.processes = startNodes(b, all)
	for _, p := range s.processes {
		p.await(b, saysRegistered)
	}
	took, within := s.gauge(b).since(before)
	s.measured(registeredIn, within.Seconds())
	s.measured(bringLeader, took.leader.Seconds())
	s.measured(bringFollower, took.follower.Seconds())
	s.measured(bringNodes, took.nodes.Seconds())
	for _, p := range s.processes {
		p.await(b, saysJoined)
	}
	// Nodes connect to followers after they have registered.
	ports := s.ports(b)
	s.measured(refused, ports.refused-portsBefore.refused)
	s.measured(ended, ports.begun-portsBefore.begun-(ports.open-portsBefore.open))
}

// idle watches a cluster whose jobs, if any, go on as they are. Its leader hears little but heartbeats.
func (s *scale) idle(b *testing.B, leader, follower, heartbeat *scaleFigure) {
	b.Helper()
	s.lookForLeader(b)
	heard, before := s.ports(b).heard, s.gauge(b)
	time.Sleep(scaleSpan)
	took, within := s.gauge(b).since(before)
	s.measured(leader, percent(took.leader, within))
	s.measured(follower, percent(took.follower, within))
	s.measured(heartbeat, float64(took.leader.Microseconds())/(s.ports(b).heard-heard))
}

// fill starts operations with more jobs than there is room for.
func (s *scale) fill(b *testing.B) {
	b.Helper()
	// The one that is filled later is to leave the other its jobs.
	options, err := structpb.NewStruct(map[string]any{
		"fair_share_starvation_timeout": "24h", "fair_share_aggressive_starvation_timeout": "24h", "max_running_operation_count": 1000, "max_operation_count": 1000,
	})
	if err != nil {
		b.Fatal(err)
	}
	for i := range leaves {
		if _, err := s.c.CreatePool(b.Context(), &apipb.Pool{Name: fmt.Sprint("leaf", i), Options: options}); err != nil {
			b.Fatal(err)
		}
	}
	// Some are left to follow those that end in the churn.
	jobs := s.allocations() + max(s.allocations(), 2*churned*int(scaleSpan.Seconds()))
	count := max(leaves, (jobs+operationJobs-1)/operationJobs)
	began := time.Now()
	for i := range count {
		asked := jobs * (i + 1) / count
		s.operations = append(s.operations, s.c.ask(b, fmt.Sprint("leaf", i%leaves), asked-jobs*i/count))
		s.running(b, min(asked, s.allocations()))
	}
	took := time.Since(began)
	s.measured(filledIn, took.Seconds())
	s.measured(filledRate, float64(s.allocations())/took.Seconds())
}

// running waits until so many jobs are granted, and their nodes have begun them.
func (s *scale) running(b *testing.B, jobs int) {
	b.Helper()
	s.until(b, "jobs run", func() bool {
		status, err := s.c.Status(b.Context())
		if err != nil || status.GetJobsRunning() < int64(jobs) {
			return false
		}
		ports, err := s.readPorts(b)
		return err == nil && ports.asking <= quiet
	})
}

// failOver kills the leader, and starts it again once another one has led for a while.
func (s *scale) failOver(b *testing.B) {
	b.Helper()
	before, connected := s.count(b), s.ports(b).open
	spec, err := structpb.NewStruct(map[string]any{"tasks": map[string]any{"small": map[string]any{
		"job_count": 1, "command": []any{"/bin/true"}, "cpu_limit": 0.1, "memory_limit": "10MiB",
	}}})
	if err != nil {
		b.Fatal(err)
	}
	s.lookForLeader(b)
	began := time.Now()
	s.c.kill(b, s.leader)
	var operation string
	s.until(b, "a submission is accepted", func() bool {
		started, err := s.c.StartOperation(b.Context(), &apipb.StartRequest{Spec: spec})
		operation = started.GetOperationId()
		return err == nil
	})
	s.measured(acceptedIn, time.Since(began).Seconds())
	s.until(b, "its job runs", func() bool {
		op, err := s.c.GetOperation(b.Context(), operation)
		return err == nil && op.GetProgress().GetRunning() > 0
	})
	s.measured(grantedIn, time.Since(began).Seconds())
	offline := 0.0
	looks := 0
	for time.Since(began) < leaseSpan {
		if status, err := s.c.Status(b.Context()); err == nil {
			offline = math.Max(offline, float64(status.GetNodesOffline()))
			looks++
		}
		time.Sleep(100 * time.Millisecond)
	}
	if looks == 0 {
		b.Fatal("no replica said how many nodes are offline")
	}
	s.measured(lostNodes, offline)
	after := s.count(b)
	s.measured(lostJobs, float64(after.aborted-before.aborted))
	if after.aborted > before.aborted {
		tell("scale, %d nodes: aborted before the failover: %v, after it: %v", s.nodes, before.reasons, after.reasons)
	}
	if _, err := devcluster.StartMember(b.Context(), s.c.Dir, s.leader, scalePatience); err != nil {
		b.Fatal(err)
	}
	s.until(b, "all nodes are connected with all replicas again", func() bool {
		ports, err := s.readPorts(b)
		return err == nil && ports.open >= connected
	})
	s.lookForLeader(b)
}

// lookForLeader finds who leads: where processors are full, it may have changed.
func (s *scale) lookForLeader(b *testing.B) {
	b.Helper()
	s.until(b, "a leader is known", func() bool {
		view, err := s.c.View(b.Context())
		s.leader = view.Leader
		return err == nil && s.leader != ""
	})
}

// completes has nodes complete so many jobs a second from now on.
func (s *scale) completes(b *testing.B, rate float64) {
	b.Helper()
	for _, p := range s.processes {
		if rate == 0 {
			p.order(b, orderRest)
		} else {
			p.order(b, orderChurn, rate*float64(p.Count)/float64(s.nodes))
		}
	}
}

// churn completes jobs, in whose places others start, and waits until all nodes are full again.
func (s *scale) churn(b *testing.B) {
	b.Helper()
	before, counted := s.gauge(b), s.count(b)
	s.completes(b, churned)
	time.Sleep(scaleSpan)
	after := s.count(b)
	took, within := s.gauge(b).since(before)
	s.completes(b, 0)
	s.measured(churnAsked, churned)
	s.measured(churnRate, float64(after.completed-counted.completed)/within.Seconds())
	s.measured(churnLeader, percent(took.leader, within))
	s.running(b, s.allocations())
}
