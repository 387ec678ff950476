package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/raftstore"
	"weir/raftstore/command"
)

// ErrNoLeader is returned when no leader was reachable in time. Nothing has been committed.
var ErrNoLeader = errors.New("no leader is known")

// Errors of another replica's store are returned as if they came from this replica's store.
var (
	// ErrOutcomeUnknown is returned when commands were sent to the leader and no answer came: they
	// may or may not be committed.
	ErrOutcomeUnknown = raftstore.ErrOutcomeUnknown
	// ErrOverloaded is returned when the leader accepts no more commands for now. Nothing has been
	// committed.
	ErrOverloaded = raftstore.ErrOverloaded
)

// encode encodes messages as numbered commands.
func encode(messages []proto.Message) ([]*commandpb.Command, error) {
	commands := make([]*commandpb.Command, len(messages))
	for i, msg := range messages {
		cmd, err := command.New(msg)
		if err != nil {
			return nil, err
		}
		commands[i] = cmd
	}
	return commands, nil
}

// termLog proposes commands of the leader's actors, while its term lasts.
type termLog struct {
	ctx     context.Context
	replica *Replica
}

// ProposeAsync implements the Log of the leader's actors.
func (l *termLog) ProposeAsync(messages []proto.Message, done func([]*commandpb.Result, error)) {
	go func() {
		commands, err := encode(messages)
		if err != nil {
			done(nil, err)
			return
		}
		done(l.replica.commit(l.ctx, commands...))
	}()
}

// anyLog proposes commands to whichever replica leads.
type anyLog struct {
	ctx     context.Context
	replica *Replica
	// patience bounds one proposal of a controller.
	patience time.Duration
}

// ProposeAsync implements the Log of controllers.
func (l *anyLog) ProposeAsync(messages []proto.Message, done func([]*commandpb.Result, error)) {
	go func() {
		ctx, cancel := context.WithTimeout(l.ctx, l.patience)
		defer cancel()
		done(l.replica.Propose(ctx, messages...))
	}()
}

// Propose commits commands, here or at whichever replica leads, and returns a result for each. It
// waits for a leader until ctx is done. ErrNoLeader and ErrOverloaded mean that nothing has been
// committed; ErrOutcomeUnknown means that the commands may have been.
func (r *Replica) Propose(ctx context.Context, messages ...proto.Message) ([]*commandpb.Result, error) {
	commands, err := encode(messages)
	if err != nil {
		return nil, err
	}
	proposed, err := askLeader[*actorpb.Proposed](ctx, r, &actorpb.Propose{Commands: commands})
	return proposed.GetResults(), err
}

// ProposeBy is like Propose, for a command that a subject asked for: it is refused unless the subject
// has the right to it when it is applied.
func (r *Replica) ProposeBy(ctx context.Context, by *commandpb.Subject, msg proto.Message) (*commandpb.Result, error) {
	cmd, err := command.New(msg)
	if err != nil {
		return nil, err
	}
	cmd.Subject = by
	proposed, err := askLeader[*actorpb.Proposed](ctx, r, &actorpb.Propose{Commands: []*commandpb.Command{cmd}})
	if err != nil {
		return nil, err
	}
	return proposed.GetResults()[0], nil
}

// errElsewhere is returned when the replica that was asked is not the leader. Nothing has been
// committed, so the request can be repeated.
var errElsewhere = errors.New("no longer the leader")

// atLeader calls `ask` with the leader's id. If that replica is no longer the leader, atLeader
// tries again, until ctx is done.
func (r *Replica) atLeader(ctx context.Context, ask func(leader string) error) error {
	for {
		current, changed := r.store.Leadership()
		err := fmt.Errorf("replica %s: %w", r.cfg.ID, ErrNoLeader)
		if current.LeaderID != "" {
			err = ask(current.LeaderID)
			if !errors.Is(err, errElsewhere) {
				return err
			}
			err = fmt.Errorf("replica %s: %s, the last known leader, is not responding as leader: %w", r.cfg.ID, current.LeaderID, ErrNoLeader)
		}
		pause := time.NewTimer(r.cfg.Timing.LeaderRetry)
		select {
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("%w (%w)", err, ctx.Err())
		case <-changed:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// fromStore converts the store's errors into this package's.
func fromStore(err error) error {
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
		return err
	case errors.Is(err, raftstore.ErrNotLeader):
		return fmt.Errorf("%w: %w", errElsewhere, err)
	default:
		return err
	}
}

// fromRemote converts a request's errors into this package's: a request that was not sent may be
// repeated.
func fromRemote(err error) error {
	switch {
	case errors.Is(err, remote.ErrNotConnected), errors.Is(err, remote.ErrNotFound):
		return fmt.Errorf("%w: %w", errElsewhere, err)
	case errors.Is(err, remote.ErrQueueFull):
		return fmt.Errorf("%w: %w", ErrOverloaded, err)
	default:
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
}

// expect returns the answer as a T, or the error that the answer represents.
func expect[T proto.Message](answer proto.Message) (T, error) {
	var none T
	if expected, ok := answer.(T); ok {
		return expected, nil
	}
	switch m := answer.(type) {
	case *actorpb.Redirect:
		return none, errElsewhere
	case *actorpb.Refused:
		switch m.GetCode() {
		case actorpb.CodeOverloaded:
			return none, fmt.Errorf("%w: %s", ErrOverloaded, m.GetReason())
		case actorpb.CodeOutcomeUnknown:
			return none, fmt.Errorf("%w: %s", ErrOutcomeUnknown, m.GetReason())
		default:
			return none, m
		}
	default:
		return none, fmt.Errorf("unexpected answer %T", answer)
	}
}

func peerOf(replica string) string {
	return remote.PeerName(identity.Identity{Role: identity.Replica, Name: replica})
}

func peerOfAgent(node string) string {
	return remote.PeerName(identity.Identity{Role: identity.Agent, Name: node})
}
