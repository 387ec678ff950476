package cluster

import "hash/fnv"

// Assign returns the live id that key belongs to, "" if none is live. The result depends only on
// the set of live ids, not on their order. When an id is no longer live, only its own keys move,
// and they spread evenly over the other ids. This is rendezvous hashing: Thaler and Ravishankar, A
// Name-Based Mapping Scheme for Rendezvous, 1996.
func Assign[ID ~string](key string, live []ID) ID {
	var owner ID
	var highest uint64
	for i, id := range live {
		weight := weigh(key, string(id))
		if i == 0 || weight > highest || weight == highest && id < owner {
			owner, highest = id, weight
		}
	}
	return owner
}

// weigh returns the weight of id for key. The formula must never change: replicas of different
// versions must agree.
func weigh(key, id string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(id)) // A hash never returns an error.
	_, _ = hash.Write([]byte{0})
	_, _ = hash.Write([]byte(key))
	return mix(hash.Sum64())
}

// mix spreads every bit of x over all others, which FNV does not do. It is
// the finalizer of SplitMix64: Steele, Lea and Flood, Fast Splittable
// Pseudorandom Number Generators, 2014.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
