package proxyproto

import (
	"fmt"
	"path/filepath"
	"time"
)

// Feed is what a job gets on its standard input, and what becomes of its standard output.
type Feed struct {
	// Format is one of package records.
	Format string `json:"format"`
	// Parts are read in this order.
	Parts []FeedPart `json:"parts"`
	// MaxRecordBytes limits one record: a longer one is a fault.
	MaxRecordBytes int64 `json:"max_record_bytes"`
	// Output is where standard output goes, a path or an http URL to put it to. Nothing
	// is there before the job has completed.
	Output string `json:"output"`
	// Part is the name by which the operation knows the output.
	Part string `json:"part"`
}

// FeedPart is a part of a file: the records that begin in [Begin, End).
type FeedPart struct {
	// Path or URL is where the file is read: a path that the proxy sees, or an http URL.
	Path string `json:"path,omitempty"`
	URL  string `json:"url,omitempty"`
	// Name is what people call the file, in faults.
	Name string `json:"name,omitempty"`
	// Size, ModTime and Version are those of the file when it was listed. Zero: not known.
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mod_time"`
	Version string    `json:"version,omitempty"`
	Begin   int64     `json:"begin"`
	End     int64     `json:"end"`
}

// KeptFile is a file or folder that is copied when the job has completed.
type KeptFile struct {
	// Path is within the workspace, Destination a path that the proxy sees or an http URL
	// to put it to.
	Path        string `json:"path"`
	Destination string `json:"destination"`
}

// InputCount is what a fed job has read.
type InputCount struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
	// Hash is the sum of the records' XXH64 hashes, without their ends of line, modulo
	// 2^64.
	Hash uint64 `json:"hash"`
	// Rest is where that begins which was not fed; nil: all was.
	Rest *FeedPosition `json:"rest,omitempty"`
	// Only is set when Rows is 1: that record.
	Only *FeedRecord `json:"only,omitempty"`
}

// FeedRecord is a record at [Begin, End) of the file of part number Part.
type FeedRecord struct {
	Part  int   `json:"part"`
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
	// Head is how it begins, for people.
	Head []byte `json:"head,omitempty"`
}

// FeedPosition is a border of records: all before Offset of part number Part was read.
type FeedPosition struct {
	Part   int   `json:"part"`
	Offset int64 `json:"offset"`
}

// OutputCount is what a job has written, kept as Part.
type OutputCount struct {
	Part  string `json:"part"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
}

// What can be wrong with an input besides the faults of its records, which package
// records names.
const (
	// InputChanged: the file is not what it was when it was listed.
	InputChanged = "input_changed"
	// InputUnreadable: the system or the store does not give it.
	InputUnreadable = "input_unreadable"
)

// InputFault says what is wrong with an input, and where.
type InputFault struct {
	// Kind is InputChanged, InputUnreadable, or a kind of package records.
	Kind string `json:"kind"`
	// Name is the file's. Part is the number of the part; the record is at
	// [Begin, End) of the file, as far as it is known.
	Name  string `json:"name"`
	Part  int    `json:"part"`
	Begin int64  `json:"begin"`
	End   int64  `json:"end"`
	// Text says what is wrong, Head how the record begins; for people.
	Text string `json:"text"`
	Head []byte `json:"head,omitempty"`
}

// String names the place and what is wrong with it.
func (f *InputFault) String() string {
	return fmt.Sprintf("input %s: %s", f.Name, f.Text)
}

// validateOutputs checks what is kept.
func (s *Spec) validateOutputs() error {
	for _, kept := range s.Outputs {
		if kept.Path == "" || !filepath.IsLocal(kept.Path) || kept.Destination == "" {
			return fmt.Errorf("outputs: %.60q to %.60q: must be a path in the workspace and a destination", kept.Path, kept.Destination)
		}
	}
	return nil
}
