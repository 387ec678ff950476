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

// ErrRival is returned when another live process is the same replica, as after a
// folder and its configuration were copied.
var ErrRival = errors.New("another process is running as this replica")

const (
	// meetPatience is how long Alone waits for peers that do not answer.
	meetPatience = 3 * time.Second
	// rivalGrace is how long a rival that began later has to give way.
	rivalGrace = 2 * time.Second
	// rivalPings are sent at least before one that does not answer is taken for gone:
	// some are lost.
	rivalPings = 3
	// rivalPatience is for how long they are sent at least: a rival may be short of
	// processor time. A replica that begins elsewhere waits as long for who it was before.
	rivalPatience = time.Second
)

// notice remembers that the cluster knows, or is told of, this replica at another
// address. It is called with memberlist's locks held.
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

// takeRivals returns what was noticed since it was called last.
func (g *Gossip) takeRivals() map[netip.AddrPort]Member {
	g.rivalMu.Lock()
	defer g.rivalMu.Unlock()
	rivals := g.rivals
	g.rivals = make(map[netip.AddrPort]Member)
	return rivals
}

// Alone returns once every peer has been tried, and an ErrRival if another live
// process is this replica: this one must not begin its work then. An address at
// which nobody answers is one that the replica had before.
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

// AwaitRival returns an ErrRival when a live process turns out to be this replica
// and to have been it first, and nil when ctx ends. A later one is given time to
// give way.
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

// tell makes itself known to a rival, whom the cluster may know in its place: nobody
// else would tell it of this process then.
func (g *Gossip) tell(endpoint netip.AddrPort) {
	if _, err := g.list.Join([]string{endpoint.String()}); err != nil {
		g.log.Warn("cannot notify the later process", "address", endpoint, "cause", err)
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
			return false // It cannot be asked.
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

// yield leaves the id to the rival: this process will say no farewell in its name.
func (g *Gossip) yield(endpoint netip.AddrPort, rival Member) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = true
	return fmt.Errorf("%w: replica %s already runs at %s (gossip at %s): stop that process first, or start this one with its own id and folder",
		ErrRival, rival.ID, rival.Address, endpoint)
}
