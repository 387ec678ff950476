package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/top/screentest"
	"weir/messages/apipb"
)

const (
	// scaleViewers is how many people look at a large cluster.
	scaleViewers = 100
	// lively is how many jobs a second come and go meanwhile.
	lively = 30
	// topEvery is how often weir top asks.
	topEvery = 2 * time.Second
)

// look measures what it costs to look at the cluster, with the page and with weir top.
func (s *scale) look(b *testing.B) {
	b.Helper()
	s.top(b)
	s.completes(b, lively)
	g := s.c.startGateway(b, scaleViewers)
	before := g.spentWhile(b, nil)
	var pools []string
	for i := range leaves {
		pools = append(pools, fmt.Sprint("leaf", i))
	}
	looksAtPools := g.watched(b, ofPools(pools))
	cells := &apipb.ListNodesRequest{Cells: "cpu"}
	named, err := s.c.Nodes(b.Context(), cells)
	if err != nil {
		b.Fatal(err)
	}
	cells.Known = named.GetCells().GetVersion()
	looksAtNodes := g.watched(b, []call{{2 * time.Second, "NodeService/List", cells}})
	// A cluster that has just been filled becomes calmer all the time.
	after := g.spentWhile(b, nil)
	idle := ofViewers{replicas: (before.replicas + after.replicas) / 2, gateway: (before.gateway + after.gateway) / 2}
	s.measured(poolsReplicas, looksAtPools.beyond(idle).replicas)
	s.measured(poolsGateway, looksAtPools.beyond(idle).gateway)
	s.measured(nodesReplicas, looksAtNodes.beyond(idle).replicas)
	s.measured(nodesGateway, looksAtNodes.beyond(idle).gateway)
	s.page(b)
	s.completes(b, 0)
	s.running(b, s.allocations())
}

// page opens the page in a browser, as the tests of the page do, if what they need is there.
func (s *scale) page(b *testing.B) {
	b.Helper()
	const web = "../../../../api/web"
	_, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(web, "node_modules"))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%d nodes: the page is not opened in a browser (make test-page says what it needs): %v\n", s.nodes, err)
		return
	}
	ui := s.weir("ui")
	out, err := ui.StdoutPipe()
	if err == nil {
		err = ui.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = ui.Process.Kill()
		_ = ui.Wait()
	}()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	test := exec.Command("node", "test/large.test.js")
	test.Dir, test.Stderr = web, os.Stderr
	test.Env = append(os.Environ(), "WEIR_LIVE="+strings.TrimSpace(address), fmt.Sprint("WEIR_NODES=", s.nodes))
	said, err := test.Output()
	if err != nil {
		b.Errorf("the page: %v\n%s", err, said)
	}
	figures := map[string]*scaleFigure{"pools": pagePools, "operations": pageOperations, "nodes": pageNodes, "operation": pageOperation}
	for line := range strings.Lines(string(said)) {
		view, rest, _ := strings.Cut(line, ": ")
		var took float64
		if _, err := fmt.Sscanf(rest, "%f ms of scripting", &took); err == nil && figures[view] != nil {
			fmt.Fprint(os.Stderr, line)
			s.measured(figures[view], took)
		}
	}
}

// weir is a program of the cluster's client.
func (s *scale) weir(arguments ...string) *exec.Cmd {
	cmd := exec.Command(program("weir"), arguments...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "WEIR_ADDRESSES="+strings.Join(s.c.Settings.Addresses, ","), "WEIR_CREDENTIALS="+s.c.Settings.Credentials)
	return cmd
}

// top runs weir top on a terminal. It is to show all nodes and jobs.
func (s *scale) top(b *testing.B) {
	b.Helper()
	screen := screentest.Open(b, 160, 50)
	cmd := s.weir("top", "--interval", topEvery.String())
	screen.Start(b, cmd)
	screen.Until(b, scalePatience, "nodes "+count(s.nodes)+"/"+count(s.nodes), "jobs "+count(s.allocations())+" run", "leaf1")
	s.completes(b, lively)
	update := func(figure *scaleFigure) {
		before := processorTime(b, cmd.Process.Pid)
		time.Sleep(viewed)
		took := processorTime(b, cmd.Process.Pid) - before
		s.measured(figure, millis(took)*topEvery.Seconds()/viewed.Seconds())
	}
	update(topPools)
	// All nodes are there when the last one is.
	screen.Type(b, "3")
	screen.Until(b, scalePatience, "Nodes · "+count(s.nodes), "simulated-1 ")
	screen.Type(b, "G")
	screen.Until(b, scalePatience, slices.Max(simulated{First: 1, Count: s.nodes}.names()))
	update(topNodes)
	s.completes(b, 0)
	screen.Type(b, "q")
	if err := cmd.Wait(); err != nil {
		b.Errorf("weir top: %v", err)
	}
}

// count writes a number as screens show it.
func count(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", count(n/1000), n%1000)
}
