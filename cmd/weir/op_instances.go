package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"weir/api/discovery"
	"weir/messages/apipb"
)

func newOpInstancesCommand(f *clientFlags) *cobra.Command {
	var watch, ready bool
	cmd := &cobra.Command{
		Use:   "instances OPERATION",
		Short: "Show the addresses of an operation's jobs, by id or alias",
		Long: `Show the addresses of an operation's jobs, by id or alias: live ones, draining
ones, which are about to stop and should get no new requests, and for a while those that
have stopped. Live ones are ready as soon as they run, or, if their task has readiness
or they report their own state, when that says so.

The replica answers from its own state. It learns by gossip which jobs are being
stopped and which instances are ready, so its answer may be ahead of
what is committed.`,
		Example: `  weir op instances '*search'
  weir op instances '*search' --ready
  weir op instances '*search' --watch -o json`,
		Args:              takes("OPERATION"),
		ValidArgsFunction: f.suggest(true, operationNames(false)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			if watch {
				return watched(ctx, s, s.WatchInstances, args[0], func(seen *apipb.WatchInstancesResponse) view {
					return instancesView(seen, ready)
				})
			}
			seen, err := s.Instances(ctx, args[0])
			if err != nil {
				return err
			}
			return s.show(instancesView(&apipb.WatchInstancesResponse{OperationId: seen.GetOperationId(), Instances: seen.GetInstances(), Over: seen.GetOver()}, ready))
		}),
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "follow until the operation has ended, and refresh as they change")
	cmd.Flags().BoolVar(&ready, "ready", false, "show only those that are ready")
	return cmd
}

func instancesView(seen *apipb.WatchInstancesResponse, ready bool) view {
	if ready {
		seen = proto.CloneOf(seen)
		seen.Instances = slices.DeleteFunc(seen.GetInstances(), func(in *apipb.Instance) bool { return !in.GetReady() })
	}
	v := view{message: seen, rows: true, text: func(now time.Time) string { return instancesText(seen, now) }}
	if len(seen.GetInstances()) == 0 {
		v.empty = fmt.Sprintf("operation %s has no jobs with an address", seen.GetOperationId())
		if ready {
			v.empty = fmt.Sprintf("operation %s has no ready jobs", seen.GetOperationId())
		}
	}
	return v
}

func instancesText(seen *apipb.WatchInstancesResponse, now time.Time) string {
	g := newGrid("task", "cookie>", "job", "state", "address", "node", "started")
	for _, in := range seen.GetInstances() {
		state := in.GetState()
		switch {
		case in.GetReady():
			state += ", ready"
		case in.GetUnready() != "":
			state += ", not ready: " + in.GetUnready()
		case state == discovery.Live:
			state += ", not ready"
		}
		if in.GetReason() != "" {
			state += ": " + in.GetReason()
		}
		if in.GetDeadline() != nil && in.GetDeadline().AsTime().After(now) {
			state += fmt.Sprintf(", %s left", span(in.GetDeadline().AsTime().Sub(now)))
		}
		g.row(in.GetTask(), in.GetCookie(), in.GetJobId(), state, addressesText(in), in.GetNode(), age(in.GetStartTime(), now))
	}
	return g.String()
}

// addressesText names the ports of an instance, each with its host.
func addressesText(in *apipb.Instance) string {
	if len(in.GetPorts()) == 0 {
		return none
	}
	all := make([]string, len(in.GetPorts()))
	for i, port := range in.GetPorts() {
		all[i] = net.JoinHostPort(in.GetHost(), fmt.Sprint(port))
	}
	return strings.Join(all, " ")
}
