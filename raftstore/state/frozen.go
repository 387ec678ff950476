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
	profiles    []*statepb.MemoryProfile
	claims      []*statepb.Claim
	rates       []*statepb.PreemptionRate
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

// Records yields everything in the state: the header, pool trees by name, nodes
// by id, operations by acceptance, allocations by grant, memory profiles by key, claims by
// operation, rates of preemption by pool, and the archive. Equal states yield equal
// records. It stops at the first error and returns it. Records must not be changed.
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
	for _, p := range slices.SortedFunc(slices.Values(f.profiles), compareProfiles) {
		if err := yield(&statepb.Record{Record: &statepb.Record_Profile{Profile: p}}); err != nil {
			return err
		}
	}
	for _, claim := range f.claims {
		if err := yield(&statepb.Record{Record: &statepb.Record_Claim{Claim: claim}}); err != nil {
			return err
		}
	}
	for _, rate := range f.rates {
		if err := yield(&statepb.Record{Record: &statepb.Record_Rate{Rate: rate}}); err != nil {
			return err
		}
	}
	archive := &statepb.Archive{OperationIds: f.archive}
	return yield(&statepb.Record{Record: &statepb.Record_Archive{Archive: archive}})
}

func compareProfiles(a, b *statepb.MemoryProfile) int { return cmp.Compare(a.GetKey(), b.GetKey()) }

func compareNodes(a, b *statepb.Node) int { return cmp.Compare(a.GetId(), b.GetId()) }
