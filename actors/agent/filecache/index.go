package filecache

import (
	"cmp"
	"maps"
	"slices"
)

// index records the contents of a cache, and decides which to evict.
type index struct {
	limit int64
	// bytes is the size of all contents. reserved is the room reserved for files being read.
	bytes, reserved int64
	contents        map[string]*content
	sources         map[string]seen
	// clock grows with each use.
	clock int64
}

// content is a file in the cache.
type content struct {
	size int64
	// used is the index's clock at the last use of the content. pins counts its current uses.
	used int64
	pins int
}

// seen is a source as of its last fetch.
type seen struct {
	// Version is the source's version at that fetch. Another version may have another content.
	Version string `json:"version"`
	Hash    string `json:"hash"`
}

func newIndex(limit int64) *index {
	return &index{limit: limit, contents: map[string]*content{}, sources: map[string]seen{}}
}

// find returns the hash of the content that a source had in this version; empty: unknown.
func (x *index) find(source, version string) (hash string) {
	if known := x.sources[source]; known.Version == version && version != "" {
		return known.Hash
	}
	return ""
}

// maxSources bounds how many sources are remembered. A forgotten source is read again.
const maxSources = 10_000

// learn records which content a source has.
func (x *index) learn(source, version, hash string) {
	if version == "" || x.contents[hash] == nil {
		return
	}
	if _, known := x.sources[source]; !known && len(x.sources) >= maxSources {
		for other := range x.sources {
			delete(x.sources, other)
			break
		}
	}
	x.sources[source] = seen{Version: version, Hash: hash}
}

// add adds a content whose room was reserved. It returns false if the content is already there.
func (x *index) add(hash string, size int64) bool {
	x.reserved -= size
	if x.contents[hash] != nil {
		return false
	}
	x.clock++
	x.contents[hash] = &content{size: size, used: x.clock}
	x.bytes += size
	return true
}

// pin keeps a content from being evicted until it has been unpinned as often as pinned. It returns
// nil if there is no such content.
func (x *index) pin(hash string) *content {
	c := x.contents[hash]
	if c == nil {
		return nil
	}
	x.clock++
	c.used = x.clock
	c.pins++
	return c
}

// unpin undoes a pin. Its argument is the content and not the hash, because another content may
// have that hash by now.
func (x *index) unpin(c *content) { c.pins-- }

// reserve reserves room for a content. It returns the contents that must be deleted first. The
// result `ok` is false if the unused contents do not free enough room.
func (x *index) reserve(size int64) (evicted []string, ok bool) {
	unused, short := x.unused(x.bytes + x.reserved + size - x.limit)
	if short > 0 {
		return nil, false
	}
	x.drop(unused...)
	x.reserved += size
	return unused, true
}

// trim drops unused contents until at least the given number of bytes is dropped or none is left.
// It returns the contents to delete.
func (x *index) trim(bytes int64) (evicted []string) {
	evicted, _ = x.unused(bytes)
	x.drop(evicted...)
	return evicted
}

// unused returns unused contents, least recently used first, until they have the given number of
// bytes. The result `short` is how many bytes are still missing.
func (x *index) unused(bytes int64) (hashes []string, short int64) {
	for _, hash := range x.byUse() {
		if bytes <= 0 {
			break
		}
		if c := x.contents[hash]; c.pins == 0 {
			hashes = append(hashes, hash)
			bytes -= c.size
		}
	}
	return hashes, bytes
}

// byUse returns the hashes of the contents, least recently used first.
func (x *index) byUse() []string {
	return slices.SortedFunc(maps.Keys(x.contents), func(a, b string) int {
		return cmp.Compare(x.contents[a].used, x.contents[b].used)
	})
}

// cancel frees reserved room.
func (x *index) cancel(size int64) { x.reserved -= size }

// drop forgets contents, and which sources had them.
func (x *index) drop(hashes ...string) {
	for _, hash := range hashes {
		if c := x.contents[hash]; c != nil {
			x.bytes -= c.size
			delete(x.contents, hash)
		}
		maps.DeleteFunc(x.sources, func(_ string, s seen) bool { return s.Hash == hash })
	}
}
