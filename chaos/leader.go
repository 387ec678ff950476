package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"weir/api/client"
	"weir/chaos/history"
	"weir/messages/apipb"
	"weir/messages/versions"
)

// watchLeader records each change of the leader, until ctx is done.
func (n *nemesis) watchLeader(ctx context.Context) {
	var last uint64
	for sleep(ctx, lookPeriod) == nil {
		leader, term, err := n.cluster.Leader(ctx)
		n.score.change(func(p *Progress) {
			p.Leaderless = err != nil || leader == ""
			if !p.Leaderless {
				p.Leader = leader
			}
		})
		if err != nil || leader == "" || term <= last {
			continue
		}
		last = term
		if n.journal.Write(history.Act{What: history.Leads, Leader: leader, Term: term, At: history.Now()}) != nil {
			// The writer keeps the error for the end of the run.
			return
		}
	}
}

// leaderNow returns the leader. If there is none, it waits for one, but at most for Patience.
func (n *nemesis) leaderNow(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, n.cfg.Patience)
	defer cancel()
	for {
		leader, _, err := n.cluster.Leader(limited)
		if err == nil && leader != "" {
			return leader, nil
		}
		if sleep(limited, lookPeriod) != nil {
			return "", errors.Join(ctx.Err(), fmt.Errorf("no leader after %v", n.cfg.Patience), err)
		}
	}
}

// awaitLeader waits until every replica follows one leader.
func (n *nemesis) awaitLeader(ctx context.Context) error {
	if _, err := n.leaderNow(ctx); err != nil {
		return err
	}
	if name := n.settled(ctx, n.cfg.Replicas, n.cfg.Patience); name != "" {
		return errors.Join(ctx.Err(), fmt.Errorf("replica %s has no leader %v after all faults were healed", name, n.cfg.Patience))
	}
	return nil
}

// upgrade brings all members to the newer build, one after another, and raises the version of the cluster.
func (n *nemesis) upgrade(ctx context.Context, api *client.Client) error {
	for _, name := range slices.Concat(n.cfg.Agents, n.cfg.Replicas) {
		if err := n.cluster.Upgrade(ctx, name); err != nil {
			return fmt.Errorf("upgrade %s: %w", name, err)
		}
		if err := n.awaitLeader(ctx); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, n.cfg.Patience)
	defer cancel()
	for {
		_, err := api.FinishUpgrade(limited, &apipb.FinishUpgradeRequest{Version: versions.Current})
		// What a member can is known a moment after its start.
		if client.CodeOf(err) != apipb.CodeUpgradeBlocked {
			return err
		}
		if sleep(limited, lookPeriod) != nil {
			return errors.Join(ctx.Err(), fmt.Errorf("not within %v: %w", n.cfg.Patience, err))
		}
	}
}
