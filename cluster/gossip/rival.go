package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// ErrRival is returned when another live process has this replica's id, for example
// because a folder and its configuration were copied.
var ErrRival = errors.New("another process is running as this replica")

const (
	// meetPatience is how long Alone waits for peers that do not answer.
	meetPatience = 3 * time.Second
	// rivalGrace is how long AwaitRival waits, after a rival with an earlier incarnation has
	// answered, before it asks that rival again.
	rivalGrace = 2 * time.Second
	// rivalPings is the minimum number of pings before a silent rival is considered gone: some
	// packets are lost.
	rivalPings = 3
	// rivalPatience is the minimum time for which pings are sent: a rival may be short of processor
	// time. A replica that has moved waits equally long for its old address.
	rivalPatience = time.Second
)

// notice records that this replica's id is known, or announced, at another address. It
// is called with memberlist's locks held.
func (g *Gossip) notice(other *memberlist.Node) {
	entry, err := entryOf(other)
	if err != nil {
		g.log.Warn("gossip member unreadable", "replica", other.Name, "cause", err)
		return
	}
	g.rivalMu.Lock()
	g.rivals[entry.endpoint] = entry.member
	g.rivalMu.Unlock()
	select {
	case g.noticed <- struct{}{}:
	default:
	}
}

// takeRivals returns the rivals noticed since its last call.
func (g *Gossip) takeRivals() map[netip.AddrPort]Member {
	g.rivalMu.Lock()
	defer g.rivalMu.Unlock()
	rivals := g.rivals
	g.rivals = make(map[netip.AddrPort]Member)
	return rivals
}

// Alone returns once every peer has been tried, or after meetPatience. It returns an ErrRival if
// another live process has this replica's id; in that case this process must not begin its work. An
// address that does not answer counts as an old address of this replica.
func (g *Gossip) Alone(ctx context.Context) error {
	timer := time.NewTimer(g.config.meetPatience)
	defer timer.Stop()
	select {
	case <-g.met:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for endpoint, rival := range g.takeRivals() {
		if g.answers(ctx, endpoint) {
			return g.yield(endpoint, rival)
		}
	}
	return nil
}

// AwaitRival returns an ErrRival when another process with this replica's id has an
// earlier incarnation and still answers after rivalGrace, and nil when ctx ends. A
// process with a later incarnation is notified: it has to stop.
func (g *Gossip) AwaitRival(ctx context.Context) error {
	for {
		select {
		case <-g.noticed:
		case <-ctx.Done():
			return nil
		}
		for endpoint, rival := range g.takeRivals() {
			if !g.answers(ctx, endpoint) {
				continue
			}
			later := rival.Incarnation >= g.config.Self.Incarnation
			if later {
				g.log.Error("a later process has this replica's id; it must stop", "replica", rival.ID, "address", endpoint)
				g.tell(endpoint)
			}
			select {
			case <-time.After(rivalGrace):
			case <-ctx.Done():
				return nil
			}
			if !later && g.answers(ctx, endpoint) {
				return g.yield(endpoint, rival)
			}
		}
	}
}

// tell joins a rival, so that it learns of this process. If the members know the rival instead of
// this process, none of them would report this process to the rival.
func (g *Gossip) tell(endpoint netip.AddrPort) {
	if _, err := g.list.Join([]string{endpoint.String()}); err != nil {
		g.log.Warn("cannot tell the other process with this replica's id that it must stop", "address", endpoint, "cause", err)
	}
}

// answers reports whether a process at endpoint says that it is this replica.
func (g *Gossip) answers(ctx context.Context, endpoint netip.AddrPort) bool {
	patience := time.NewTimer(g.config.rivalPatience)
	defer patience.Stop()
	for pings, over := 1, false; !over || pings <= rivalPings; pings++ {
		_, err := g.list.Ping(string(g.self), net.UDPAddrFromAddrPort(endpoint))
		if err == nil {
			return true
		}
		var silent memberlist.NoPingResponseError
		if !errors.As(err, &silent) && pings >= rivalPings {
			return false // Pings cannot even be sent.
		}
		select {
		case <-ctx.Done():
			return false
		case <-patience.C:
			over = true
		default:
		}
	}
	return false
}

// yield leaves the id to the rival: Leave will no longer announce that the replica leaves.
func (g *Gossip) yield(endpoint netip.AddrPort, rival Member) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = true
	return fmt.Errorf("%w: replica %s already runs at %s (gossip at %s): stop that process first, or start this one with its own id and folder",
		ErrRival, rival.ID, rival.Address, endpoint)
}
