package main

import (
	"fmt"
	"io"
	"os"
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
	lines chan logLine
	// patience is how long flush waits.
	patience time.Duration
}

// logLine is a line, or asks to be told when all lines before it are written.
type logLine struct {
	text    string
	written chan struct{}
}

// log is the proxy's own.
var log = sync.OnceValue(func() *proxyLog { return newProxyLog(os.Stderr, logPatience) })

func newProxyLog(to io.StringWriter, patience time.Duration) *proxyLog {
	l := &proxyLog{lines: make(chan logLine, logLines), patience: patience}
	go func() {
		for line := range l.lines {
			if line.written != nil {
				close(line.written)
				continue
			}
			_, _ = to.WriteString(line.text) // there is nobody to tell
		}
	}()
	return l
}

// add writes a line soon, or drops it where too many wait.
func (l *proxyLog) add(line string) {
	select {
	case l.lines <- logLine{text: line}:
	default:
	}
}

// flush waits until what was said is written, if it can be.
func (l *proxyLog) flush() {
	written, patience := make(chan struct{}), time.After(l.patience)
	select {
	case l.lines <- logLine{written: written}:
	case <-patience:
		return
	}
	select {
	case <-written:
	case <-patience:
	}
}

// complainIf complains about an error, if there is one.
func complainIf(err error) {
	if err != nil {
		complain(err)
	}
}

// complain writes to the proxy's log.
func complain(err error) {
	log().add(fmt.Sprintf("%s %v\n", time.Now().UTC().Format(time.RFC3339Nano), err))
}
