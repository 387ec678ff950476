package gossip

import (
	"strings"

	"weir/scheduling"
)

// seenVersions remembers the latest version of up to maxSeen messages, by
// name. The zero value is empty and ready to use.
type seenVersions struct {
	versions map[string]uint64
	order    []string // a ring of the names; once it is full, the oldest is at index next
	next     int
}

// advance returns whether version is newer than the latest one seen under name. If so, it remembers
// the new version.
func (s *seenVersions) advance(name string, version uint64) bool {
	if s.versions == nil {
		s.versions = make(map[string]uint64)
	}
	latest, known := s.versions[name]
	if known && version <= latest {
		return false
	}
	s.versions[name] = version
	switch {
	case known:
	case len(s.order) < maxSeen:
		s.order = append(s.order, name)
	default:
		delete(s.versions, s.order[s.next])
		s.order[s.next] = name
		s.next = (s.next + 1) % maxSeen
	}
	return true
}

// latestByOrigin returns the highest version seen of each sender.
func (s *seenVersions) latestByOrigin() map[scheduling.ReplicaID]uint64 {
	latest := make(map[scheduling.ReplicaID]uint64)
	for name, version := range s.versions {
		_, rest, _ := strings.Cut(name, "\x00")
		origin, _, _ := strings.Cut(rest, "\x00")
		id := scheduling.ReplicaID(origin)
		latest[id] = max(latest[id], version)
	}
	return latest
}
