package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// outbox is how many messages may wait for a slow agent. When it is full the connection is
	// closed: after it reconnects, the agent gets all important messages again.
	outbox = 32
	// writeTimeout limits the write of one message.
	writeTimeout = 10 * time.Second
)

// request is an event of a connection: the connection was opened or closed, or it brought a message or
// an invalid line (err).
type request struct {
	from    *connection
	message proxyproto.Message
	// files are those that came with the message.
	files  []*os.File
	err    error
	opened bool
	closed bool
}

// server accepts connections and passes their requests on.
type server struct {
	listener net.Listener
	requests chan request
}

func newServer(listener net.Listener) *server {
	s := &server{listener: listener, requests: make(chan request)}
	go s.accept()
	return s
}

func (s *server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		c := newConnection(conn.(*net.UnixConn))
		s.requests <- request{from: c, opened: true}
		go c.write()
		go s.read(c)
	}
}

// read forwards everything that the agent wrote before the connection closed, so that no order is
// lost.
func (s *server) read(c *connection) {
	reader := proxyproto.NewReader(c)
	defer c.idle.Store(true)
	for {
		message, err := reader.Read()
		if err != nil && !errors.Is(err, proxyproto.ErrBadMessage) {
			closeAll(c.files)
			c.lost.Store(true)
			_ = c.conn.Close()
			s.requests <- request{from: c, closed: true}
			return
		}
		r := request{from: c, message: message, err: err}
		if n := message.Descriptors(); n > 0 {
			r.files, r.err = c.take(n)
		}
		s.requests <- r
	}
}

// connection is a connection of an agent. Only the supervisor calls send and close.
type connection struct {
	conn *net.UnixConn
	out  chan []byte
	// open is the connection's context, which end cancels.
	open context.Context
	end  context.CancelFunc
	// lost says that the agent has gone, or does not read its messages.
	lost atomic.Bool
	// idle: all that could be read has been passed on.
	idle atomic.Bool
	// files are those that came with what was read, and that no message has taken. Only the goroutine that
	// reads uses them.
	files []*os.File
}

func newConnection(conn *net.UnixConn) *connection {
	open, end := context.WithCancel(context.Background())
	return &connection{conn: conn, out: make(chan []byte, outbox), open: open, end: end}
}

// send queues a message; it never waits.
func (c *connection) send(message proxyproto.Message) {
	if c.over() {
		return
	}
	line, err := message.Line()
	if err != nil {
		complain(err)
		return
	}
	select {
	case c.out <- line:
	default:
		c.close()
	}
}

// over reports whether there is no connection, or it was closed.
func (c *connection) over() bool { return c == nil || c.open.Err() != nil }

// listens reports whether an agent is connected, as far as is known.
func (c *connection) listens() bool { return !c.over() && !c.lost.Load() }

func (c *connection) close() {
	if !c.over() {
		c.end()
		c.hangUp()
	}
}

// Read implements io.Reader for the server.
func (c *connection) Read(p []byte) (n int, err error) {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		// Set before any data leaves the socket, so that unread misses none.
		c.idle.Store(false)
		n, failed = again(func() (int, error) { return c.receive(int(fd), p) })
		if errors.Is(failed, unix.EAGAIN) {
			c.idle.Store(true)
			return false
		}
		return true
	})
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, failed
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// mostFiles is how many files come with one message at most.
const mostFiles = 3

// receive reads from the socket, and keeps the files that come along: with the first byte of their message.
func (c *connection) receive(socket int, p []byte) (int, error) {
	var control [4 * unix.SizeofCmsghdr]byte // room for mostFiles
	n, length, _, _, err := unix.Recvmsg(socket, p, control[:unix.CmsgSpace(4*mostFiles)], unix.MSG_CMSG_CLOEXEC)
	if err != nil || length == 0 {
		return n, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:length])
	for _, message := range messages {
		descriptors, failed := unix.ParseUnixRights(&message)
		err = errors.Join(err, failed)
		for _, descriptor := range descriptors {
			c.files = append(c.files, os.NewFile(uintptr(descriptor), "given"))
		}
	}
	return n, err
}

// take returns the next files that came.
func (c *connection) take(n int) ([]*os.File, error) {
	if len(c.files) < n {
		return nil, fmt.Errorf("%d descriptors came with it, needs %d", len(c.files), n)
	}
	taken := c.files[:n:n]
	c.files = c.files[n:]
	return taken, nil
}

// unread says whether the agent has written something that has not been passed on.
func (c *connection) unread() bool {
	if c.over() {
		return false
	}
	waiting, err := unread(c.conn)
	// The order matters: idle is set only after data read before the first check was passed on.
	return err == nil && (waiting > 0 || !c.idle.Load())
}

// hangUp stops writes of both sides. Data already written can still be read, after which the method
// read closes the connection.
func (c *connection) hangUp() {
	_ = c.conn.CloseWrite()
	_ = c.conn.CloseRead()
}

func (c *connection) write() {
	for {
		select {
		case <-c.open.Done():
			return
		case line := <-c.out:
			_ = c.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := c.conn.Write(line); err != nil {
				// The next connection gets everything again.
				c.lost.Store(true)
				c.hangUp()
				return
			}
		}
	}
}
