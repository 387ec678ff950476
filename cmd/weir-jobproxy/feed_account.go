package main

import (
	"bytes"
	"context"
	"time"

	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/records"
)

// borderTimeout is how long a store is asked where a record ends that a job may have read
// in part.
const borderTimeout = 10 * time.Second

// settle ends the feed of a job that is interrupted: what it has not read is taken back,
// but for the end of the record that it is in. Where that has not been scanned, closing
// is set, and it is the next to be passed.
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

// account finds out what a job has read that is gone. Of a record of which it has read a
// part it got all, where there is an end of it.
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

// takeBack returns all that was scanned and that the job has not read.
func (f *feeder) takeBack() []byte {
	rest := f.pipe.takeBack()
	f.fed -= int64(len(rest))
	rest = append(rest, f.unfed...)
	f.unfed = nil
	return rest
}

// uncount takes records that the job did not get out of the counts.
func (f *feeder) uncount(data []byte) {
	if records.Format(f.feed.Format).Bordered() {
		f.uncounted = f.uncounted.Plus(records.CountLines(data))
	}
}

// inRecord says whether a record was scanned in part.
func (f *feeder) inRecord() bool {
	return f.scanner != nil && !f.scanner.Done() && f.scanner.Begin() < f.scanner.Offset()
}

// atBorder says whether the job is known to have read to the end of a record. A store is
// asked only about jobs that may have completed before their end.
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
	_ = from.close() // whoever feeds has looked at it
	return n == 1 && last[0] == '\n'
}

// place is where in the parts the job has come to: the number of a part, and an offset in
// its file. It is behind the last part when the job has come to its end.
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

// count is what the job has read. complete: it takes the rest for read too.
func (f *feeder) count(complete bool) *proxyproto.InputCount {
	counts := f.counts.Minus(f.uncounted)
	i, offset := f.place()
	count := &proxyproto.InputCount{Rows: counts.Rows, Bytes: f.bytes(i, offset), Hash: counts.Hash}
	if i == len(f.marks)-1 && f.inRecord() && offset > f.scanner.Begin() {
		// It did not get the end of the record, so it cannot have done with it.
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

// only is the record of that length, which is the first of all.
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

// bytes is how many bytes of the files are before a place.
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
