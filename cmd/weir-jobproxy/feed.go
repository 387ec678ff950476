package main

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"

	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/records"
)

const (
	// feedBlock is the size of one read. feedOverhang is how far a read may extend beyond the end
	// of a part, to reach the end of the part's last record.
	feedBlock    = 256 << 10
	feedOverhang = 64 << 10
)

// feeder writes the records of the job's parts to its standard input, and knows which records the
// job has read: unread records can be taken back out of the pipe.
type feeder struct {
	feed *proxyproto.Feed
	pipe *inputPipe
	open func(part *proxyproto.FeedPart) source
	// feeding is cancelled when the job is interrupted. lasting is cancelled when all processes of
	// the job have ended. done is closed when run has returned.
	feeding, lasting context.Context
	interrupt, end   context.CancelFunc
	done             chan struct{}
	// rowsSoFar and bytesSoFar count the rows and bytes fed, for statistics.
	rowsSoFar, bytesSoFar atomic.Int64

	// The fields below belong to run. Others may use them after done is closed.

	// scanner and the last element of marks belong to the current part. counts covers the parts
	// before that. uncounted counts records that were scanned but did not reach the job, over all
	// parts.
	scanner           *records.Scanner
	marks             []mark
	counts, uncounted records.Counts
	// block is the buffer of reads. unfed is data that was scanned but not written when the
	// write was woken. head is the beginning of the first record.
	block, unfed, head []byte
	// fed is how many bytes the job has read, or can read from the pipe.
	fed int64
	// stopped: the interruption has been noticed. closing: the job still gets the rest of its
	// current record, which has not been scanned yet. over: the job gets no more input.
	stopped, closing, over bool
	fault                  *proxyproto.InputFault
}

// mark is the position of a part in the data fed.
type mark struct {
	// begin and end are offsets in the data fed; end is -1 until the part is scanned
	// completely.
	begin, end int64
	// `first` is the offset of the part's first record in the file; -1 if no record was found.
	first int64
	// unended says that the file's last record lacks its newline, and is fed with one.
	unended bool
}

// headLength is how much of a record is reported, in bytes.
const headLength = 200

// newFeeder returns a feeder that owns the pipe. It reads local files with the rights of the given
// user, or with the proxy's rights if `user` is nil.
func newFeeder(feed *proxyproto.Feed, user *proxyproto.User, pipe *inputPipe) *feeder {
	f := &feeder{feed: feed, pipe: pipe, done: make(chan struct{}), block: make([]byte, feedBlock)}
	f.open = func(part *proxyproto.FeedPart) source { return openSource(part, user) }
	f.lasting, f.end = context.WithCancel(context.Background())
	f.feeding, f.interrupt = context.WithCancel(f.lasting)
	return f
}

// stop ends the input after the record that the job is reading.
func (f *feeder) stop() {
	f.pipe.wake(f.interrupt)
}

// finish waits until run has determined what the job has read. All processes of the job must have
// gone.
func (f *feeder) finish() {
	f.pipe.wake(f.end)
	<-f.done
}

// run feeds the job, calls fail if there is a fault, and waits for the end of the job.
func (f *feeder) run(fail func(*proxyproto.InputFault)) {
	defer close(f.done)
	if err := f.feedParts(); err != nil {
		f.fault = asFault(err, f.feed, len(f.marks)-1)
		fail(f.fault)
		// The job must not see the end of its input before it is killed for the fault.
		<-f.lasting.Done()
	}
	f.pipe.closeWriter()
	<-f.feeding.Done()
	if f.lasting.Err() == nil && !f.stopped {
		complain(f.pipe.openWriter())
		f.settle()
		f.pipe.closeWriter()
	}
	<-f.lasting.Done()
	f.account()
	count := f.count(false)
	f.rowsSoFar.Store(count.Rows)
	f.bytesSoFar.Store(count.Bytes)
	complain(f.pipe.close())
}

