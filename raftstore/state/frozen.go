package state

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/statepb"
)

// Frozen is an immutable copy of a State. The State goes on, and any goroutine may read
// the copy.
type Frozen struct {
	header      *statepb.SnapshotHeader
	trees       []*statepb.PoolTree
	nodes       []*statepb.Node
	operations  []*version
	allocations []*statepb.Allocation
	archive     []string
	profiles    []*statepb.MemoryProfile
	claims      []*statepb.Claim
	rates       []*statepb.PreemptionRate
}

// Freeze returns a copy of the state. It copies one pointer per record; a record is
// copied when it changes next.
func (s *State) Freeze() *Frozen {
	f := &Frozen{
		header: &statepb.SnapshotHeader{
			Format:      Format,
			Index:       s.lastIndex,
			Term:        s.term,
			Limits:      s.limits,
			ClusterId:   s.clusterID,
			DefaultTree: string(s.defaultTree),
			LastPoolId:  uint64(s.lastPool),
		},
		trees:       s.Trees(),
		nodes:       make([]*statepb.Node, 0, len(s.nodes)),
		operations:  make([]*version, len(s.order)),
		allocations: slices.AppendSeq(make([]*statepb.Allocation, 0, len(s.allocations)), maps.Values(s.allocations)),
		archive:     s.archive,
		profiles:    slices.AppendSeq(make([]*statepb.MemoryProfile, 0, len(s.profiles)), maps.Values(s.profiles)),
		claims:      s.claims.all(),
		rates:       s.rates.records(),
	}
	if !s.lastTime.IsZero() {
		f.header.LastTime = timestamppb.New(s.lastTime)
	}
	for _, n := range s.nodes {
		f.nodes = append(f.nodes, n.record)
	}
	for i, o := range s.order {
		f.operations[i] = o.version
	}
	s.generation++
	return f
}

// Records yields everything in the state: the header, pool trees by name, nodes by id,
// operations by acceptance, allocations by grant, memory profiles by key, claims by
// operation, preemption rates by pool, and the archive. Equal states yield equal records.
// It stops at the first error and returns it. Records must not be changed.
func (f *Frozen) Records(yield func(*statepb.Record) error) error {
	nodes := slices.SortedFunc(slices.Values(f.nodes), compareNodes)
	allocations := slices.SortedFunc(slices.Values(f.allocations), compareGrants)
	profiles := slices.SortedFunc(slices.Values(f.profiles), compareProfiles)
	w := &recordWriter{yield: yield}
	w.write(&statepb.Record{Record: &statepb.Record_Header{Header: f.header}})
	writeAll(w, f.trees, func(t *statepb.PoolTree) *statepb.Record {
		return &statepb.Record{Record: &statepb.Record_Tree{Tree: t}}
	})
	writeAll(w, nodes, func(n *statepb.Node) *statepb.Record { return &statepb.Record{Record: &statepb.Record_Node{Node: n}} })
	writeAll(w, f.operations, func(v *version) *statepb.Record {
		return &statepb.Record{Record: &statepb.Record_Operation{Operation: v.full()}}
	})
	writeAll(w, allocations, func(a *statepb.Allocation) *statepb.Record {
		return &statepb.Record{Record: &statepb.Record_Allocation{Allocation: a}}
	})
	writeAll(w, profiles, func(p *statepb.MemoryProfile) *statepb.Record {
		return &statepb.Record{Record: &statepb.Record_Profile{Profile: p}}
	})
	writeAll(w, f.claims, func(c *statepb.Claim) *statepb.Record {
		return &statepb.Record{Record: &statepb.Record_Claim{Claim: c}}
	})
	writeAll(w, f.rates, func(r *statepb.PreemptionRate) *statepb.Record {
		return &statepb.Record{Record: &statepb.Record_Rate{Rate: r}}
	})
	w.write(&statepb.Record{Record: &statepb.Record_Archive{Archive: &statepb.Archive{OperationIds: f.archive}}})
	return w.err
}

// recordWriter yields records until the first error.
type recordWriter struct {
	yield func(*statepb.Record) error
	err   error
}

func (w *recordWriter) write(record *statepb.Record) {
	if w.err == nil {
		w.err = w.yield(record)
	}
}

func writeAll[T any](w *recordWriter, list []T, record func(T) *statepb.Record) {
	for i := 0; i < len(list) && w.err == nil; i++ {
		w.write(record(list[i]))
	}
}

func compareProfiles(a, b *statepb.MemoryProfile) int { return cmp.Compare(a.GetKey(), b.GetKey()) }

func compareNodes(a, b *statepb.Node) int { return cmp.Compare(a.GetId(), b.GetId()) }
