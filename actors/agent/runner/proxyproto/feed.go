package proxyproto

import (
	"fmt"
	"path/filepath"
	"time"
)

// Feed is what a job reads on its standard input, and where its standard output goes.
type Feed struct {
	// Format is the record format, one of package records.
	Format string `json:"format"`
	// Parts are read in this order.
	Parts []FeedPart `json:"parts"`
	// MaxRecordBytes limits one record: a longer one is an InputFault.
	MaxRecordBytes int64 `json:"max_record_bytes"`
	// Output is where standard output is stored once the job has completed: a path, or an
	// http URL for a PUT.
	Output string `json:"output"`
	// Part is the operation's name for the output.
	Part string `json:"part"`
}

// FeedPart is a part of a file: the records that begin in [Begin, End).
type FeedPart struct {
	// Path or URL is where the proxy reads the file.
	Path string `json:"path,omitempty"`
	URL  string `json:"url,omitempty"`
	// Name is the file's name in faults, for people.
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
	// Path is within the workspace. Destination is a path on the node, or an http URL for
	// a PUT.
	Path        string `json:"path"`
	Destination string `json:"destination"`
}

// InputCount counts the input that a job has read.
type InputCount struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
	// Hash is the sum of the records' XXH64 hashes, without their ends of line, modulo
	// 2^64.
	Hash uint64 `json:"hash"`
	// Rest is the position of the first record that was not fed; nil: all were fed.
	Rest *FeedPosition `json:"rest,omitempty"`
	// Only is the only record, set when Rows is 1.
	Only *FeedRecord `json:"only,omitempty"`
}

// FeedRecord is a record at [Begin, End) of the file of part number Part.
type FeedRecord struct {
	Part  int   `json:"part"`
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
	// Head is the beginning of the record, for people.
	Head []byte `json:"head,omitempty"`
}

// FeedPosition is a boundary between records. All input before Offset of part number Part was fed.
type FeedPosition struct {
	Part   int   `json:"part"`
	Offset int64 `json:"offset"`
}

// OutputCount counts the output that a job has written, stored as Part.
type OutputCount struct {
	Part  string `json:"part"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
}

// The kinds of InputFault besides the faults of records, which package records names.
const (
	// InputChanged: the file has changed since it was listed.
	InputChanged = "input_changed"
	// InputUnreadable: the file system or the store fails to read it.
	InputUnreadable = "input_unreadable"
)

// InputFault says what is wrong with an input, and where.
type InputFault struct {
	// Kind is InputChanged, InputUnreadable, or a kind of package records.
	Kind string `json:"kind"`
	// Name is the file's name. Part is the number of the part. The record is at [Begin, End) of the
	// file, as far as known.
	Name  string `json:"name"`
	Part  int    `json:"part"`
	Begin int64  `json:"begin"`
	End   int64  `json:"end"`
	// Text says what is wrong. Head is the beginning of the record. Both are for people.
	Text string `json:"text"`
	Head []byte `json:"head,omitempty"`
}

// String names the place and what is wrong with it.
func (f *InputFault) String() string {
	return fmt.Sprintf("input %s: %s", f.Name, f.Text)
}

// validateOutputs checks the paths and destinations of Outputs.
func (s *Spec) validateOutputs() error {
	for _, kept := range s.Outputs {
		if kept.Path == "" || !filepath.IsLocal(kept.Path) || kept.Destination == "" {
			return fmt.Errorf("outputs: %.60q to %.60q: must be a path in the workspace and a destination", kept.Path, kept.Destination)
		}
	}
	return nil
}
