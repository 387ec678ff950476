package state

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/statepb"
	"weir/messages/versions"
)

// Frozen is an immutable copy of a State. Commands can still change the State, and any goroutine
// may read the copy.
type Frozen struct {
	// records has a sequence for each kind of record. The records are sorted only when they are
	// read, because no command is applied during Freeze.
	records []iter.Seq[*statepb.Record]
}

// Freeze returns a copy of the state. It copies only one pointer per record. The record itself is
// copied when it is next changed.
func (s *State) Freeze() *Frozen {
	header := &statepb.SnapshotHeader{
		Format:      Format(s.version),
		Index:       s.lastIndex,
		Term:        s.term,
		Limits:      s.limits,
		ClusterId:   s.clusterID,
		DefaultTree: string(s.defaultTree),
		LastPoolId:  uint64(s.lastPool),
	}
	if s.version > versions.Oldest {
		header.Version = s.version
	}
	if !s.lastTime.IsZero() {
		header.LastTime = timestamppb.New(s.lastTime)
	}
	nodes := make([]*statepb.Node, 0, len(s.nodes))
	for _, n := range s.nodes {
		nodes = append(nodes, n.record)
	}
	operations := make([]*version, len(s.order))
	for i, o := range s.order {
		operations[i] = o.version
	}
	archive := &statepb.Archive{OperationIds: s.archive}
	s.generation++
	return &Frozen{[]iter.Seq[*statepb.Record]{
		single(&statepb.Record{Record: &statepb.Record_Header{Header: header}}),
		sequence(s.Trees(), nil, func(t *statepb.PoolTree) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Tree{Tree: t}}
		}),
		sequence(RightsIn(s).Groups(), nil, func(g *statepb.Group) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Group{Group: g}}
		}),
		sequence(RightsIn(s).Revocations(), nil, func(r *statepb.Revocation) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Revocation{Revocation: r}}
		}),
		sequence(RightsIn(s).Accounts(), nil, func(a *statepb.Accounts) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Accounts{Accounts: a}}
		}),
		sequence(RightsIn(s).NodeGrants(), nil, func(g *statepb.NodeGrant) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_NodeGrant{NodeGrant: g}}
		}),
		sequence(StoresIn(s).All(), nil, func(o *statepb.Store) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Store{Store: o}}
		}),
		sequence(nodes, compareNodes, func(n *statepb.Node) *statepb.Record { return &statepb.Record{Record: &statepb.Record_Node{Node: n}} }),
		sequence(operations, nil, func(v *version) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Operation{Operation: v.full()}}
		}),
		sequence(values(s.allocations), compareGrants, func(a *statepb.Allocation) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Allocation{Allocation: a}}
		}),
		sequence(values(s.profiles), compareProfiles, func(p *statepb.MemoryProfile) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Profile{Profile: p}}
		}),
		sequence(s.claims.all(), nil, func(c *statepb.Claim) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Claim{Claim: c}}
		}),
		sequence(s.rates.records(), nil, func(r *statepb.PreemptionRate) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Rate{Rate: r}}
		}),
		single(&statepb.Record{Record: &statepb.Record_Archive{Archive: archive}}),
	}}
}

// Records yields everything in the state: the header, pool trees and groups by name, revocations by key, accounts by subject, grants of nodes by pattern, stores by name, nodes by id,
// operations by acceptance, allocations by grant, memory profiles by key, claims by
// operation, preemption rates by pool, and the archive. Equal states yield equal records.
// It stops at the first error and returns it. Records must not be changed.
func (f *Frozen) Records(yield func(*statepb.Record) error) error {
	for _, records := range f.records {
		for record := range records {
			if err := yield(record); err != nil {
				return err
			}
		}
	}
	return nil
}

// single yields one record.
func single(record *statepb.Record) iter.Seq[*statepb.Record] {
	return slices.Values([]*statepb.Record{record})
}

// sequence yields the record of each element of a list. The elements are sorted by compare; if
// compare is nil, they stay in the order of the list.
func sequence[T any](list []T, compare func(a, b T) int, record func(T) *statepb.Record) iter.Seq[*statepb.Record] {
	return func(yield func(*statepb.Record) bool) {
		ordered := list
		if compare != nil {
			ordered = slices.SortedFunc(slices.Values(list), compare)
		}
		for _, element := range ordered {
			if !yield(record(element)) {
				return
			}
		}
	}
}

// values returns the values of a map in any order.
func values[K comparable, V any](m map[K]V) []V {
	return slices.AppendSeq(make([]V, 0, len(m)), maps.Values(m))
}

func compareProfiles(a, b *statepb.MemoryProfile) int { return cmp.Compare(a.GetKey(), b.GetKey()) }

func compareNodes(a, b *statepb.Node) int { return cmp.Compare(a.GetId(), b.GetId()) }
