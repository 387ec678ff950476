package proxyproto

import "encoding/json"

// What encoding/json meets first in a process it takes apart, with all that can be in there: for
// a spec and a result that was a tenth of what a proxy takes of a processor for a short job.
// What few of them have says for itself how it is written, and is taken apart when it is there:
// as the type of the same fields without that method.
type (
	plainFeed         Feed
	plainKeptFile     KeptFile
	plainTmpfs        Tmpfs
	plainUser         User
	plainMemoryExcess MemoryExcess
	plainDiskExcess   DiskExcess
	plainHang         Hang
	plainInputCount   InputCount
	plainOutputCount  OutputCount
	plainInputFault   InputFault
)

// MarshalJSON implements json.Marshaler.
func (f Feed) MarshalJSON() ([]byte, error) { return json.Marshal(plainFeed(f)) }

// MarshalJSON implements json.Marshaler.
func (k KeptFile) MarshalJSON() ([]byte, error) { return json.Marshal(plainKeptFile(k)) }

// MarshalJSON implements json.Marshaler.
func (t Tmpfs) MarshalJSON() ([]byte, error) { return json.Marshal(plainTmpfs(t)) }

// MarshalJSON implements json.Marshaler.
func (u User) MarshalJSON() ([]byte, error) { return json.Marshal(plainUser(u)) }

// MarshalJSON implements json.Marshaler.
func (m MemoryExcess) MarshalJSON() ([]byte, error) { return json.Marshal(plainMemoryExcess(m)) }

// MarshalJSON implements json.Marshaler.
func (d DiskExcess) MarshalJSON() ([]byte, error) { return json.Marshal(plainDiskExcess(d)) }

// MarshalJSON implements json.Marshaler.
func (h Hang) MarshalJSON() ([]byte, error) { return json.Marshal(plainHang(h)) }

// MarshalJSON implements json.Marshaler.
func (c InputCount) MarshalJSON() ([]byte, error) { return json.Marshal(plainInputCount(c)) }

// MarshalJSON implements json.Marshaler.
func (c OutputCount) MarshalJSON() ([]byte, error) { return json.Marshal(plainOutputCount(c)) }

// MarshalJSON implements json.Marshaler.
func (f InputFault) MarshalJSON() ([]byte, error) { return json.Marshal(plainInputFault(f)) }
