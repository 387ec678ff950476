package engine_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/engine"
	"weir/scheduling/invarianttest"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

var rewrite = flag.Bool("rewrite", false, "write what the engine does into testdata; read the difference")

// TestScripts plays testdata/*.txt. A file is a story of one engine: blocks of
// events, one a line, above ---- and what comes of them below, up to an empty
// line. Lines that begin with # are comments. Every event is followed by a check
// of all invariants.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			switch {
			case got == string(want):
			case *rewrite:
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s gives\n%s\nrun with -rewrite if that is right", file, got)
			}
		})
	}
}

// play returns the script with the results that it gives now.
func play(t *testing.T, script string) string {
	p := player{engine: newEngine(t)}
	var out strings.Builder
	for i, block := range strings.Split(strings.TrimRight(script, "\n"), "\n\n") {
		if i > 0 {
			out.WriteByte('\n')
		}
		input, _, hasResult := strings.Cut(block, "\n----")
		out.WriteString(input + "\n")
		if !hasResult {
			continue // a block of comments
		}
		out.WriteString("----\n")
		for _, line := range strings.Split(input, "\n") {
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if err := p.event(&out, strings.Fields(line)); err != nil {
				fmt.Fprintf(&out, "error: %v\n", err)
			}
			if err := invarianttest.Check(p.engine); err != nil {
				t.Fatalf("after %q: %v", line, err)
			}
		}
	}
	return out.String()
}

// player gives the events of a script to an engine.
type player struct {
	engine *engine.Engine
	// pools are those of the last tree.
	pools []pooltree.Pool
}

func (p *player) event(out *strings.Builder, words []string) error {
	e, args := p.engine, parse(words[1:])
	switch words[0] {
	case "node":
		return e.SetNode(scheduling.NodeID(args.name(0)), args.amounts, !args.flags["unschedulable"])
	case "remove-node":
		return e.RemoveNode(scheduling.NodeID(args.name(0)))
	case "pool":
		return e.SetPool(scheduling.PoolName(args.name(0)), scheduling.PoolName(args.name(1)), args.weight)
	case "remove-pool":
		return e.RemovePool(scheduling.PoolName(args.name(0)))
	case "tree":
		p.pools = args.pools()
		return p.tree()
	case "limit":
		return p.limit(scheduling.PoolName(args.name(0)), args.amounts)
	case "operation":
		return e.AddOperation(args.operation())
	case "set-operation":
		return e.SetOperation(args.operation())
	case "remove-operation":
		return e.RemoveOperation(scheduling.OperationID(args.name(0)))
	case "demand":
		return e.SetDemand(scheduling.OperationID(args.name(0)), scheduling.TaskName(args.name(1)), 0, args.number(2), args.amounts)
	case "found":
		return e.AddAllocation(engine.Allocation{
			Job: scheduling.JobID(args.name(0)), Operation: scheduling.OperationID(args.name(1)), Task: scheduling.TaskName(args.name(2)),
			Node: scheduling.NodeID(args.name(3)), Resources: args.amounts, Started: args.at,
		})
	case "finish":
		return e.RemoveAllocation(scheduling.JobID(args.name(0)))
	case "commit":
		return e.Commit(engine.Ticket(args.number(0)), scheduling.JobID(args.name(1)), args.at)
	case "reject":
		return e.Reject(engine.Ticket(args.number(0)))
	case "tick":
		_, err := e.Tick(args.at)
		return err
	case "heartbeat":
		p.heartbeat(out, args)
		return nil
	case "show":
		p.show(out)
		return nil
	default:
		return fmt.Errorf("unknown event %q", words[0])
	}
}

func (p *player) tree() error {
	tree, err := pooltree.FromPools(pooltree.Default(), p.pools)
	if err != nil {
		return err
	}
	return p.engine.SetTree(tree)
}

// limit sets the limits of a pool of the tree: those that are not 0.
func (p *player) limit(pool scheduling.PoolName, to resource.Amounts) error {
	limits := pooltree.Resources{Amounts: to}
	for k := range resource.Kind(resource.Count) {
		limits.Named[k] = to.Of(k) > 0
	}
	for i := range p.pools {
		if p.pools[i].Name == pool {
			p.pools[i].Options.ResourceLimits = &limits
		}
	}
	return p.tree()
}

