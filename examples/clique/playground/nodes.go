package playground

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"weir/actors/agent/runner/proctree"
	"weir/cmd/poll"
)

// member is a process of the cluster.
type member struct {
	Name string
	// Pid is 0 when the process does not run.
	Pid int
	// Data is the folder of its state; that of an agent also contains the folders of its jobs.
	Data string
}

// StopAgent stops the agent of a node as an upgrade does, and waits until it has ended. The
// jobs keep running for the time of the node's lease.
func (c *Cluster) StopAgent(ctx context.Context, node string) error {
	agent, err := c.member(ctx, node)
	if err == nil {
		err = send(agent.Pid, syscall.SIGTERM)
	}
	if err != nil {
		return fmt.Errorf("stop the agent of %s: %w", node, err)
	}
	return c.ended(ctx, node)
}

// StartAgent starts the agent of a node again, and waits until it is ready.
func (c *Cluster) StartAgent(ctx context.Context, node string) error {
	_, err := c.command(ctx, "start", node)
	return err
}

// KillNode kills the agent of a node and all processes of its jobs, as a failing machine would. It
// returns the time of the kill.
func (c *Cluster) KillNode(ctx context.Context, node string) (at time.Time, err error) {
	agent, err := c.member(ctx, node)
	at = time.Now()
	if err == nil {
		err = send(agent.Pid, syscall.SIGKILL)
	}
	if err == nil {
		err = proctree.Kill(func() ([]proctree.Process, error) { return below(agent.Data) }, stoppedWithin)
	}
	if err != nil {
		return at, fmt.Errorf("kill node %s: %w", node, err)
	}
	return at, c.ended(ctx, node)
}

// ended waits until the agent of a node has ended.
func (c *Cluster) ended(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stoppedWithin, fmt.Errorf("the agent of %s is still running after %v", node, stoppedWithin))
	defer cancel()
	return poll.Every(ctx, Glance, func() (bool, error) {
		agent, err := c.member(ctx, node)
		return agent.Pid == 0, err
	})
}

// member returns the present state of a process of the cluster.
func (c *Cluster) member(ctx context.Context, name string) (member, error) {
	printed, err := c.command(ctx, "status", "-o", "json")
	if err != nil {
		return member{}, err
	}
	var status struct{ Members []member }
	if err := json.Unmarshal(printed, &status); err != nil {
		return member{}, fmt.Errorf("weir dev status: %w", err)
	}
	for _, m := range status.Members {
		if m.Name == name {
			return m, nil
		}
	}
	return member{}, fmt.Errorf("weir dev status does not list %s", name)
}

// command runs a subcommand of weir dev for this cluster, and returns its output.
func (c *Cluster) command(ctx context.Context, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.weir, append([]string{"dev", arguments[0], "--dir", c.dir}, arguments[1:]...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	printed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("weir dev %s: %w: %s", strings.Join(arguments, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return printed, nil
}

// send sends a signal to a process; it returns an error if the process does not run.
func send(pid int, signal syscall.Signal) error {
	if pid <= 0 {
		return errors.New("not running")
	}
	return syscall.Kill(pid, signal)
}

// below returns the processes that run in a folder or have it in their command lines. After the
// agent has ended, these are the processes of the node's jobs.
func below(folder string) ([]proctree.Process, error) {
	all, err := proctree.All()
	return slices.DeleteFunc(all, func(p proctree.Process) bool {
		// Processes of others may end meanwhile.
		cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.Pid))
		return !strings.HasPrefix(cwd, folder+"/") && !strings.Contains(strings.Join(proctree.Arguments(p), " "), folder+"/")
	}), err
}
