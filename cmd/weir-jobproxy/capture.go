package main

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"

	"weir/actors/agent/runner/output"
)

// firstBuffer is the buffer size for jobs with little output, in bytes.
const firstBuffer = 1 << 10

// capture carries one output stream from its pipe to its files.
type capture struct {
	reader drain
	writer *output.Writer
	done   chan struct{}

	written, dropped atomic.Int64
	// lost is the first write error of the disk.
	lost atomic.Pointer[error]
}

// startCapture returns the capture, and the write end of its pipe for the job.
func startCapture(folder, stream string, limit int64) (*capture, *os.File, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	c := &capture{reader: drain{pipe: reader}, writer: output.NewWriter(folder, stream, limit), done: make(chan struct{})}
	go c.copy()
	return c, writer, nil
}

func (c *capture) copy() {
	defer close(c.done)
	err := c.reader.each(firstBuffer, func(data []byte) error {
		_, _ = c.writer.Write(data) // never fails: see Err
		c.written.Store(c.writer.Written())
		c.dropped.Store(c.writer.Dropped())
		if err := c.writer.Err(); err != nil && c.lost.Load() == nil {
			c.lost.Store(&err)
		}
		return nil
	})
	complain(err, os.ErrDeadlineExceeded)
	complain(errors.Join(c.writer.Close(), c.reader.pipe.Close()))
}

// finish waits for the last output.
func (c *capture) finish() {
	c.reader.finish()
	<-c.done
}

// lost returns why output of a job was lost; empty if all output within the limits was kept.
func lost(streams ...*capture) string {
	var all []string
	for _, c := range streams {
		if c == nil {
			continue
		}
		if err := c.lost.Load(); err != nil {
			all = append(all, (*err).Error())
		}
	}
	return strings.Join(all, "; ")
}
