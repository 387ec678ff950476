package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// joinPeers keeps trying, until ctx ends, to reach configured peers that are
// not members, so that replicas may start and return in any order.
func (g *Gossip) joinPeers(ctx context.Context) {
	interval := g.config.Profile.joinInterval()
	met := sync.OnceFunc(func() { close(g.met) })
	causes := make(map[string]string) // each peer's last error, "" after success
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		g.joinMissing(ctx, causes)
		met()
		// Jitter keeps replicas that start together from joining in step.
		timer.Reset(interval/2 + rand.N(interval))
	}
}

func (g *Gossip) joinMissing(ctx context.Context, causes map[string]string) {
	var attempts sync.WaitGroup
	results := make([]error, len(g.config.Peers))
	for i, peer := range g.config.Peers {
		if !g.isMember(peer) {
			// In parallel, so that a peer that does not answer does not delay the others.
			attempts.Go(func() { results[i] = g.join(ctx, peer) })
		}
	}
	attempts.Wait()
	for i, peer := range g.config.Peers {
		cause := ""
		if results[i] != nil {
			cause = results[i].Error()
		}
		if cause != "" && cause != causes[peer] && ctx.Err() == nil {
			g.log.Info("peer not reached yet", "peer", peer, "cause", cause)
		}
		causes[peer] = cause
	}
}

// isMember returns whether a live member says that its address is peer.
func (g *Gossip) isMember(peer string) bool {
	return slices.ContainsFunc(g.Members(), func(member Member) bool { return member.Address == peer })
}

// join exchanges state with peer unless it turns out to be a member already.
func (g *Gossip) join(ctx context.Context, peer string) error {
	endpoint, err := resolve(ctx, peer)
	if err != nil {
		return err
	}
	if g.roster.at(endpoint) {
		return nil
	}
	if _, err = g.list.Join([]string{endpoint.String()}); err != nil {
		return errors.Unwrap(err) // After one attempt, the list holds one error.
	}
	return nil
}

// resolve returns the IP address and port that address, host:port, stands for.
func resolve(ctx context.Context, address string) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("resolve %q: %w: want host:port", address, err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return netip.AddrPort{}, fmt.Errorf("resolve %q: port %q: want a number from 1 to 65535", address, service)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("resolve %q: %w", address, err)
		}
		ip = found[0]
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(port)), nil
}
