package state

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/statepb"
)

// Frozen is a State as it was. It stays so while the State goes on, and any
// goroutine may read it.
type Frozen struct {
	header      *statepb.SnapshotHeader
	trees       []*statepb.PoolTree
	nodes       []*statepb.Node
	operations  []*version
	allocations []*statepb.Allocation
	archive     []string
}

// Freeze returns the state as it is. It copies a pointer per record; records are
// copied when they change next.
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

// Records yields everything in the state: the header, pool trees by name, nodes
// by id, operations by acceptance, allocations by grant, and the archive. Equal
// states yield equal records. It stops at the first error and returns it.
// Records must not be changed.
func (f *Frozen) Records(yield func(*statepb.Record) error) error {
	if err := yield(&statepb.Record{Record: &statepb.Record_Header{Header: f.header}}); err != nil {
		return err
	}
	for _, t := range f.trees {
		if err := yield(&statepb.Record{Record: &statepb.Record_Tree{Tree: t}}); err != nil {
			return err
		}
	}
	for _, n := range slices.SortedFunc(slices.Values(f.nodes), compareNodes) {
		if err := yield(&statepb.Record{Record: &statepb.Record_Node{Node: n}}); err != nil {
			return err
		}
	}
	for _, v := range f.operations {
		if err := yield(&statepb.Record{Record: &statepb.Record_Operation{Operation: v.full()}}); err != nil {
			return err
		}
	}
	for _, a := range slices.SortedFunc(slices.Values(f.allocations), compareGrants) {
		if err := yield(&statepb.Record{Record: &statepb.Record_Allocation{Allocation: a}}); err != nil {
			return err
		}
	}
	archive := &statepb.Archive{OperationIds: f.archive}
	return yield(&statepb.Record{Record: &statepb.Record_Archive{Archive: archive}})
}

func compareNodes(a, b *statepb.Node) int { return cmp.Compare(a.GetId(), b.GetId()) }