// feedParts feeds all parts, unless the job is interrupted or ends before that.
func (f *feeder) feedParts() error {
	for i := range f.feed.Parts {
		if f.feeding.Err() != nil && !f.stopped {
			f.settle()
		}
		if f.over || f.lasting.Err() != nil {
			return nil
		}
		if err := f.feedPart(&f.feed.Parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// feedPart feeds one part.
func (f *feeder) feedPart(part *proxyproto.FeedPart) error {
	from := f.open(part)
	f.scanner = records.NewScanner(records.Format(f.feed.Format), part.Begin, part.End, f.feed.MaxRecordBytes)
	f.marks = append(f.marks, mark{begin: f.fed, end: -1, first: -1})
	if f.scanner.Done() {
		f.mark().end = f.fed
	}
	err := f.feedFrom(from, part)
	f.counts = f.counts.Plus(f.scanner.Counts())
	if after := from.close(); err == nil {
		return after
	}
	return err
}

// feedFrom feeds a part from its source.
func (f *feeder) feedFrom(from source, part *proxyproto.FeedPart) error {
	for !f.scanner.Done() && !f.over && f.lasting.Err() == nil {
		if f.feeding.Err() != nil && !f.stopped {
			f.settle()
			continue
		}
		offset := f.scanner.Offset()
		if offset >= part.Size {
			return f.endOfFile()
		}
		ctx := f.feeding
		if f.stopped {
			ctx = f.lasting
		}
		wanted := min(int64(len(f.block)), part.Size-offset, max(part.End-offset, 0)+feedOverhang)
		length, err := from.read(ctx, f.block[:wanted], offset)
		if err != nil && ctx.Err() != nil {
			continue
		}
		if err != nil {
			return err
		}
		data, err := f.scanner.Scan(f.block[:length])
		if err != nil {
			return err
		}
		if m := f.mark(); m.first < 0 && len(data) > 0 {
			m.first = f.scanner.Offset() - int64(len(data))
		}
		if f.scanner.Done() {
			f.mark().end = f.fed + int64(len(data))
		}
		f.pass(data)
		f.rowsSoFar.Store(f.counts.Rows + f.scanner.Counts().Rows)
		f.bytesSoFar.Store(f.counts.Bytes + f.scanner.Counts().Bytes)
	}
	return nil
}

// endOfFile ends a part that reaches the end of its file.
func (f *feeder) endOfFile() error {
	unended, err := f.scanner.EndOfFile()
	if err != nil {
		return err
	}
	f.mark().end = f.fed
	if unended {
		f.mark().unended = true
		f.mark().end++
		f.pass([]byte("\n"))
	}
	return nil
}

// mark returns the mark of the part that is being fed.
func (f *feeder) mark() *mark { return &f.marks[len(f.marks)-1] }

// pass writes scanned data to the job. An interrupted job gets only the rest of its record.
func (f *feeder) pass(data []byte) {
	if len(f.head) < headLength {
		f.head = append(f.head, data[:min(len(data), headLength-len(f.head))]...)
	}
	if f.closing {
		length := bytes.IndexByte(data, '\n') + 1
		f.over = length > 0
		if !f.over {
			length = len(data)
		}
		f.write(data[:length])
		f.uncount(data[length:])
		return
	}
	if f.write(data); len(f.unfed) > 0 {
		f.settle()
	}
}

// write writes until it is woken. The rest becomes unfed.
func (f *feeder) write(data []byte) {
	n := f.pipe.write(data)
	f.fed += int64(n)
	f.unfed = data[n:]
}

// asFault converts an error of a part into the fault that is reported.
func asFault(err error, feed *proxyproto.Feed, part int) *proxyproto.InputFault {
	from := &feed.Parts[part]
	fault := &proxyproto.InputFault{Kind: proxyproto.InputUnreadable, Name: from.Name, Part: part, Text: err.Error()}
	if fault.Name == "" {
		fault.Name = from.Path
	}
	var bad *records.Fault
	var changed changedError
	switch {
	case errors.As(err, &bad):
		fault.Kind, fault.Begin, fault.End = string(bad.Kind), bad.Begin, bad.Offset+1
	case errors.As(err, &changed):
		fault.Kind = proxyproto.InputChanged
	}
	return fault
}

// source reads the file of a part.
type source interface {
	// read reads data at `offset` into p. It returns the number of bytes read, which may be less
	// than len(p). It returns 0 only with an error. A changedError says that the file has changed
	// since it was listed.
	read(ctx context.Context, p []byte, offset int64) (int, error)
	// close returns a changedError if the file was changed while it was read.
	close() error
}

// changedError says how a file has changed since it was listed.
type changedError struct{ text string }

func (e changedError) Error() string { return "the file has changed since it was listed: " + e.text }

// openSource returns the source of a part.
func openSource(part *proxyproto.FeedPart, user *proxyproto.User) source {
	if part.Path != "" {
		return &localSource{part: part, user: user}
	}
	return newRemoteSource(part)
}
