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
	// readyWithin bounds how long a cluster takes to be ready, even on a busy machine;
	// stoppedWithin bounds how long it takes to end its jobs and processes.
	readyWithin, stoppedWithin = 3 * time.Minute, 3 * time.Minute
	// Glance is the pause between two polls of a state.
	Glance = 100 * time.Millisecond
	// Lease is the lease of the nodes. It is long, so that no instance ends because a busy
	// agent is late.
	Lease = 30 * time.Second
)

// Cluster is a cluster on this machine, in a folder of its own.
type Cluster struct {
	*client.Client
	// weir is the path of the program weir; dir is the cluster's folder.
	weir, dir string
	// process is weir dev up; log is its output.
	process *os.Process
	log     *os.File
	// over is closed when process has ended; err is its error.
	over chan struct{}
	err  error
}

// up starts three replicas and the given number of agents with weir dev up. Jobs go on when their
// agent is stopped, and the next agent of the node takes them over. The caller must stop the
// cluster, even after an error.
func (c *Cluster) up(agents int) (err error) {
	if c.dir, err = os.MkdirTemp("", "weir-clique-"); err != nil {
		return err
	}
	// With a pipe, weir dev up could not clean up after this program is killed: its output
	// would fail.
	if c.log, err = os.CreateTemp("", "weir-clique-log-"); err != nil {
		return err
	}
	if err := os.Remove(c.log.Name()); err != nil {
		return err
	}
	cmd := exec.Command(c.weir, "dev", "up", "--dir", c.dir, "--agents", fmt.Sprint(agents), "--lease", Lease.String(),
		"--on-stop", "keep", "--node-prefix", fmt.Sprintf("clique-%d-n", os.Getpid()))
	cmd.Stdout, cmd.Stderr = c.log, c.log
	// A group of its own: Ctrl-C is for this program, which then stops the cluster. The death
	// signal may come several times, as the threads of this program die one after another. It
	// is SIGHUP because a second SIGTERM would end weir before it has cleaned up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGHUP}
	started := make(chan error)
	go func() {
		// weir ends its processes when it ends, and the system ends weir with the thread that
		// started it. So nothing is left if this program is killed.
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
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("the cluster is not ready after %v", readyWithin))
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

// ready returns an error while a node is not online.
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

// stop ends the cluster and removes its folder.
func (c *Cluster) stop() (err error) {
	if c.Client != nil {
		c.Client.Close()
	}
	if c.process != nil {
		// The process may have ended by itself.
		_ = c.process.Signal(syscall.SIGTERM)
		select {
		case <-c.over:
		case <-time.After(stoppedWithin):
			err = errors.Join(fmt.Errorf("stop cluster: weir dev up is still running after %v", stoppedWithin), c.process.Kill())
			<-c.over
		}
	}
	if c.log != nil {
		err = errors.Join(err, c.log.Close())
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}
