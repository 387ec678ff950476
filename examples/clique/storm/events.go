package storm

import (
	"context"
	"errors"
	"slices"
	"time"

	"weir/cmd/poll"
	"weir/examples/clique/load"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// drain drains a node, waits until it has no instance, and undrains it.
func (s *scene) drain(ctx context.Context, e happening) error {
	node := e.name
	s.Say("%s is drained", node)
	if err := s.DrainNode(ctx, node, "storm", s.Timeout); err != nil {
		return err
	}
	if err := s.Until(ctx, node+" is empty", func(seen []*apipb.Instance) bool { return none(seen, node, present) }); err != nil {
		return err
	}
	if err := poll.Pause(ctx, e.hold); err != nil {
		return err
	}
	s.Say("%s may have jobs again", node)
	return s.UndrainNode(ctx, node)
}

// rival starts an operation that is owed most of the cluster, while the service exceeds its fair
// share. It ends the operation some time after instances have been preempted for it.
func (s *scene) rival(ctx context.Context, e happening) error {
	if err := s.Whole(ctx, s.instances()); err != nil {
		return err
	}
	where := "another pool"
	if e.same {
		where = "the same pool"
	}
	s.Say("a rival starts in %s", where)
	operation, err := s.Begin(ctx, s.rivalSpec(e.same))
	if err != nil {
		return err
	}
	if err := s.Until(ctx, "an instance leaves for the rival", func(seen []*apipb.Instance) bool { return slices.ContainsFunc(seen, preempted) }); err != nil {
		return err
	}
	if err := poll.Pause(ctx, e.hold); err != nil {
		return err
	}
	s.Say("the rival is aborted")
	return s.AbortOperation(ctx, operation, "it has been seen", 0)
}

// upgrade replaces the agent of a node by another process.
func (s *scene) upgrade(ctx context.Context, e happening) error {
	node := e.name
	s.Say("the agent of %s is upgraded", node)
	if err := s.StopAgent(ctx, node); err != nil {
		return err
	}
	if err := poll.Pause(ctx, e.hold); err != nil {
		return err
	}
	return s.StartAgent(ctx, node)
}

// die kills a node, waits until discovery reports its death, and starts it again.
func (s *scene) die(ctx context.Context, e happening) error {
	node := e.name
	s.Say("%s dies", node)
	d := doom{node: node}
	told := make(chan error, 1)
	go func() {
		err := s.Until(ctx, "none of its instances counts as ready", func(seen []*apipb.Instance) bool { return none(seen, node, load.Ready) })
		d.known = time.Now()
		told <- err
	}()
	var err error
	d.from, err = s.KillNode(ctx, node)
	if err := errors.Join(err, <-told); err != nil {
		return err
	}
	if err := poll.Pause(ctx, s.Dead-time.Since(d.from)); err != nil {
		return err
	}
	d.to = time.Now()
	s.result.doom = d
	s.Say("%s starts again", node)
	return s.StartAgent(ctx, node)
}

// busy returns a node with ready instances: the node of an event, or the next one that has
// some.
func (s *scene) busy(ctx context.Context, e event) (name string, err error) {
	err = s.Until(ctx, "a node has ready instances", func(seen []*apipb.Instance) bool {
		for i := range s.Nodes {
			name = s.Nodes[(e.node+i)%len(s.Nodes)]
			if !none(seen, name, load.Ready) {
				return true
			}
		}
		return false
	})
	return name, err
}

// none reports whether a node has no instance for which `counts` returns true.
func none(seen []*apipb.Instance, node string, counts func(*apipb.Instance) bool) bool {
	return !slices.ContainsFunc(seen, func(i *apipb.Instance) bool { return i.GetNode() == node && counts(i) })
}

func present(i *apipb.Instance) bool { return i.GetState() != actorpb.InstanceGone }

// preempted returns whether an instance leaves for another operation.
func preempted(i *apipb.Instance) bool {
	return i.GetState() == actorpb.InstanceDraining && i.GetReason() == lifecycle.AbortPreemption.String()
}
