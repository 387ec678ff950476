package storage

import (
	"path"
	"strings"
)

// isGlob reports whether a path is a pattern.
func isGlob(name string) bool { return strings.ContainsAny(name, `*?[\`) }

// checkGlob returns path.ErrBadPattern if a pattern is malformed.
func checkGlob(pattern string) error {
	for segment := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(segment, ""); err != nil {
			return err
		}
	}
	return nil
}

// matches reports whether a name matches a pattern: segment by segment as in path.Match,
// where ** matches any number of segments.
func matches(pattern, name []string) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == "**" {
		for i := range len(name) + 1 {
			if matches(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	if len(name) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], name[0])
	return err == nil && ok && matches(pattern[1:], name[1:])
}

// mayLead reports whether a folder can contain, at any depth, names that match a pattern.
func mayLead(pattern, folder []string) bool {
	switch {
	case len(folder) == 0:
		return len(pattern) > 0
	case len(pattern) == 0:
		return false
	case pattern[0] == "**":
		return true
	}
	ok, err := path.Match(pattern[0], folder[0])
	return err == nil && ok && mayLead(pattern[1:], folder[1:])
}

// literal splits a pattern into the segments before the first wildcard, and the rest.
func literal(pattern string) (base string, rest []string) {
	segments := strings.Split(pattern, "/")
	for i, segment := range segments {
		if isGlob(segment) {
			return strings.Join(segments[:i], "/"), segments[i:]
		}
	}
	return pattern, nil
}
