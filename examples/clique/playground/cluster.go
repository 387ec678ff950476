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

// start starts three replicas and so many agents by the program weir, and waits until all
// nodes are online. An agent that is stopped leaves its jobs to the next one. The cluster
// is to be stopped, beside an error too.
func start(ctx context.Context, weir string, agents int) (*Cluster, error) {
	c := &Cluster{weir: weir, over: make(chan struct{})}
	err := c.up(agents)
	if err == nil {
		err = c.await(ctx, agents)
	}
	if err != nil {
		return c, fmt.Errorf("start cluster: %w", err)
	}
	return c, nil
}

// up starts weir dev up.
func (c *Cluster) up(agents int) (err error) {
	if c.dir, err = os.MkdirTemp("", "weir-clique-"); err != nil {
		return err
	}
	// A pipe would break if this program is killed, and then weir dev up could not clean up.
	if c.log, err = os.CreateTemp("", "weir-clique-log-"); err != nil {
		return err
	}
	if err := os.Remove(c.log.Name()); err != nil {
		return err
	}
	cmd := exec.Command(c.weir, "dev", "up", "--dir", c.dir, "--agents", fmt.Sprint(agents), "--lease", Lease.String(),
		"--on-stop", "keep", "--node-prefix", fmt.Sprintf("clique-%d-n", os.Getpid()))
	cmd.Stdout, cmd.Stderr = c.log, c.log
	// A group of its own: Ctrl-C is for this program, which then stops the cluster. The
	// signal at the end may come several times, as threads die one after the other: of
	// several SIGTERM the second one would end weir before it has cleaned up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGHUP}
	started := make(chan error)
	go func() {
		// It takes its processes along when it ends, and the system ends it with the thread
		// that has started it: so nothing is left if this program is killed.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		c.process = cmd.Process
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.over)
		}
	}()
	return <-started
}

// await waits until every node is online.
func (c *Cluster) await(ctx context.Context, agents int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("it is not ready after %v", readyWithin))
	defer cancel()
	for {
		err := c.ready(ctx, agents)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-c.over:
			printed, err := io.ReadAll(io.NewSectionReader(c.log, 0, math.MaxInt64))
			return fmt.Errorf("weir dev up has ended: %w\n%s", errors.Join(c.err, err), printed)
		case <-time.After(Glance):
		}
	}
}

// ready says why not every node is online, if that is so.
func (c *Cluster) ready(ctx context.Context, agents int) error {
	if c.Client == nil {
		settings, err := client.ReadSettings(filepath.Join(c.dir, filepath.Base(client.SettingsFile)))
		if err != nil {
			return err
		}
		if c.Client, err = client.Open(settings, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
	}
	nodes, err := c.ListNodes(ctx, statepb.NodeOnline)
	if err == nil && len(nodes) < agents {
		err = fmt.Errorf("%d of %d nodes are online", len(nodes), agents)
	}
	return err
}

// stop ends the cluster and removes all that it has kept.
func (c *Cluster) stop() (err error) {
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
