package actorpb

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"weir/messages/statepb"
)

// NoRevocations is the version of an empty list of revocations.
const NoRevocations = "none"

// NewRevocations returns what agents are told of revocations: what decides, without reasons and
// users, so that even the longest list fits into one message.
func NewRevocations(all []*statepb.Revocation) *Revocations {
	r := &Revocations{}
	for _, one := range all {
		r.List = append(r.List, &statepb.Revocation{
			Serial: one.GetSerial(), Role: one.GetRole(), Name: one.GetName(), IssuedBefore: one.GetIssuedBefore(), Time: one.GetTime(),
		})
	}
	r.Version = VersionOf(r.List)
	return r
}

// VersionOf returns the version of a list of revocations: a hash of what is in it.
func VersionOf(list []*statepb.Revocation) string {
	if len(list) == 0 {
		return NoRevocations
	}
	hash := sha256.New()
	for _, r := range list {
		fmt.Fprintf(hash, "%q %q %q %d %d\n", r.GetSerial(), r.GetRole(), r.GetName(), r.GetIssuedBefore().AsTime().UnixNano(), r.GetTime().AsTime().UnixNano())
	}
	return hex.EncodeToString(hash.Sum(nil))
}
