package proxyproto

import "encoding/json"

// What encoding/json meets first in a process it takes apart, with all that can be in there: for
// a spec and a result that was a tenth of what a proxy takes of a processor for a short job.
// What few of them have says for itself how it is written, and is taken apart when it is there.

// MarshalJSON implements json.Marshaler.
func (f Feed) MarshalJSON() ([]byte, error) {
	type plain Feed
	return json.Marshal(plain(f))
}

// MarshalJSON implements json.Marshaler.
func (k KeptFile) MarshalJSON() ([]byte, error) {
	type plain KeptFile
	return json.Marshal(plain(k))
}

// MarshalJSON implements json.Marshaler.
func (t Tmpfs) MarshalJSON() ([]byte, error) {
	type plain Tmpfs
	return json.Marshal(plain(t))
}

// MarshalJSON implements json.Marshaler.
func (u User) MarshalJSON() ([]byte, error) {
	type plain User
	return json.Marshal(plain(u))
}

// MarshalJSON implements json.Marshaler.
func (m MemoryExcess) MarshalJSON() ([]byte, error) {
	type plain MemoryExcess
	return json.Marshal(plain(m))
}

// MarshalJSON implements json.Marshaler.
func (d DiskExcess) MarshalJSON() ([]byte, error) {
	type plain DiskExcess
	return json.Marshal(plain(d))
}

// MarshalJSON implements json.Marshaler.
func (h Hang) MarshalJSON() ([]byte, error) {
	type plain Hang
	return json.Marshal(plain(h))
}

// MarshalJSON implements json.Marshaler.
func (c InputCount) MarshalJSON() ([]byte, error) {
	type plain InputCount
	return json.Marshal(plain(c))
}

// MarshalJSON implements json.Marshaler.
func (c OutputCount) MarshalJSON() ([]byte, error) {
	type plain OutputCount
	return json.Marshal(plain(c))
}

// MarshalJSON implements json.Marshaler.
func (f InputFault) MarshalJSON() ([]byte, error) {
	type plain InputFault
	return json.Marshal(plain(f))
}
