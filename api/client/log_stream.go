package client

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"weir/messages/apipb"
)

// read reads a part of an output, or its last lines.
func (l *logReader) read(ctx context.Context, s *logStream) func() error {
	if l.o.Follow {
		limited, cancel := context.WithTimeout(ctx, logReadPatience)
		defer cancel()
		ctx = limited
	}
	var part *apipb.JobOutputResponse
	var err error
	if s.tail {
		part, err = l.c.tail(ctx, s.job.GetId(), s.name, l.o.Tail)
	} else {
		part, err = l.c.JobOutput(ctx, &apipb.JobOutputRequest{JobId: s.job.GetId(), Stream: s.name, Offset: s.offset})
	}
	return func() error {
		s.reading = false
		l.reads--
		if l.busy[s.job.GetNode()]--; l.busy[s.job.GetNode()] == 0 {
			delete(l.busy, s.job.GetNode())
		}
		if err != nil {
			return l.unread(s, err)
		}
		return l.took(s, part)
	}
}

// took shows what has been read.
func (l *logReader) took(s *logStream, part *apipb.JobOutputResponse) error {
	progress := part.GetNextOffset() > s.offset
	s.offset, s.tail = max(s.offset, part.GetNextOffset()), false
	s.partial = append(s.partial, part.GetData()...)
	for {
		end := bytes.IndexByte(s.partial, '\n')
		if end < 0 {
			break
		}
		if err := l.show(LogLine{s.job.Job, s.name, s.partial[:end]}); err != nil {
			return err
		}
		s.partial = s.partial[end+1:]
	}
	if len(s.partial) > maxLogLine {
		if err := l.rest(s); err != nil {
			return err
		}
	}
	switch {
	case part.GetEnd() || !progress && !l.o.Follow:
		return l.shut(s)
	case progress:
		s.due, s.pause = time.Time{}, firstPoll
		if l.o.Follow {
			// Those that have waited longer come first.
			s.due = time.Now()
		}
	default:
		l.later(s)
	}
	return nil
}

// later has an output without news wait, longer each time.
func (l *logReader) later(s *logStream) {
	s.due = time.Now().Add(s.pause)
	s.pause = min(2*s.pause, max(maxPoll, time.Duration(len(l.streams))*time.Second/silentReadsPerSecond))
}

// unread handles the error of a read.
func (l *logReader) unread(s *logStream, err error) error {
	switch code := CodeOf(err); {
	case code == apipb.CodeNeverStarted:
		return l.shut(s)
	case code == apipb.CodeOutputGone, code == apipb.CodeNoSuchJob, code == codeNodeOffline && (s.job.GetFinishTime() != nil || !l.o.Follow):
		if !s.job.gap {
			s.job.gap = true
			l.gaps.Jobs++
			if l.gaps.First == nil {
				l.gaps.First = err
			}
		}
		return l.shut(s)
	case l.o.Follow && (errors.Is(err, ErrUnreachable) || code == codeNodeOffline):
		// Its agent starts again, or there is no leader for the moment. If that lasts, listing says so.
		l.later(s)
		return nil
	}
	return err
}

// rest shows what is left of an output as a line.
func (l *logReader) rest(s *logStream) error {
	if len(s.partial) == 0 {
		return nil
	}
	line := s.partial
	s.partial = nil
	return l.show(LogLine{s.job.Job, s.name, line})
}

// shut ends the reading of an output.
func (l *logReader) shut(s *logStream) error {
	l.streams = slices.DeleteFunc(l.streams, func(other *logStream) bool { return other == s })
	s.job.open--
	return l.rest(s)
}

// tail returns the last lines of what a job has written so far.
func (c outputCalls) tail(ctx context.Context, job, stream string, lines int) (*apipb.JobOutputResponse, error) {
	for span := int64(firstTail); ; span *= 4 {
		all := &apipb.JobOutputResponse{}
		offset, begin := -span, int64(0)
		for first := true; int64(len(all.Data)) < span; first = false {
			part, err := c.JobOutput(ctx, &apipb.JobOutputRequest{JobId: job, Stream: stream, Offset: offset})
			if err != nil {
				return nil, err
			}
			if first {
				begin = part.GetNextOffset() - int64(len(part.GetData()))
			}
			all.Data = append(all.Data, part.GetData()...)
			all.NextOffset, all.End = part.GetNextOffset(), part.GetEnd()
			if offset = part.GetNextOffset(); part.GetEnd() || len(part.GetData()) == 0 {
				break
			}
		}
		found := bytes.Count(all.GetData(), []byte("\n"))
		if begin <= 0 || found > lines || span >= maxTail {
			all.Data = lastLines(all.GetData(), lines)
			return all, nil
		}
	}
}

// lastLines returns the last lines of a text.
func lastLines(text []byte, lines int) []byte {
	end := len(text)
	if bytes.HasSuffix(text, []byte("\n")) {
		end--
	}
	if lines == 0 {
		return nil
	}
	for range lines {
		end = bytes.LastIndexByte(text[:max(end, 0)], '\n')
		if end < 0 {
			return text
		}
	}
	return text[end+1:]
}
