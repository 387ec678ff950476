package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/memberlist"

	"weir/scheduling"
)

// Member is what a replica says about itself.
type Member struct {
	// ID names the replica.
	ID scheduling.ReplicaID
	// Address is the host:port at which replicas and agents reach it.
	Address string
	// APIAddress is the host:port at which clients reach it.
	APIAddress string
	// Version is the version of its program.
	Version string
	// Can is the highest version of the cluster that its program works with; 0: 1.
	Can uint64
	// ClusterVersion is the version of the cluster in its state; 0: 1.
	ClusterVersion uint64
	// Leader says that the replica considers itself the leader in Term.
	Leader bool
	// Term is the latest raft term that the replica knows.
	Term uint64
	// Incarnation identifies a process of the replica. Later processes have greater numbers.
	Incarnation uint64
	// PeerList is the fingerprint of the list of initial peers that the
	// replica was started with; replicas of one cluster must have the same.
	PeerList string
	// Initialized says that the replica's log is not empty, so that its cluster
	// has been bootstrapped.
	Initialized bool
	// Ready says that the replica's state has caught up with the leader's since it
	// started, so that it may be given work.
	Ready bool
	// StateHash is the hash of the replica's state at StateIndex, the last point of its log at which
	// states are compared; empty: it has none.
	StateIndex uint64
	StateHash  string
}

// MaxMemberSize is the largest size of an encoded Member, in bytes. The limit is memberlist's: a
// Member of this size fits a packet with room to spare.
const MaxMemberSize = memberlist.MetaMaxSize

// ErrTooLarge is returned for a Member or message that does not fit a packet.
var ErrTooLarge = errors.New("too large for a packet")

// memberFormat is the first byte of an encoded Member. Fields may be added
// under new tags; readers skip unknown tags.
const memberFormat = 1

// Tags of an encoded Member's fields. They are on the wire: append new ones,
// never reuse one.
const (
	tagID = iota + 1
	tagAddress
	tagAPIAddress
	tagVersion
	tagLeader
	tagTerm
	_ // taken: older versions send a share of processor time
	tagPeerList
	tagInitialized
	tagReady
	tagIncarnation
	tagCan
	tagClusterVersion
	tagStateIndex
	tagStateHash
)

// field is a field of a Member: a *string, *uint64 or *bool.
type field struct {
	tag   byte
	value any
}

func (m *Member) fields() []field {
	return []field{
		{tagID, (*string)(&m.ID)}, {tagAddress, &m.Address}, {tagAPIAddress, &m.APIAddress}, {tagVersion, &m.Version}, {tagPeerList, &m.PeerList},
		{tagTerm, &m.Term}, {tagIncarnation, &m.Incarnation}, {tagLeader, &m.Leader}, {tagInitialized, &m.Initialized}, {tagReady, &m.Ready},
		{tagCan, &m.Can}, {tagClusterVersion, &m.ClusterVersion},
		{tagStateIndex, &m.StateIndex}, {tagStateHash, &m.StateHash},
	}
}

// encodeMember encodes m as memberFormat, followed by (tag, length, bytes) for
// each field that is not zero.
func encodeMember(m Member) ([]byte, error) {
	if m.ID == "" {
		return nil, errors.New("encode member: has no id")
	}
	out := []byte{memberFormat}
	for _, f := range m.fields() {
		var content []byte
		switch value := f.value.(type) {
		case *string:
			content = []byte(*value)
		case *uint64:
			if *value != 0 {
				content = binary.AppendUvarint(nil, *value)
			}
		case *bool:
			if *value {
				out = append(out, f.tag, 0)
			}
		}
		if len(content) > 0 {
			out = appendBytes(append(out, f.tag), content)
		}
	}
	if len(out) > MaxMemberSize {
		return nil, fmt.Errorf("encode member %s: %w: has %d bytes, the limit is %d: shorten its addresses or its version", m.ID, ErrTooLarge, len(out), MaxMemberSize)
	}
	return out, nil
}

// decodeMember undoes encodeMember.
func decodeMember(data []byte) (Member, error) {
	var m Member
	if len(data) == 0 || data[0] != memberFormat {
		return m, fmt.Errorf("decode member: does not start with format %d: is it a replica of another version?", memberFormat)
	}
	for data = data[1:]; len(data) > 0; {
		tag := data[0]
		content, rest, err := cutBytes(data[1:])
		if err == nil {
			err = m.setField(tag, content)
		}
		if err != nil {
			return m, fmt.Errorf("decode member: field %d: %w", tag, err)
		}
		data = rest
	}
	if m.ID == "" {
		return m, errors.New("decode member: has no id")
	}
	return m, nil
}

func (m *Member) setField(tag byte, content []byte) error {
	for _, f := range m.fields() {
		if f.tag != tag {
			continue
		}
		switch value := f.value.(type) {
		case *string:
			*value = string(content)
		case *bool:
			*value = true
		case *uint64:
			number, n := binary.Uvarint(content)
			if n <= 0 || n != len(content) {
				return errors.New("malformed number")
			}
			*value = number
		}
	}
	return nil
}

var errCut = errors.New("cut off")

// cutBytes splits data, which begins with a length, into content of that length and the rest.
func cutBytes(data []byte) (content, rest []byte, err error) {
	length, n := binary.Uvarint(data)
	if n <= 0 || length > uint64(len(data)-n) {
		return nil, nil, errCut
	}
	data = data[n:]
	return data[:length], data[length:], nil
}

// appendBytes appends content to data so that cutBytes finds it.
func appendBytes[T ~string | ~[]byte](data []byte, content T) []byte {
	return append(binary.AppendUvarint(data, uint64(len(content))), content...)
}
