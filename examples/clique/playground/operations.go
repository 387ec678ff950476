package playground

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
)

// Stage is a cluster on which the service is run.
type Stage struct {
	*Cluster
	// CPU is the cores of each job; Places is how many such jobs the cluster holds.
	CPU    float64
	Places int
	// Nodes are the names of the nodes, in order.
	Nodes  []string
	config Config
}

// memoryLimit of each job is small: jobs are limited by their cores.
const memoryLimit = "64MiB"

// On starts a cluster whose nodes hold perNode jobs each, takes the steps on it, one after
// another, and stops it.
func On(ctx context.Context, c Config, perNode int, steps ...func(*Stage) error) (err error) {
	fmt.Fprintf(c.Out, "starting 3 replicas and %d agents on this machine; the seed is %d\n", c.Agents, c.Load.Seed)
	up := &Cluster{weir: c.Weir, over: make(chan struct{})}
	defer func() { err = errors.Join(err, up.stop()) }()
	if err = up.up(c.Agents); err == nil {
		err = up.await(ctx, c.Agents)
	}
	if err != nil {
		return fmt.Errorf("start cluster: %w", err)
	}
	nodes, err := up.ListNodes(ctx, "")
	if err != nil {
		return err
	}
	s := &Stage{Cluster: up, Places: perNode * len(nodes), config: c}
	for _, node := range nodes {
		s.Nodes = append(s.Nodes, node.GetId())
		if part := node.GetResources().GetCpu() / float64(perNode); s.CPU == 0 || part < s.CPU {
			s.CPU = part
		}
	}
	slices.Sort(s.Nodes)
	if s.CPU <= 0 {
		return fmt.Errorf("the nodes have no cpu: %v", nodes)
	}
	for _, step := range steps {
		if err := step(s); err != nil {
			return err
		}
	}
	return nil
}

// MakePool makes a pool with options.
func (s *Stage) MakePool(ctx context.Context, name string, options map[string]any) error {
	set, err := structpb.NewStruct(options)
	if err == nil {
		_, err = s.CreatePool(ctx, &apipb.Pool{Name: name, Options: set})
	}
	return err
}

// Begin starts the operation that `description` specifies, and returns its id.
func (s *Stage) Begin(ctx context.Context, description map[string]any) (operation string, err error) {
	spec, err := structpb.NewStruct(description)
	if err != nil {
		return "", err
	}
	started, err := s.StartOperation(ctx, &apipb.StartRequest{Spec: spec})
	return started.GetOperationId(), err
}

// Service describes the service: its instances have a port each, get SIGTERM when they have to
// leave, and run again afterwards. More options can be set in task.
func (s *Stage) Service(title, pool string, instances int, notice time.Duration) (operation, task map[string]any) {
	task = s.task(instances, s.config.Self, "serve", "--notice", notice.String())
	task["port_count"], task["interruption_signal"], task["restart_completed_jobs"] = 1, "SIGTERM", true
	return map[string]any{"title": title, "pool": pool, "tasks": map[string]any{"serve": task}}, task
}

// Filler describes an operation that fills the cluster if it is alone. Its jobs just sleep.
func (s *Stage) Filler(title, pool string) map[string]any {
	return map[string]any{"title": title, "pool": pool, "tasks": map[string]any{"fill": s.task(s.Places, "/bin/sleep", "1h")}}
}

func (s *Stage) task(jobs int, command ...any) map[string]any {
	return map[string]any{"job_count": jobs, "command": command, "cpu_limit": s.CPU, "memory_limit": memoryLimit}
}
