package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"weir/cmd/weir/internal/devcluster"
)

func newDevDownCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "down",
		Short:   "Stop the cluster in this folder and delete its data",
		Example: `  weir dev down`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := devcluster.Down(cmd.Context(), dir, devcluster.Ending{StopTimeout: devcluster.DefaultStopTimeout, Sweep: sweepAgent})
			if errors.Is(err, devcluster.ErrNone) {
				fmt.Fprintf(cmd.OutOrStdout(), "no cluster runs here: nothing to stop in %s\n", dir)
				return nil
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "stopped %s\n", found)
			return nil
		},
	}
	registerDevDir(cmd, &dir)
	return cmd
}

func newDevStatusCommand() *cobra.Command {
	var dir string
	output := formatTable
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the processes of the cluster in this folder",
		Example: `  weir dev status
  weir dev status -o json | jq -r '.members[] | select(.state != "up").name'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			record, err := devcluster.Load(dir)
			if err != nil {
				return err
			}
			seen := seeMembers(record.Members, devcluster.Process.Alive, (*devcluster.Member).Ready)
			p := newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), output)
			if output.forPeople() {
				// Print the table first: finding the leader may take a while.
				fmt.Fprint(p.out, membersTable(seen))
			}
			leader, leaderErr := devLeader(cmd.Context(), dir, 5*time.Second, (*devcluster.Reach).LeaderNow)
			message, err := devStatusMessage(seen, leader)
			if err != nil {
				return err
			}
			if !output.forPeople() {
				err = p.show(view{message: message})
			} else if leaderErr == nil {
				fmt.Fprintf(p.out, "leader: %s\n", cmp.Or(leader, "none now"))
			}
			return errors.Join(err, leaderErr)
		},
	}
	registerDevDir(cmd, &dir)
	registerOutput(cmd, cmd.Flags(), &output)
	return cmd
}

// devLeader calls `ask`, a method of Reach, and returns the leading replica that it reports; "" if
// none leads.
func devLeader(ctx context.Context, dir string, patience time.Duration, ask func(*devcluster.Reach, context.Context) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reach, err := devcluster.OpenReach(dir)
	if err != nil {
		return "", err
	}
	defer reach.Close()
	leader, err := ask(reach, ctx)
	if err != nil {
		return "", &exitError{exitNotReached, fmt.Errorf("no replica knows the leader: %w", err)}
	}
	return leader, nil
}

func newDevKillCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "kill MEMBER|leader",
		Args:  takes("MEMBER"),
		Short: "End one process of the cluster with kill -9",
		Example: `  weir dev kill leader
  weir dev kill n2`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			name := args[0]
			if name == "leader" {
				if name, err = devLeader(cmd.Context(), dir, 10*time.Second, (*devcluster.Reach).Leader); err != nil {
					return err
				}
			}
			if err := devcluster.Kill(dir, name); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "killed %s\n", name)
			return nil
		},
	}
	registerDevDir(cmd, &dir)
	return cmd
}

func newDevStartCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "start MEMBER",
		Short:   "Restart a killed process of the cluster",
		Example: `  weir dev start r1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			process, err := devcluster.StartMember(cmd.Context(), dir, args[0], devcluster.Default().ReadyTimeout)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "started %s (pid %d)\n", args[0], process.Pid)
			return nil
		},
	}
	registerDevDir(cmd, &dir)
	return cmd
}

// showMembers prints the processes of a cluster.
func showMembers(out io.Writer, dir string) (*devcluster.Record, error) {
	record, err := devcluster.Load(dir)
	if err == nil {
		fmt.Fprint(out, membersTable(seeMembers(record.Members, devcluster.Process.Alive, (*devcluster.Member).Ready)))
	}
	return record, err
}

// seenMember is a member and the current state of its process.
type seenMember struct {
	*devcluster.Member
	// pid is 0 if the process is down. state is one of "down", "starting" and "up".
	pid   int
	state string
}

// seeMembers returns the current state of members, as the functions alive and ready report it.
func seeMembers(members []devcluster.Member, alive func(devcluster.Process) bool, ready func(*devcluster.Member) bool) []seenMember {
	seen := make([]seenMember, len(members))
	for i := range members {
		m := &members[i]
		seen[i] = seenMember{m, 0, "down"}
		if alive(m.Process) {
			seen[i].pid, seen[i].state = m.Process.Pid, "starting"
			if ready(m) {
				seen[i].state = "up"
			}
		}
	}
	return seen
}

// membersTable draws the processes of a cluster.
func membersTable(seen []seenMember) string {
	g := newGrid("name", "address", "pid>", "state", "log")
	for _, m := range seen {
		g.row(m.Name, m.Address, when(m.pid != 0, fmt.Sprint(m.pid)), m.state, relative(m.Log))
	}
	return g.String()
}

// devStatusMessage returns the data of membersTable for programs, with unshortened paths.
func devStatusMessage(seen []seenMember, leader string) (proto.Message, error) {
	members := make([]map[string]any, len(seen))
	for i, m := range seen {
		members[i] = map[string]any{
			"name": m.Name, "kind": m.Kind, "address": m.Address, "pid": m.pid, "state": m.state,
			"data": m.Data, "log": m.Log, "starts": m.Started,
		}
	}
	return messageOf(map[string]any{"leader": leader, "members": members})
}

// relative returns path relative to the current folder, if that is shorter.
func relative(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(here, path); err == nil && len(short) < len(path) {
		return short
	}
	return path
}
