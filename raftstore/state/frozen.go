package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/scheduling"
)

// Frozen is an immutable copy of a State. Commands can still change the State, and any goroutine
// may read the copy.
type Frozen struct {
	// Pause, if set, is called between short portions of the work of reading all records.
	Pause func()
	// parts has the records of each kind.
	parts []part
}

// part is the records of a kind.
type part interface {
	// all yields the records in their order, each as a message or, if it is on the shelf, as bytes. They are sorted only
	// here, because no command is applied during Freeze.
	all(pause func(), yield func(record *statepb.Record, encoded []byte) bool)
	// hash adds the hashes of the records to a sum.
	hash(h *Hasher, to *hashSum) error
}

// Freeze returns a copy of the state. It copies at most one pointer per record, and none per allocation. The record
// itself is copied when it is next changed.
func (s *State) Freeze() *Frozen {
	header := &statepb.SnapshotHeader{
		Format:      Format(s.version),
		Index:       s.lastIndex,
		Term:        s.term,
		Limits:      s.limits,
		ClusterId:   s.clusterID,
		DefaultTree: string(s.defaultTree),
		LastPoolId:  uint64(s.lastPool),
		Pace:        s.pace,
	}
	if s.version > versions.Oldest {
		header.Version = s.version
	}
	if !s.lastTime.IsZero() {
		header.LastTime = timestamppb.New(s.lastTime)
	}
	operations := make([]*version, len(s.order))
	for i, o := range s.order {
		operations[i] = o.version
	}
	archive := &statepb.Archive{OperationIds: s.archive}
	s.generation++
	return &Frozen{parts: []part{
		single(&statepb.Record{Record: &statepb.Record_Header{Header: header}}),
		sequence(s.Trees(), func(t *statepb.PoolTree) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Tree{Tree: t}}
		}),
		sequence(RightsIn(s).Groups(), func(g *statepb.Group) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Group{Group: g}}
		}),
		sequence(RightsIn(s).Revocations(), func(r *statepb.Revocation) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Revocation{Revocation: r}}
		}),
		sequence(RightsIn(s).Accounts(), func(a *statepb.Accounts) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Accounts{Accounts: a}}
		}),
		sequence(RightsIn(s).NodeGrants(), func(g *statepb.NodeGrant) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_NodeGrant{NodeGrant: g}}
		}),
		sequence(StoresIn(s).All(), func(o *statepb.Store) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Store{Store: o}}
		}),
		unordered(slices.Values(s.Nodes()), compareNodes, func(n *statepb.Node) *statepb.Record { return &statepb.Record{Record: &statepb.Record_Node{Node: n}} }),
		list[*version]{elements: slices.Values(operations), record: (*version).asRecord, key: (*version).key, encoded: (*version).onShelf},
		unordered(s.allocations.copy(), compareGrants, func(a *statepb.Allocation) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Allocation{Allocation: a}}
		}),
		unordered(slices.Values(values(s.profiles)), compareProfiles, func(p *statepb.MemoryProfile) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Profile{Profile: p}}
		}),
		sequence(s.claims.all(), func(c *statepb.Claim) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Claim{Claim: c}}
		}),
		list[*statepb.PreemptionRate]{elements: slices.Values(s.rates.records()), record: func(r *statepb.PreemptionRate) *statepb.Record {
			return &statepb.Record{Record: &statepb.Record_Rate{Rate: r}}
		}},
		single(&statepb.Record{Record: &statepb.Record_Archive{Archive: archive}}),
	}}
}

// Records yields everything in the state: the header, pool trees and groups by name, revocations by key, accounts by subject, grants of nodes by pattern, stores by name, nodes by id,
// operations by acceptance, allocations by grant, memory profiles by key, claims by
// operation, preemption rates by pool, and the archive. Equal states yield equal records.
// It stops at the first error and returns it. Records must not be changed.
func (f *Frozen) Records(yield func(*statepb.Record) error) error {
	return f.Encoded(func(record *statepb.Record, encoded []byte) error {
		if record == nil {
			record = fromShelf(encoded)
		}
		return yield(record)
	})
}

