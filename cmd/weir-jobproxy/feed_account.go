package main

import (
	"bytes"
	"context"
	"time"

	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/records"
)

// borderTimeout bounds the requests to a store that find the end of a record, if the job may have
// read the record in part.
const borderTimeout = 10 * time.Second

// settle ends the feed of an interrupted job. It takes back unread data, except for the rest of the
// record that the job is reading. If that rest has not been scanned yet, settle sets closing, and
// the next call of pass writes the rest.
func (f *feeder) settle() {
	if f.lasting.Err() != nil {
		return
	}
	f.stopped = true
	rest := f.takeBack()
	length := 0
	if !f.atBorder(f.lasting) {
		length = bytes.IndexByte(rest, '\n') + 1
		if f.closing = length == 0 && f.inRecord(); f.closing {
			length = len(rest)
		}
	}
	f.over = !f.closing
	f.pipe.sleep(f.lasting)
	f.write(rest[:length])
	f.uncount(rest[length:])
}

// account determines what the job had read when it ended. A record that the job has read in part
// counts as read whole, provided that its end is known.
func (f *feeder) account() {
	rest := f.takeBack()
	ctx, cancel := context.WithTimeout(context.Background(), borderTimeout)
	defer cancel()
	length := 0
	if !f.atBorder(ctx) {
		length = bytes.IndexByte(rest, '\n') + 1
		if length == 0 {
			length = len(rest)
		}
	}
	f.fed += int64(length)
	f.uncount(rest[length:])
}

// takeBack returns all scanned data that the job has not read.
func (f *feeder) takeBack() []byte {
	rest := f.pipe.takeBack()
	f.fed -= int64(len(rest))
	rest = append(rest, f.unfed...)
	f.unfed = nil
	return rest
}

// uncount subtracts records that the job did not get from the counts.
func (f *feeder) uncount(data []byte) {
	if records.Format(f.feed.Format).Bordered() {
		f.uncounted = f.uncounted.Plus(records.CountLines(data))
	}
}

// inRecord reports whether the last record has been scanned only in part.
func (f *feeder) inRecord() bool {
	return f.scanner != nil && !f.scanner.Done() && f.scanner.Begin() < f.scanner.Offset()
}

// atBorder reports whether the job is known to have read up to the end of a record. A store is
// asked only for an interrupted job, which may complete before its input ends.
func (f *feeder) atBorder(ctx context.Context) bool {
	if !records.Format(f.feed.Format).Bordered() {
		return true
	}
	i, offset := f.place()
	if i >= len(f.marks) || f.fed == f.marks[i].begin {
		return true
	}
	part := &f.feed.Parts[i]
	if part.Path == "" && !f.stopped {
		return false
	}
	var last [1]byte
	from := f.open(part)
	n, err := from.read(ctx, last[:], offset-1)
	complain(err)
	_ = from.close() // the feed reports the same error
	return n == 1 && last[0] == '\n'
}

// place is the position that the job has reached: the index of a part, and an offset in its
// file. The index is len(f.feed.Parts) when the job has read everything.
func (f *feeder) place() (int, int64) {
	i := len(f.marks) - 1
	for i > 0 && f.marks[i].begin > f.fed {
		i--
	}
	switch {
	case i < 0:
		i = 0
	case f.fed == f.marks[i].end:
		i++
	case f.fed > f.marks[i].begin:
		return i, f.marks[i].first + f.fed - f.marks[i].begin
	}
	if i == len(f.feed.Parts) {
		return i, 0
	}
	return i, f.feed.Parts[i].Begin
}

// count returns what the job has read. If `complete` is true, there is no rest to report.
func (f *feeder) count(complete bool) *proxyproto.InputCount {
	counts := f.counts.Minus(f.uncounted)
	i, offset := f.place()
	count := &proxyproto.InputCount{Rows: counts.Rows, Bytes: f.bytes(i, offset), Hash: counts.Hash}
	if i == len(f.marks)-1 && f.inRecord() && offset > f.scanner.Begin() {
		// The job did not get the end of this record, so it cannot have finished it.
		offset = f.scanner.Begin()
		count.Bytes = f.bytes(i, offset)
	}
	if i < len(f.feed.Parts) && !complete {
		count.Rest = &proxyproto.FeedPosition{Part: i, Offset: offset}
	}
	if count.Rows == 1 {
		count.Only = f.only(count.Bytes)
	}
	return count
}

// only returns the single record that was read. `length` is its length in bytes.
func (f *feeder) only(length int64) *proxyproto.FeedRecord {
	for i, m := range f.marks {
		if m.first < 0 {
			continue
		}
		head, _, _ := bytes.Cut(f.head, []byte("\n"))
		return &proxyproto.FeedRecord{Part: i, Begin: m.first, End: m.first + length, Head: head}
	}
	return nil
}

// bytes is how many bytes of the parts lie before a position.
func (f *feeder) bytes(part int, offset int64) int64 {
	var sum int64
	for i, m := range f.marks {
		switch {
		case m.first < 0:
		case i < part:
			sum += m.end - m.begin
			if m.unended {
				sum--
			}
		case i == part:
			sum += max(offset-m.first, 0)
		}
	}
	return sum
}
