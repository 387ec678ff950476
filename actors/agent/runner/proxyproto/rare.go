package proxyproto

import "encoding/json"

// The first time that a process encodes or decodes a type, encoding/json analyzes it and all
// types below it. For Spec and Result that was a tenth of a proxy's CPU time for a short job.
// So the types of rarely set fields have a MarshalJSON, at which the analysis stops. It encodes
// the value as the same struct without that method, which is analyzed only when needed.
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
