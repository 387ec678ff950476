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
	// logLines is how many lines wait for a log whose disk is slow.
	logLines = 64
	// logPatience is how long the end of the proxy waits for its log.
	logPatience = time.Second
)

// proxyLog writes the proxy's log, which may be on a disk that hangs: nobody waits for it
// but, for a moment, the end of the proxy.
type proxyLog struct {
	to io.StringWriter
	// writes are done one after the other.
	writes chan func()
	// patience is how long flush waits.
	patience time.Duration
}

// log is the proxy's own.
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

// add writes a line soon, or drops it where too many wait.
func (l *proxyLog) add(line string) {
	select {
	case l.writes <- func() { _, _ = l.to.WriteString(line) }: // there is nobody to tell
	default:
	}
}

// flush waits until what was said is written, if it can be.
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

// complain writes an error to the proxy's log, if there is one, and it is none of those that are
// expected.
func complain(err error, expected ...error) {
	if err != nil && !slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
		log().add(fmt.Sprintf("%s %v\n", time.Now().UTC().Format(time.RFC3339Nano), err))
	}
}
