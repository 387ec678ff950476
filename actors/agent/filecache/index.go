package filecache

import (
	"cmp"
	"maps"
	"slices"
)

// index is what a cache has, and what it may throw away.
type index struct {
	limit int64
	// bytes is the size of all contents, reserved what others are about to take.
	bytes, reserved int64
	contents        map[string]*content
	sources         map[string]seen
	// clock grows with each use.
	clock int64
}

// content is a file that the cache has.
type content struct {
	size int64
	// used is when it was last used, by the index's clock; pins is how often it is in use.
	used int64
	pins int
}

// seen is a source as it was when it was last read.
type seen struct {
	// Version is what the source says of its content: another one may be another content.
	Version string `json:"version"`
	Hash    string `json:"hash"`
}

func newIndex(limit int64) *index {
	return &index{limit: limit, contents: map[string]*content{}, sources: map[string]seen{}}
}

// find returns the content that a source had in this version; empty: that is not known.
func (x *index) find(source, version string) (hash string) {
	if known := x.sources[source]; known.Version == version && version != "" {
		return known.Hash
	}
	return ""
}

// maxSources bounds how many sources are remembered. One that is forgotten is read again.
const maxSources = 10_000

// learn says which content a source has.
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

// add takes a content, for which room was reserved. It reports false if it is here
// already.
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

// pin keeps a content from being thrown away until it is unpinned as often. It returns nil
// if there is no such content.
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

// unpin takes what pin has returned: there may be another content with the hash by now.
func (x *index) unpin(c *content) { c.pins-- }

// reserve takes room for a content. It returns what has to be thrown away for it, in that
// order; false: there is no room before something is given back.
func (x *index) reserve(size int64) (evicted []string, ok bool) {
	unused, short := x.unused(x.bytes + x.reserved + size - x.limit)
	if short > 0 {
		return nil, false
	}
	x.drop(unused...)
	x.reserved += size
	return unused, true
}

// trim returns what has to be thrown away to give back so many bytes, as far as it is not
// in use, and forgets it.
func (x *index) trim(bytes int64) (evicted []string) {
	evicted, _ = x.unused(bytes)
	x.drop(evicted...)
	return evicted
}

// unused returns contents of so many bytes that are not in use, those first that were not used
// for longest, and how many bytes more there would have to be.
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

// byUse returns the contents, the one that was not used for longest first.
func (x *index) byUse() []string {
	return slices.SortedFunc(maps.Keys(x.contents), func(a, b string) int {
		return cmp.Compare(x.contents[a].used, x.contents[b].used)
	})
}

// cancel gives back what was reserved.
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