func (p *player) heartbeat(out *strings.Builder, args arguments) {
	var nodes []scheduling.NodeID
	for _, name := range args.names {
		nodes = append(nodes, scheduling.NodeID(name))
	}
	plan := p.engine.Heartbeat(args.at, nodes)
	for _, s := range plan.Starts {
		fmt.Fprintf(out, "start %d: %s/%s on %s, %v\n", s.Ticket, s.Operation, s.Task, s.Node, s.Resources)
	}
	for _, v := range plan.Preempts {
		fmt.Fprintf(out, "preempt %s on %s: %s\n", v.Job, v.Node, v.Kind)
	}
	for k, n := range plan.Outcome.Refused {
		if n > 0 {
			fmt.Fprintf(out, "refused for %s: %d\n", resource.Kind(k), n)
		}
	}
	if n := plan.Outcome.Left[allocation.Limited]; n > 0 {
		fmt.Fprintf(out, "limits leave no room to: %d\n", n)
	}
	if n := plan.Outcome.Left[allocation.Unmatched]; n > 0 {
		fmt.Fprintf(out, "may not use the node: %d\n", n)
	}
}

func (p *player) show(out *strings.Builder) {
	s := p.engine.Snapshot()
	for _, v := range s.Pools {
		fmt.Fprintf(out, "pool %s: %s\n", v.Name, shares(v.Shares))
	}
	for _, v := range s.Operations {
		fmt.Fprintf(out, "operation %s: %s, %d jobs", v.ID, shares(v.Shares), v.Allocations)
		for _, task := range v.Tasks {
			fmt.Fprintf(out, ", %s %d pending %d in flight", task.Name, task.Pending, task.InFlight)
		}
		if v.Removed {
			out.WriteString(", removed")
		}
		out.WriteByte('\n')
	}
	for _, v := range s.Nodes {
		fmt.Fprintf(out, "node %s: %v of %v", v.ID, v.Usage, v.Limits)
		for _, flag := range []struct {
			set  bool
			name string
		}{{!v.Known, "unknown"}, {v.Known && !v.Schedulable, "unschedulable"}, {v.Overcommitted, "overcommitted"}} {
			if flag.set {
				out.WriteString(", " + flag.name)
			}
		}
		out.WriteByte('\n')
	}
}

func shares(s engine.Shares) string {
	k := resource.UserSlots
	return fmt.Sprintf("slots fair %.3f demand %.3f usage %.3f, satisfaction %.3g", s.FairShare[k], s.DemandShare[k], s.UsageShare[k], s.Satisfaction)
}

// arguments are the words of an event after the first: names in order,
// resource=amount, weight=1, at=seconds, and flags.
type arguments struct {
	names   []string
	amounts resource.Amounts
	weight  float64
	at      time.Time
	flags   map[string]bool
}

func parse(words []string) arguments {
	args := arguments{weight: 1, at: begin, flags: map[string]bool{}}
	for _, word := range words {
		key, value, isPair := strings.Cut(word, "=")
		x, _ := strconv.ParseFloat(value, 64)
		switch {
		case !isPair && slices.Contains([]string{"unschedulable", "suspended", "disabled"}, word):
			args.flags[word] = true
		case !isPair:
			args.names = append(args.names, word)
		case key == "weight":
			args.weight = x
		case key == "at":
			args.at = begin.Add(time.Duration(x * float64(time.Second)))
		default:
			more, err := resource.FromMapOr(map[string]float64{key: x}, args.amounts)
			if err != nil {
				panic(fmt.Sprintf("script: %q: %v", word, err))
			}
			args.amounts = more
		}
	}
	return args
}

func (a arguments) operation() engine.Operation {
	return engine.Operation{
		ID: scheduling.OperationID(a.name(0)), Pool: scheduling.PoolName(a.name(1)), Weight: a.weight,
		Started: a.at, Enabled: !a.flags["disabled"], Suspended: a.flags["suspended"],
	}
}

// pools are those that the words name, as "name<parent".
func (a arguments) pools() (pools []pooltree.Pool) {
	for _, word := range a.names {
		name, parent, _ := strings.Cut(word, "<")
		if parent == "" {
			parent = string(scheduling.RootPool)
		}
		pools = append(pools, pooltree.Pool{Name: scheduling.PoolName(name), Parent: scheduling.PoolName(parent)})
	}
	return pools
}

func (a arguments) name(i int) string {
	if i >= len(a.names) {
		return ""
	}
	return a.names[i]
}

func (a arguments) number(i int) int64 {
	n, err := strconv.ParseInt(a.name(i), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("script: word %d is no number: %v", i, err))
	}
	return n
}
