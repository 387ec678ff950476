package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"weir/actors/fleet"
	"weir/cmd/weir/internal/devcluster"
	"weir/scheduling/resource"
)

const (
	// scaleVariable holds what a process simulates, as JSON.
	scaleVariable = "WEIR_BENCH_SCALE"
	// descriptorsPerNode are a node's connections with three replicas. spareDescriptors are for all else of a process.
	descriptorsPerNode, spareDescriptors = 3, 500
)

// simulated are the nodes of a process: `First` is the number of the first one. Each has room for so many jobs of a
// core, and for a small one beside them.
type simulated struct {
	Dir                string
	First, Count, Jobs int
	Patience           time.Duration
}

// What a process says of its nodes. Told "churn" and how many, it completes so many jobs a second; "rest" ends that.
const (
	saysRegistered, saysJoined = "registered", "joined"
	orderChurn, orderRest      = "churn %g\n", "rest\n"
)

func (s simulated) names() (names []string) {
	for i := range s.Count {
		names = append(names, fmt.Sprintf("simulated-%d", s.First+i))
	}
	return names
}

// nodesProcess is a process with simulated nodes.
type nodesProcess struct {
	simulated
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// startNodes starts as few processes with simulated nodes as may have their connections open, if one may not.
func startNodes(b *testing.B, all simulated) (processes []*nodesProcess) {
	b.Helper()
	files := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		b.Fatal(err)
	}
	most := int(min(files.Max, 1<<20)-spareDescriptors) / descriptorsPerNode
	count := (all.Count + most - 1) / most
	for i := range count {
		part := all
		part.First, part.Count = 1+all.Count*i/count, all.Count*(i+1)/count-all.Count*i/count
		p := &nodesProcess{simulated: part}
		p.start(b)
		processes = append(processes, p)
	}
	return processes
}

// start starts the process. It ends before the cluster.
func (p *nodesProcess) start(b *testing.B) {
	b.Helper()
	told, err := json.Marshal(p.simulated)
	if err != nil {
		b.Fatal(err)
	}
	p.command = exec.Command(os.Args[0])
	p.command.Env, p.command.Stderr = append(os.Environ(), scaleVariable+"="+string(told)), os.Stderr
	// It ends with its input, also when this process is killed. Pdeathsig would end it with the thread that has started it.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, inErr := p.command.StdinPipe()
	out, outErr := p.command.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		b.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := p.command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close() // It ends when nobody is there.
		for p.out.Scan() {
			b.Errorf("simulated nodes say %q at the end", p.out.Text())
		}
		if err := p.command.Wait(); err != nil {
			b.Errorf("simulated nodes: %v", err)
		}
	})
}

// await waits until the process says a word.
func (p *nodesProcess) await(b *testing.B, word string) {
	b.Helper()
	if !p.out.Scan() || p.out.Text() != word {
		b.Fatalf("simulated nodes say %q, not %q: %v", p.out.Text(), word, p.out.Err())
	}
}

// order tells the process what to do.
func (p *nodesProcess) order(b *testing.B, format string, args ...any) {
	b.Helper()
	if _, err := fmt.Fprintf(p.in, format, args...); err != nil {
		b.Fatal(err)
	}
}

// runNodes simulates nodes until its input ends.
func runNodes(told string) error {
	var s simulated
	if err := json.Unmarshal([]byte(told), &s); err != nil {
		return err
	}
	reach, err := devcluster.OpenReach(s.Dir)
	if err != nil {
		return err
	}
	defer reach.Close()
	ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
	defer cancel()
	orders := make(chan string)
	var unread error
	go func() {
		defer close(orders)
		defer cancel()
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			orders <- lines.Text()
		}
		unread = lines.Err()
	}()
	nodes, err := reach.JoinFleet(ctx, fleet.Config{
		Names: s.names(), Version: "simulated",
		Resources: resource.Amounts{UserSlots: int64(s.Jobs) + 1, CPU: resource.Cores(float64(s.Jobs) + 0.5), Memory: int64(s.Jobs+1) * 26 << 20},
		// They end when they are told.
		Lasts: func() time.Duration { return 24 * time.Hour },
		Registered: func(n int) {
			if n == s.Count {
				fmt.Println(saysRegistered)
			}
		},
	})
	if err != nil {
		return err
	}
	defer nodes.Close()
	fmt.Println(saysJoined)
	obey(nodes, orders)
	return unread
}

// obey carries out orders until they end.
func obey(nodes *fleet.Fleet, orders <-chan string) {
	rest := func() {}
	defer func() { rest() }()
	for order := range orders {
		rest()
		rest = func() {}
		var rate float64
		if _, err := fmt.Sscanf(order+"\n", orderChurn, &rate); err == nil {
			ctx, cancel := context.WithCancel(context.Background())
			go nodes.Churn(ctx, rate)
			rest = cancel
		}
	}
}
