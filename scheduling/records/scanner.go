package records

import (
	"bytes"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
)

// Scanner finds and counts the records of one slice. Pass it the bytes of the file from Offset on,
// block by block, until it is Done.
type Scanner struct {
	format Format
	// Records that begin before end belong to the slice. None may be longer than limit.
	end, limit int64
	// offset is where the next block begins in the file. record is where the incomplete record
	// begins. Invariant: record <= offset, unless seeking.
	offset, record int64
	// seeking means that the end of the previous slice's last record has not been found yet.
	seeking, done bool

	counts Counts
	// begun and value are the hash and the validator state of a record that began in an earlier
	// block.
	begun xxhash.Digest
	value validator
}

// NewScanner returns a scanner of the records that begin in [begin, end) of a file. A record
// longer than limit bytes, without its end of line, is a fault; 0 means no limit.
func NewScanner(format Format, begin, end, limit int64) *Scanner {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	s := &Scanner{format: format, end: end, limit: limit, offset: begin, record: begin, done: begin >= end}
	if format.Bordered() && begin > 0 && !s.done {
		s.offset, s.seeking = begin-1, true
	}
	s.begun.Reset()
	return s
}

// Offset is where the next block begins in the file.
func (s *Scanner) Offset() int64 { return s.offset }

// Begin is where in the file the incomplete record begins. If no record is incomplete, Begin is at
// or after Offset.
func (s *Scanner) Begin() int64 { return s.record }

// Done reports whether no more bytes are needed.
func (s *Scanner) Done() bool { return s.done }

// Counts returns the counts of the complete records scanned so far.
func (s *Scanner) Counts() Counts { return s.counts }

// Scan takes the next block of the file and returns the part of it that belongs to the slice. It
// fails with a *Fault if that part contains a fault. The scanner cannot be used after an error.
func (s *Scanner) Scan(block []byte) ([]byte, error) {
	if s.done {
		return nil, nil
	}
	if s.seeking {
		if block = s.seek(block); s.done {
			return nil, nil
		}
	}
	if int64(len(block)) > s.end-s.offset {
		block = s.clip(block)
	}
	if len(block) == 0 {
		return nil, nil
	}
	if !s.format.Bordered() {
		s.offset += int64(len(block))
		s.record, s.done = s.offset, s.offset >= s.end
		s.counts.Bytes += int64(len(block))
		return block, nil
	}
	if err := s.count(block); err != nil {
		return nil, err
	}
	s.offset += int64(len(block))
	s.done = s.record >= s.end
	return block, nil
}

// seek skips the end of a record that belongs to the previous slice.
func (s *Scanner) seek(block []byte) []byte {
	length := bytes.IndexByte(block, '\n') + 1
	s.seeking = length == 0
	if s.seeking {
		length = len(block)
	}
	s.offset += int64(length)
	s.record = s.offset
	// Without an end of line in [begin-1, end), no record begins in the slice.
	s.done = s.offset >= s.end
	return block[length:]
}

// clip cuts off the part that belongs to the next slice.
func (s *Scanner) clip(block []byte) []byte {
	if !s.format.Bordered() {
		return block[:s.end-s.offset]
	}
	last := max(0, s.end-1-s.offset)
	if length := bytes.IndexByte(block[last:], '\n'); length >= 0 {
		return block[:last+int64(length)+1]
	}
	return block
}

// count counts the records of a block that belongs to the slice as a whole.
func (s *Scanner) count(block []byte) error {
	binary := -1
	if s.format == Lines {
		binary = bytes.IndexByte(block, 0)
	}
	for next := 0; next < len(block); {
		length := bytes.IndexByte(block[next:], '\n')
		complete := length >= 0
		if !complete {
			length = len(block) - next
		}
		part := block[next : next+length]
		if fault := s.check(part, s.offset+int64(next), binary-next); fault != nil {
			return fault
		}
		if !complete {
			s.hash(part)
			return nil
		}
		if fault := s.complete(part, s.offset+int64(next+length)); fault != nil {
			return fault
		}
		next += length + 1
		s.record = s.offset + int64(next)
		s.counts.Bytes++
	}
	return nil
}

// check returns the first fault in a part of a record. The parameter `at` is the part's offset in
// the file. The parameter zero is the index of a NUL byte in the part.
func (s *Scanner) check(part []byte, at int64, zero int) *Fault {
	// Bytes beyond the limit are not checked.
	within := s.limit - (at - s.record)
	if s.format == Lines && zero >= 0 && zero < len(part) && int64(zero) < within {
		return s.fault(BinaryInput, at+int64(zero), `a NUL byte: this is not text; use format "bytes" for binary data`)
	}
	if s.format == JSON {
		if wrong := s.value.take(part); wrong >= 0 && int64(wrong) < within {
			return s.fault(InvalidJSON, at+int64(wrong), s.value.complaint(part[wrong]))
		}
	}
	if int64(len(part)) > within {
		return s.fault(RecordTooLong, s.record+s.limit, fmt.Sprintf("the record is longer than %d bytes (max_record_size)", s.limit))
	}
	return nil
}

// hash adds a part of a record that spans blocks to its hash.
func (s *Scanner) hash(part []byte) { _, _ = s.begun.Write(part) } // it never fails

// complete counts a record. The parameter end is the file offset at which the record ends, without
// its end of line. The parameter part is the record's last part.
func (s *Scanner) complete(part []byte, end int64) *Fault {
	if s.format == JSON {
		if !s.value.complete() {
			return s.fault(InvalidJSON, end, "invalid JSON: found the end of the line, "+s.value.wanted())
		}
		s.value.reset()
	}
	if begun := end - int64(len(part)) - s.record; begun > 0 {
		s.hash(part)
		s.counts.Hash += s.begun.Sum64()
		s.begun.Reset()
	} else {
		s.counts.Hash += xxhash.Sum64(part)
	}
	s.counts.Rows++
	s.counts.Bytes += end - s.record
	return nil
}

// EndOfFile ends the scan at the end of the file. The result unended reports whether the file's
// last record belongs to the slice and lacks its end of line. The error is a *Fault if the file
// ends in the middle of a JSON value.
func (s *Scanner) EndOfFile() (unended bool, err error) {
	if s.done {
		return false, nil
	}
	s.done = true
	if s.seeking || s.record == s.offset {
		return false, nil
	}
	if fault := s.complete(nil, s.offset); fault != nil {
		return false, fault
	}
	s.record = s.offset
	return true, nil
}

func (s *Scanner) fault(kind Kind, offset int64, detail string) *Fault {
	return &Fault{Kind: kind, Row: s.counts.Rows + 1, Begin: s.record, Offset: offset, Detail: detail}
}