// Encoded is like Records. Of a record that is on the shelf it yields the bytes instead, which are valid until yield returns.
func (f *Frozen) Encoded(yield func(record *statepb.Record, encoded []byte) error) (err error) {
	pause := f.Pause
	if pause == nil {
		pause = func() {}
	}
	for _, p := range f.parts {
		p.all(pause, func(record *statepb.Record, encoded []byte) bool {
			pause()
			err = yield(record, encoded)
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// list is a part: the records of the elements of a list.
type list[T any] struct {
	elements iter.Seq[T]
	// compare is the order of the records; nil: that of the list.
	compare func(a, b T) int
	record  func(T) *statepb.Record
	// key identifies the content of an element: elements of one state with the same key have the same
	// record. If it is nil, records may differ whatever the element is.
	key func(T) any
	// encoded, if set, returns the bytes of the record of an element, in a buffer if they fit; nil: it has none.
	encoded func(element T, buffer []byte) []byte
}

// single is a part with one record, which is new in each Frozen.
func single(record *statepb.Record) part {
	return list[*statepb.Record]{elements: slices.Values([]*statepb.Record{record}), record: func(r *statepb.Record) *statepb.Record { return r }}
}

// sequence is a part of elements that are in order, and are replaced when they change.
func sequence[T any](elements []*T, record func(*T) *statepb.Record) part {
	return list[*T]{elements: slices.Values(elements), record: record, key: itself[*T]}
}

// unordered is like sequence, for elements in any order; compare is that of their records.
func unordered[T any](elements iter.Seq[*T], compare func(a, b *T) int, record func(*T) *statepb.Record) part {
	return list[*T]{elements: elements, compare: compare, record: record, key: itself[*T]}
}

// itself is the key of an element that is never changed in place.
func itself[T any](element T) any { return element }

// portion is how many elements are compared between two pauses: it takes some 0.1 ms.
const portion = 1 << 10

func (l list[T]) all(pause func(), yield func(*statepb.Record, []byte) bool) {
	ordered := l.elements
	if l.compare != nil {
		compared := 0
		ordered = slices.Values(slices.SortedFunc(l.elements, func(a, b T) int {
			if compared++; compared%portion == 0 {
				pause()
			}
			return l.compare(a, b)
		}))
	}
	var buffer []byte
	for element := range ordered {
		var record *statepb.Record
		var encoded []byte
		if l.encoded != nil {
			encoded = l.encoded(element, buffer)
		}
		if encoded == nil {
			record = l.record(element)
		} else if cap(encoded) <= keptBuffer {
			buffer = encoded
		}
		if !yield(record, encoded) {
			return
		}
	}
}

func (l list[T]) hash(h *Hasher, to *hashSum) error {
	place := uint64(0)
	for element := range l.elements {
		var key any
		if l.key != nil {
			key = l.key(element)
		}
		of, known := h.recall(key)
		if !known {
			var err error
			if of, err = h.take(key, l.record(element)); err != nil {
				return err
			}
		}
		times := uint64(1)
		if l.compare == nil {
			// The order of these is part of the state.
			times += 2 * place
		}
		place++
		to.add(of, times)
	}
	return nil
}

// shardCount is how many shards there are: of 300,000 allocations, each has 300, which take microseconds to copy.
const shardCount = 1024

// shards are allocations by job, in many maps. A copy shares the maps. Each is copied when it next changes.
type shards struct {
	maps  [shardCount]map[scheduling.JobID]*statepb.Allocation
	count int
	// copies counts the copies. made has what it was when a map was made: maps of before may be shared.
	copies uint64
	made   [shardCount]uint64
}

// of returns the allocation of a job.
func (s *shards) of(job scheduling.JobID) (*statepb.Allocation, bool) {
	a, ok := s.maps[shardOf(job)][job]
	return a, ok
}

func (s *shards) put(a *statepb.Allocation) {
	job := scheduling.JobID(a.GetJobId())
	m := s.own(job)
	s.count -= len(m)
	m[job] = a
	s.count += len(m)
}

func (s *shards) remove(job scheduling.JobID) {
	m := s.own(job)
	s.count -= len(m)
	delete(m, job)
	s.count += len(m)
}

// own returns the map of a job, which no copy has.
func (s *shards) own(job scheduling.JobID) map[scheduling.JobID]*statepb.Allocation {
	i := shardOf(job)
	if s.made[i] != s.copies {
		s.maps[i], s.made[i] = maps.Clone(s.maps[i]), s.copies
	}
	return made(&s.maps[i])
}

// shardOf hashes an id (FNV-1a).
func shardOf(job scheduling.JobID) uint32 {
	hash := uint32(2166136261)
	for i := range len(job) {
		hash = (hash ^ uint32(job[i])) * 16777619
	}
	return hash % shardCount
}

// all yields the allocations of now, in any order.
func (s *shards) all() iter.Seq[*statepb.Allocation] {
	shared := s.maps
	return func(yield func(*statepb.Allocation) bool) {
		for _, m := range shared {
			for _, a := range m {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// copy is like all, also while the allocations change.
func (s *shards) copy() iter.Seq[*statepb.Allocation] {
	s.copies++
	return s.all()
}

// Hash is the hash of a state. Equal states have equal hashes, however they came about.
type Hash [16]byte

// String returns the hash in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// HashOf returns the hash of one record.
func HashOf(record *statepb.Record) (Hash, error) {
	data, err := deterministic.Marshal(record)
	return hashOf(data), err
}

// deterministic has equal records encoded as equal bytes.
var deterministic = proto.MarshalOptions{Deterministic: true}

func hashOf(data []byte) Hash {
	whole := sha256.Sum256(data)
	return Hash(whole[:len(Hash{})])
}

// Hasher hashes copies of one state, one after another. It remembers the hashes of records, so that only
// those are encoded that have changed since the copy before.
type Hasher struct {
	hashes map[any]remembered
	// round counts the copies.
	round  uint64
	buffer []byte
	// Encoded counts the records that the last copy was the first to have.
	Encoded int
	pause   func() error
}

type remembered struct {
	hash  Hash
	round uint64
}

// NewHasher returns a Hasher that has seen nothing. The function pause is called before each record that is
// encoded; its error ends Hash.
func NewHasher(pause func() error) *Hasher {
	return &Hasher{hashes: make(map[any]remembered), pause: pause}
}

// Hash returns the hash of the state of which f is a copy: the sum of the hashes of its records.
func (h *Hasher) Hash(f *Frozen) (Hash, error) {
	h.round, h.Encoded = h.round+1, 0
	var total hashSum
	for _, p := range f.parts {
		if err := p.hash(h, &total); err != nil {
			return Hash{}, err
		}
	}
	maps.DeleteFunc(h.hashes, func(_ any, r remembered) bool { return r.round != h.round })
	return total.hash(), nil
}

// recall returns the hash of a record that was hashed before.
func (h *Hasher) recall(key any) (Hash, bool) {
	r, known := h.hashes[key]
	if known && r.round != h.round {
		r.round = h.round
		h.hashes[key] = r
	}
	return r.hash, known
}

// take hashes a record, and remembers the hash if there is a key for it.
func (h *Hasher) take(key any, record *statepb.Record) (Hash, error) {
	err := h.pause()
	if err == nil {
		h.buffer, err = deterministic.MarshalAppend(h.buffer[:0], record)
	}
	if err != nil {
		return Hash{}, fmt.Errorf("hash state: %w", err)
	}
	h.Encoded++
	hash := hashOf(h.buffer)
	if cap(h.buffer) > keptBuffer {
		h.buffer = nil
	}
	if key != nil {
		h.hashes[key] = remembered{hash, h.round}
	}
	return hash, nil
}

// keptBuffer is the largest buffer that is used again.
const keptBuffer = 1 << 20

// hashSum adds up hashes, as two numbers each.
type hashSum [2]uint64

func (s *hashSum) add(h Hash, times uint64) {
	for i := range s {
		s[i] += times * binary.BigEndian.Uint64(h[8*i:])
	}
}

func (s *hashSum) hash() (h Hash) {
	for i, half := range s {
		binary.BigEndian.PutUint64(h[8*i:], half)
	}
	return h
}

// checkState has nothing to change: replicas act on the command itself.
func checkState(c *change, m *commandpb.CheckState) *refusal {
	if n := len(m.GetHash()); n != 0 && n != len(Hash{}) || (n == 0) != (m.GetIndex() == 0) || m.GetIndex() > c.index {
		return refuse(CodeInvalidCommand, "check state: hash of %d bytes at index %d: a point has neither, a verdict has %d bytes and the index of an earlier point",
			n, m.GetIndex(), len(Hash{}))
	}
	return nil
}

// values returns the values of a map in any order.
func values[K comparable, V any](m map[K]V) []V {
	return slices.AppendSeq(make([]V, 0, len(m)), maps.Values(m))
}

func compareProfiles(a, b *statepb.MemoryProfile) int { return cmp.Compare(a.GetKey(), b.GetKey()) }

func compareNodes(a, b *statepb.Node) int { return cmp.Compare(a.GetId(), b.GetId()) }
