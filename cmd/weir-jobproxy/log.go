package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// logLines is how many lines may wait for a log on a slow disk.
	logLines = 64
	// logPatience is how long the proxy waits for its log when it exits.
	logPatience = time.Second
)

// proxyLog writes the proxy's log, which may be on a hanging disk. Nothing waits for it, except
// briefly the exit of the proxy.
type proxyLog struct {
	to io.StringWriter
	// writes are done one after the other.
	writes chan func()
	// patience is how long flush waits.
	patience time.Duration
}

// log returns the proxy's own log.
var log = sync.OnceValue(func() *proxyLog { return newProxyLog(os.Stderr, logPatience) })

func newProxyLog(to io.StringWriter, patience time.Duration) *proxyLog {
	l := &proxyLog{to: to, writes: make(chan func(), logLines), patience: patience}
	go func() {
		for write := range l.writes {
			write()
		}
	}()
	return l
}

// add queues a line, or drops it if too many are queued.
func (l *proxyLog) add(line string) {
	select {
	case l.writes <- func() { _, _ = l.to.WriteString(line) }: // there is nowhere to report an error
	default:
	}
}

// flush waits until all queued lines are written, but no longer than `patience`.
func (l *proxyLog) flush() {
	written, patience := make(chan struct{}), time.After(l.patience)
	select {
	case l.writes <- func() { close(written) }:
	case <-patience:
		return
	}
	select {
	case <-written:
	case <-patience:
	}
}

// complain logs an error, unless it is nil or one of the expected ones.
func complain(err error, expected ...error) {
	if err != nil && !slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
		log().add(fmt.Sprintf("%s %v\n", time.Now().UTC().Format(time.RFC3339Nano), err))
	}
}
