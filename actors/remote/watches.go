package remote

// watches is the table of the remote actors that are watched over one stream.
// W is who is told. A watch ends once. It is not safe for concurrent use.
type watches[W any] struct {
	limit int
	last  uint64
	byID  map[uint64]watch[W]
	ids   map[watchKey]uint64
}

// watchKey tells watches apart: an actor watches another once.
type watchKey struct {
	watcher string
	target  string
}

type watch[W any] struct {
	key  watchKey
	tell W
}

func newWatches[W any](limit int) *watches[W] {
	return &watches[W]{limit: limit, byID: make(map[uint64]watch[W]), ids: make(map[watchKey]uint64)}
}

// add begins a watch. fresh is false when there is one already; id is 0 when
// there is no room.
func (w *watches[W]) add(key watchKey, tell W) (id uint64, fresh bool) {
	if id, ok := w.ids[key]; ok {
		return id, false
	}
	if len(w.byID) >= w.limit {
		return 0, false
	}
	w.last++
	w.byID[w.last] = watch[W]{key: key, tell: tell}
	w.ids[key] = w.last
	return w.last, true
}

// remove ends the watch of key without telling anyone.
func (w *watches[W]) remove(key watchKey) (id uint64, ok bool) {
	id, ok = w.ids[key]
	delete(w.ids, key)
	delete(w.byID, id)
	return id, ok
}

// take ends the watch id and returns whom to tell about which target.
func (w *watches[W]) take(id uint64) (target string, tell W, ok bool) {
	found, ok := w.byID[id]
	delete(w.byID, id)
	delete(w.ids, found.key)
	return found.key.target, found.tell, ok
}

// drain ends all watches and returns them, in no particular order.
func (w *watches[W]) drain() []watch[W] {
	all := make([]watch[W], 0, len(w.byID))
	for _, found := range w.byID {
		all = append(all, found)
	}
	clear(w.byID)
	clear(w.ids)
	return all
}
