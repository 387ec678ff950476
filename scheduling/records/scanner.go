package records

import (
	"bytes"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
)

// Scanner finds and counts the records of one slice. It is told the bytes of the file
// from Offset on, block after block, until it is Done.
type Scanner struct {
	format Format
	// Records that begin before end are the slice's, and none may be longer than limit.
	end, limit int64
	// offset is where the next block begins in the file, and record the record that is
	// not complete yet. Invariant: record <= offset, unless the scanner seeks.
	offset, record int64
	// seeking: the end of a record is looked for that is another slice's.
	seeking, done bool

	counts Counts
	// begun is the hash, and value the state, of a record of which a block had only the
	// beginning.
	begun xxhash.Digest
	value validator
}

// NewScanner returns a scanner of the records that begin in [begin, end) of a file. A
// record that is longer than limit bytes, without its end of line, is a fault; 0: none is.
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

// Offset is where in the file the next block begins.
func (s *Scanner) Offset() int64 { return s.offset }

// Begin is where the record begins in the file of which the end has not been scanned: not
// before Offset when there is none.
func (s *Scanner) Begin() int64 { return s.record }

// Done says that no more bytes are needed.
func (s *Scanner) Done() bool { return s.done }

// Counts is what the complete records that were scanned come to.
func (s *Scanner) Counts() Counts { return s.counts }

// Scan takes the next block of the file and returns the part of it that belongs to the
// slice. A fault is in what was to be returned; after it the scanner is of no more use.
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

// seek passes over the end of a record that is another slice's.
func (s *Scanner) seek(block []byte) []byte {
	length := bytes.IndexByte(block, '\n') + 1
	s.seeking = length == 0
	if s.seeking {
		length = len(block)
	}
	s.offset += int64(length)
	s.record = s.offset
	// A record that begins where no end of line has been seen begins later still.
	s.done = s.offset >= s.end
	return block[length:]
}

// clip cuts off what belongs to the next slice.
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

// count counts the records of a block, all of which is the slice's.
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

// check finds the first fault of a part of a record that stands at that offset; zero is
// where in it a zero byte is.
func (s *Scanner) check(part []byte, at int64, zero int) *Fault {
	// Whatever is behind the limit is not looked at.
	within := s.limit - (at - s.record)
	if s.format == Lines && zero >= 0 && zero < len(part) && int64(zero) < within {
		return s.fault(BinaryInput, at+int64(zero), `a zero byte: this is no text; with format "bytes" anything is read`)
	}
	if s.format == JSON {
		if wrong := s.value.take(part); wrong >= 0 && int64(wrong) < within {
			return s.fault(InvalidJSON, at+int64(wrong), s.value.complaint(part[wrong]))
		}
	}
	if int64(len(part)) > within {
		return s.fault(RecordTooLong, s.record+s.limit, fmt.Sprintf("the record is longer than %d bytes, which max_record_size allows", s.limit))
	}
	return nil
}

// hash takes the beginning of a record.
func (s *Scanner) hash(part []byte) { _, _ = s.begun.Write(part) } // it never fails

// complete counts a record that ends at that byte of the file, without its end of line.
func (s *Scanner) complete(part []byte, end int64) *Fault {
	if s.format == JSON {
		if !s.value.complete() {
			return s.fault(InvalidJSON, end, "the line ends, "+s.value.wanted())
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

// EndOfFile tells that there are no more bytes. It says whether the file's last record
// is one of the slice that lacks its end of line.
//
// A file that is cut in the middle of a JSON value has a fault.
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
