package discovery

import (
	"weir/messages/actorpb"
	"weir/messages/discoveryjson"
)

// watch is the subscription of a connection to changes. The zero value has none.
type watch struct {
	desk *Desk
	// Both are nil before begin. peersChanged is also nil once the operation is over.
	peersChanged, noticeChanged <-chan struct{}
	following                   bool

	// changes is set if the job accepts changes relative to the instances in the last answer. The
	// field told holds those instances. revision is the number of that answer; 0 before the first.
	changes  bool
	revision uint64
	told     []*actorpb.Instance
}

// begin starts the subscription and returns the current state. It may be called again.
func (w *watch) begin(changes bool) []discoveryjson.Answer {
	if !w.following {
		if err := w.desk.directory.Follow(w.desk.asker.Operation, w.desk.asker.Index); err != nil {
			return []discoveryjson.Answer{failure(err)}
		}
		w.following = true
	}
	w.changes, w.revision, w.told = changes, 0, nil
	answers := []discoveryjson.Answer{w.notice()}
	if view := w.look(); view.Instances != nil {
		answers = append(answers, w.tell(view))
	}
	return answers
}

// end ends the subscription.
func (w *watch) end() {
	if w.following {
		w.desk.directory.Release(w.desk.asker.Operation)
	}
}

// peers returns the answer after a change; none if only a request to a replica failed.
func (w *watch) peers() []discoveryjson.Answer {
	view := w.look()
	if view.Err != nil {
		return nil
	}
	return []discoveryjson.Answer{w.tell(view)}
}

// tell returns all peers, or only the changes if the job accepts changes and there are fewer
// changes than peers.
func (w *watch) tell(view View) discoveryjson.Answer {
	self := w.desk.asker.Job
	if !w.changes {
		return discoveryjson.Answer{Peers: peers(view, self)}
	}
	before, known := w.told, w.revision > 0
	now, omitted := cut(view)
	w.told = now
	w.revision++
	put, gone := actorpb.InstanceChanges.Between(before, now)
	if !known || len(put)+len(gone) >= max(len(now), 1) {
		whole := peers(view, self)
		whole.Revision = w.revision
		return discoveryjson.Answer{Peers: whole}
	}
	return discoveryjson.Answer{Changes: &discoveryjson.Changes{
		Revision: w.revision, AsOf: view.AsOf.UTC(), Over: view.Instances.GetOver(), Omitted: omitted,
		Instances: instances(put, self), Forgotten: gone,
	}}
}

// look returns the current view and arms peersChanged for the next change.
func (w *watch) look() View {
	view, changed := w.desk.directory.View(w.desk.asker.Operation)
	w.peersChanged = changed
	if view.Instances.GetOver() {
		w.peersChanged = nil
	}
	return view
}

func (w *watch) notice() discoveryjson.Answer {
	notice, changed := w.desk.told()
	w.noticeChanged = changed
	return discoveryjson.Answer{Notice: &notice}
}
