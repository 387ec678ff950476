package discovery

import "weir/messages/discoveryjson"

// watch is a job that wants to hear of changes. The zero one hears of none.
type watch struct {
	desk *Desk
	// Nil: not watched, or nothing will change any more.
	peersChanged, noticeChanged <-chan struct{}
	following                   bool
}

// begin returns what is known now. It may be called again.
func (w *watch) begin() []discoveryjson.Answer {
	if !w.following {
		if err := w.desk.directory.Follow(w.desk.asker.Operation, w.desk.asker.Index); err != nil {
			return []discoveryjson.Answer{failure(err)}
		}
		w.following = true
	}
	answers := []discoveryjson.Answer{w.notice()}
	if view := w.look(); view.Instances != nil {
		answers = append(answers, discoveryjson.Answer{Peers: peers(view, w.desk.asker.Job)})
	}
	return answers
}

// end ends what begin began.
func (w *watch) end() {
	if w.following {
		w.desk.directory.Release(w.desk.asker.Operation)
	}
}

// peers returns the peers after a change. A replica that does not answer is none.
func (w *watch) peers() []discoveryjson.Answer {
	view := w.look()
	if view.Err != nil {
		return nil
	}
	return []discoveryjson.Answer{{Peers: peers(view, w.desk.asker.Job)}}
}

// look returns what is known, and waits for the next change.
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
