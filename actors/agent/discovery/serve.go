package discovery

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"weir/messages/discoveryjson"
)

const (
	// maxConnections bounds the open connections of a job.
	maxConnections = 16
	// writeTimeout bounds how long a job may take to read an answer.
	writeTimeout = 10 * time.Second
	// acceptPause is the pause after a failed accept.
	acceptPause = 100 * time.Millisecond
	// patience bounds how long a request waits for any view. selfPatience bounds how long it waits
	// for a view that contains the asking job.
	patience     = 5 * time.Second
	selfPatience = 2 * time.Second
)

// Serve answers a job's requests until the listener is closed. Only the job's user can connect to
// its socket, so connections are not authenticated.
func Serve(listener net.Listener, desk *Desk) {
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	places := make(chan struct{}, maxConnections)
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil {
			// For example a lack of file descriptors, which passes.
			<-time.After(acceptPause)
			continue
		}
		c := &connection{conn: conn, desk: desk, lines: make(chan []byte)}
		select {
		case places <- struct{}{}:
			serving.Go(func() {
				defer func() { <-places }()
				c.serve(ctx)
			})
		default:
			c.write(failure(fmt.Errorf("%d connections are already open: close one", maxConnections)))
			_ = conn.Close()
		}
	}
	cancel()
	serving.Wait()
}

// connection is one connection of a job.
type connection struct {
	conn  net.Conn
	desk  *Desk
	lines chan []byte
	// bad is why reading stopped; nil after a hang-up. It is set before the channel `lines` is
	// closed.
	bad error
}

// serve answers until the job hangs up, or ctx is done.
func (c *connection) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { c.read(ctx) })
	defer func() {
		cancel()
		_ = c.conn.Close()
		reading.Wait()
	}()
	watch := watch{desk: c.desk}
	defer watch.end()
	for {
		select {
		case <-ctx.Done():
			return
		case line, open := <-c.lines:
			if !open {
				if c.bad != nil {
					c.write(failure(c.bad))
				}
				return
			}
			if !c.write(c.answer(ctx, line, &watch)...) {
				return
			}
		case <-watch.peersChanged:
			if !c.write(watch.peers()...) {
				return
			}
		case <-watch.noticeChanged:
			if !c.write(watch.notice()) {
				return
			}
		}
	}
}

// read reads lines until the job sends no more of them.
func (c *connection) read(ctx context.Context) {
	defer close(c.lines)
	reader := bufio.NewReaderSize(c.conn, discoveryjson.MaxRequest)
	for {
		line, err := reader.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			c.bad = fmt.Errorf("request %.60q: longer than %d bytes", line, discoveryjson.MaxRequest)
			return
		}
		if err != nil {
			return
		}
		select {
		case c.lines <- append([]byte(nil), line[:len(line)-1]...):
		case <-ctx.Done():
			return
		}
	}
}

// write sends answers, and reports whether the job has received them all.
func (c *connection) write(answers ...discoveryjson.Answer) bool {
	for _, answer := range answers {
		err := c.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err == nil {
			_, err = c.conn.Write(encode(answer))
		}
		if err != nil {
			return false
		}
	}
	return true
}

// answer returns the answers to a request.
func (c *connection) answer(ctx context.Context, line []byte, watch *watch) []discoveryjson.Answer {
	request, err := parse(line)
	if err != nil {
		return []discoveryjson.Answer{failure(err)}
	}
	switch request.Ask {
	case discoveryjson.AskPeers:
		return []discoveryjson.Answer{c.peers(ctx)}
	case discoveryjson.AskWatch:
		return watch.begin(request.Changes)
	case discoveryjson.AskNotice:
		notice, _ := c.desk.told()
		return []discoveryjson.Answer{{Notice: &notice}}
	}
	if request.Say != "" {
		if err := c.desk.asker.Say(request.Say); err != nil {
			return []discoveryjson.Answer{failure(fmt.Errorf("say %s: %w", request.Say, err))}
		}
		return []discoveryjson.Answer{{Said: request.Say}}
	}
	if err := c.desk.asker.Acknowledge(); err != nil {
		return []discoveryjson.Answer{failure(fmt.Errorf("acknowledge: %w", err))}
	}
	return []discoveryjson.Answer{{Acknowledged: true}}
}

// peers waits for a view that contains the job. After selfPatience any view will do.
func (c *connection) peers(ctx context.Context) discoveryjson.Answer {
	asker, directory := c.desk.asker, c.desk.directory
	if err := directory.Follow(asker.Operation, asker.Index); err != nil {
		return failure(err)
	}
	defer directory.Release(asker.Operation)
	first, self := time.NewTimer(patience), time.NewTimer(selfPatience)
	defer first.Stop()
	defer self.Stop()
	waited := false
	for {
		view, changed := directory.View(asker.Operation)
		if view.Instances != nil && (waited || shows(view, asker.Job)) {
			return discoveryjson.Answer{Peers: peers(view, asker.Job)}
		}
		select {
		case <-changed:
		case <-self.C:
			waited = true
		case <-first.C:
			if view.Err == nil {
				view.Err = errors.New("no replica responded")
			}
			return failure(fmt.Errorf("no answer about operation %s within %v: %w", asker.Operation, patience, view.Err))
		case <-ctx.Done():
			return failure(errors.New("agent stopping; reconnect"))
		}
	}
}
