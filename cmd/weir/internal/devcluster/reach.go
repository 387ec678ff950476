package devcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"weir/api/client"
	"weir/cluster/identity"
	"weir/cmd/poll"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/statepb"
)

// clientSettings are a client's settings for a cluster of this machine.
func clientSettings(access Access) client.Settings {
	return client.Settings{Addresses: access.Addresses, Credentials: access.Credentials, Insecure: access.Credentials == ""}
}

// Reach is a connection to a cluster of this machine: a client of the cluster, and the
// services of each replica for Read.
type Reach struct {
	*client.Client
	Settings client.Settings
	Dir      string
	replicas []reached
}

// reached is one replica.
type reached struct {
	id    string
	nodes apipbconnect.NodeServiceClient
}

// OpenReach opens a connection to the cluster of dir.
func OpenReach(dir string) (*Reach, error) {
	record, err := Load(dir)
	if err != nil {
		return nil, err
	}
	settings := clientSettings(record.Access)
	config, err := settings.Config()
	if err != nil {
		return nil, err
	}
	whole, err := client.New(config)
	if err != nil {
		return nil, err
	}
	r := &Reach{Client: whole, Settings: settings, Dir: dir}
	for _, m := range record.Members {
		if m.Kind == Replica {
			r.replicas = append(r.replicas, reached{m.Name, apipbconnect.NewNodeServiceClient(config.HTTP, config.URL(m.Address))})
		}
	}
	return r, nil
}

// As returns the settings of a user's connection to the cluster, with a new certificate of role user.
func (r *Reach) As(user string) (client.Settings, error) {
	paths := layout{r.Dir}
	authority, err := identity.OpenAuthority(paths.authority())
	if err != nil {
		return client.Settings{}, err
	}
	settings := r.Settings
	settings.Credentials = paths.user(user)
	return settings, authority.Issue(settings.Credentials, identity.Identity{Role: identity.User, Name: user}, []string{"localhost", loopback}, 0)
}

// Replicas returns the addresses of the replicas, by name.
func (r *Reach) Replicas() (map[string]string, error) {
	record, err := Load(r.Dir)
	if err != nil {
		return nil, err
	}
	addresses := make(map[string]string)
	for _, m := range record.Members {
		if m.Kind == Replica {
			addresses[m.Name] = m.Address
		}
	}
	return addresses, nil
}

// View asks every replica which one leads: the cluster is ready when all agree. It is a
// Probe.
func (r *Reach) View(ctx context.Context) (View, error) {
	leaders := make(map[string]bool)
	var view View
	for _, replica := range r.StatusAll(ctx) {
		if replica.Err != nil {
			return View{}, replica.Err
		}
		view.Leader = replica.Status.GetLeader()
		leaders[view.Leader] = true
	}
	if len(leaders) != 1 || leaders[""] {
		return View{}, nil
	}
	nodes, err := r.ListNodes(ctx, statepb.NodeOnline)
	for _, node := range nodes {
		view.Online = append(view.Online, node.GetId())
	}
	return view, err
}

// leaderPause is the time between two checks for a leader.
const leaderPause = 100 * time.Millisecond

// Leader waits for a leader that is running, and returns it: replicas keep naming a dead leader
// until they elect the next. It implements wordcount.Cluster, as do the methods below.
func (r *Reach) Leader(ctx context.Context) (string, error) {
	for {
		leader, err := r.LeaderNow(ctx)
		if leader != "" || err != nil {
			return leader, err
		}
		if poll.Pause(ctx, leaderPause) != nil {
			return "", fmt.Errorf("there is no leader: %w", ctx.Err())
		}
	}
}

// LeaderNow returns the leading replica, or "" if none leads or it is not running.
func (r *Reach) LeaderNow(ctx context.Context) (string, error) {
	status, err := r.Status(ctx)
	if err != nil {
		return "", err
	}
	record, err := Load(r.Dir)
	if err != nil {
		return "", err
	}
	for _, m := range record.Members {
		if m.Name == status.GetLeader() && m.Process.Alive() {
			return m.Name, nil
		}
	}
	return "", nil
}

// Kill ends a replica with kill -9.
func (r *Reach) Kill(replica string) error { return Kill(r.Dir, replica) }

// jobsPage is the maximum number of jobs that a replica returns in one page.
const jobsPage = 1000

// Jobs returns all known jobs of an operation.
func (r *Reach) Jobs(ctx context.Context, id string) ([]*apipb.Job, error) {
	var jobs []*apipb.Job
	for {
		page, err := r.ListJobs(ctx, &apipb.ListJobsRequest{Operation: id, Limit: jobsPage, Offset: int32(len(jobs))})
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, page.GetJobs()...)
		if len(page.GetJobs()) == 0 || len(jobs) >= int(page.GetTotal()) {
			return jobs, nil
		}
	}
}

// Stdout returns what a job wrote to its stdout.
func (r *Reach) Stdout(ctx context.Context, job string) (string, error) {
	var text strings.Builder
	_, err := r.CopyOutput(ctx, &text, client.Output{JobID: job, Stream: "stdout"})
	return text.String(), err
}

// Read makes one linearizable read at a replica that `turn` chooses, but never at the replica
// `without`.
func (r *Reach) Read(ctx context.Context, without string, turn int) error {
	others := slices.DeleteFunc(slices.Clone(r.replicas), func(replica reached) bool { return replica.id == without })
	if len(others) == 0 {
		return errors.New("no other replica")
	}
	_, err := others[turn%len(others)].nodes.List(ctx, connect.NewRequest(&apipb.ListNodesRequest{}))
	return err
}

// ReadAt makes one linearizable read at a replica: it fails while the replica knows no leader, or lacks
// something that was committed before.
func (r *Reach) ReadAt(ctx context.Context, replica string) error {
	i := slices.IndexFunc(r.replicas, func(one reached) bool { return one.id == replica })
	if i < 0 {
		return fmt.Errorf("no replica %q", replica)
	}
	_, err := r.replicas[i].nodes.List(ctx, connect.NewRequest(&apipb.ListNodesRequest{}))
	return err
}
