package playground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"weir/api/client"
	"weir/messages/statepb"
)

const (
	// readyWithin is how long a cluster may take to be ready, on a busy machine too;
	// stoppedWithin how long it may take to end its jobs and processes.
	readyWithin, stoppedWithin = 3 * time.Minute, 3 * time.Minute
	// Glance is between two looks at how things stand.
	Glance = 100 * time.Millisecond
	// Lease is that of the nodes: no instance ends because an agent waits for a processor.
	Lease = 30 * time.Second
)

// Cluster is one of this machine, in a folder of its own.
type Cluster struct {
	*client.Client
	// weir is the program, dir the folder.
	weir, dir string
	// process is weir dev up, log takes what it prints.
	process *os.Process
	log     *os.File
	// over is closed when it has ended, with err.
	over chan struct{}
	err  error
}

// Start starts three replicas and so many agents by the program weir, and waits until all
// nodes are online. An agent that is stopped leaves its jobs to the next one. A cluster that
// is returned is to be stopped, beside an error too.
func Start(ctx context.Context, weir string, agents int) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "weir-clique-")
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := &Cluster{weir: weir, dir: dir, over: make(chan struct{})}
	if c.log, err = openLog(); err != nil {
		return c, fmt.Errorf("start cluster: %w", err)
	}
	started := make(chan error, 1)
	go c.run(exec.Command(weir, "dev", "up", "--dir", dir, "--agents", fmt.Sprint(agents), "--lease", Lease.String(),
		"--on-stop", "keep", "--node-prefix", fmt.Sprintf("clique-%d-n", os.Getpid())), started)
	if err := <-started; err != nil {
		return c, fmt.Errorf("start cluster: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("it is not ready after %v", readyWithin))
	defer cancel()
	for {
		ready, err := c.ready(ctx, agents)
		if ready {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return c, fmt.Errorf("start cluster: %w: %w", context.Cause(ctx), err)
		case <-c.over:
			return c, fmt.Errorf("start cluster: weir dev up has ended: %w\n%s", c.err, c.printed())
		case <-time.After(Glance):
		}
	}
}

// openLog returns a file without a name. A pipe would break if this program is killed,
// and then weir dev up could not clean up.
func openLog() (*os.File, error) {
	log, err := os.CreateTemp("", "weir-clique-log-")
	if err != nil {
		return nil, err
	}
	return log, os.Remove(log.Name())
}

// printed returns what weir dev up has printed.
func (c *Cluster) printed() string {
	text, err := io.ReadAll(io.NewSectionReader(c.log, 0, math.MaxInt64))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// run runs weir dev up. It takes its processes along when it ends, and the system ends
// it with the thread that has started it: so nothing is left if this program is killed.
func (c *Cluster) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.over)
	cmd.Stdout, cmd.Stderr = c.log, c.log
	// A group of its own: Ctrl-C is for this program, which then stops the cluster. The
	// signal at the end may come several times, as threads die one after the other: of
	// several SIGTERM the second one would end weir before it has cleaned up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGHUP}
	if c.err = cmd.Start(); c.err != nil {
		started <- c.err
		return
	}
	c.process = cmd.Process
	started <- nil
	c.err = cmd.Wait()
}

// ready reports whether every node is online, and if not why.
func (c *Cluster) ready(ctx context.Context, agents int) (bool, error) {
	if c.Client == nil {
		settings, err := client.ReadSettings(filepath.Join(c.dir, filepath.Base(client.SettingsFile)))
		if err != nil {
			return false, err
		}
		if c.Client, err = client.Open(settings, slog.New(slog.DiscardHandler)); err != nil {
			return false, err
		}
	}
	nodes, err := c.ListNodes(ctx, statepb.NodeOnline)
	if err == nil && len(nodes) < agents {
		err = fmt.Errorf("%d of %d nodes are online", len(nodes), agents)
	}
	return err == nil, err
}

// Stop ends the cluster and removes all that it has kept.
func (c *Cluster) Stop() (err error) {
	if c.Client != nil {
		c.Client.Close()
	}
	if c.process != nil {
		// It may have ended by itself.
		_ = c.process.Signal(syscall.SIGTERM)
		select {
		case <-c.over:
		case <-time.After(stoppedWithin):
			err = errors.Join(fmt.Errorf("stop cluster: weir dev up is there after %v", stoppedWithin), c.process.Kill())
			<-c.over
		}
	}
	if c.log != nil {
		err = errors.Join(err, c.log.Close())
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}
