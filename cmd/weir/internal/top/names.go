package top

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
)

// namesLast is how long it is known what operations are called: one may move to another pool.
const namesLast = time.Minute

// names are what operations are called, as far as that was asked lately. An operation that is not known to the
// cluster is in it too, with nil.
type names struct {
	mu    sync.Mutex
	known map[string]*apipb.OperationName
	since time.Time
}

// called returns how ids are shown, with what the operations among some are called. If the cluster does not say,
// they are shown bare.
func (s *source) called(ctx context.Context, some ...string) figures.IDs {
	n := &s.names
	n.mu.Lock()
	if len(n.known) >= remembered || time.Since(n.since) >= namesLast {
		n.known, n.since = map[string]*apipb.OperationName{}, time.Now()
	}
	ids := figures.IDs{Names: map[string]*apipb.OperationName{}}
	var unknown []string
	for _, id := range some {
		if name, known := n.known[id]; known {
			ids.Names[id] = name
		} else if id != "" {
			unknown = append(unknown, id)
		}
	}
	n.mu.Unlock()
	if len(unknown) == 0 {
		return ids
	}
	slices.Sort(unknown)
	unknown = slices.Compact(unknown)
	told, err := s.OperationNames(ctx, unknown)
	if err != nil {
		return ids
	}
	maps.Copy(ids.Names, told)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range unknown {
		n.known[id] = told[id]
	}
	return ids
}

// titleOf returns the title and the alias of an operation; empty if it has none or they are not known.
func titleOf(ids figures.IDs, operation string) string {
	if title := ids.Title(operation); title != figures.None {
		return title
	}
	return ""
}
