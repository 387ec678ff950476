package actors

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"weir/cluster"
	"weir/scheduling"
)

// wanted are the peers that somebody keeps streams to.
type wanted map[string]bool

func (w wanted) Connect(peer string) error {
	if peer == "replica/bad" {
		return errors.New("told to")
	}
	w[peer] = true
	return nil
}

func (w wanted) Disconnect(peer string) { delete(w, peer) }

func TestNeighbours(t *testing.T) {
	streams := wanted{"agent/n1": true}
	n := neighbours{self: "r1", streams: streams, log: slog.New(slog.DiscardHandler)}
	for _, step := range []struct {
		story string
		view  []string
		want  []string
	}{
		{"it is alone", []string{"r1"}, []string{"agent/n1"}},
		{"two join", []string{"r1", "r2", "r3"}, []string{"agent/n1", "replica/r2", "replica/r3"}},
		{"nothing changes", []string{"r1", "r2", "r3"}, []string{"agent/n1", "replica/r2", "replica/r3"}},
		{"one takes another's place", []string{"r1", "r3", "r4"}, []string{"agent/n1", "replica/r3", "replica/r4"}},
		{"one that cannot be dialed", []string{"bad", "r1", "r4"}, []string{"agent/n1", "replica/r4"}},
		{"it has been removed itself", []string{"r4"}, []string{"agent/n1", "replica/r4"}},
		{"it is back", []string{"r1", "r2", "r4"}, []string{"agent/n1", "replica/r2", "replica/r4"}},
	} {
		view := &cluster.View{}
		for _, id := range step.view {
			view.Replicas = append(view.Replicas, cluster.Replica{ID: scheduling.ReplicaID(id)})
		}
		n.observe(view)
		var got []string
		for peer := range streams {
			got = append(got, peer)
		}
		if slices.Sort(got); !slices.Equal(got, step.want) {
			t.Errorf("%s: streams to %q, want %q", step.story, got, step.want)
		}
	}
}
