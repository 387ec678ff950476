package remote

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/remotepb"
)

const (
	// framesProtocol is what a stream's connection speaks once it is upgraded: batches, each behind its length as
	// four bytes, the most significant first.
	framesProtocol = "weir-frames"
	// prefixBytes is the size of the length.
	prefixBytes = 4
	// pieceBytes is how much is written at a time, and pieceTimeout how long a piece may take: a peer that has
	// stopped reading is given up.
	pieceBytes   = 64 << 10
	pieceTimeout = 10 * time.Second
)

// framed is the transport of a stream that has its connection for itself. While nothing is read or written it
// holds no buffers.
type framed struct {
	conn net.Conn
	// maxBytes bounds a batch that is received.
	maxBytes int
	prefix   [prefixBytes]byte
}

// buffers are for batches. One that has grown large is not kept.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func keep(buffer *[]byte) {
	if cap(*buffer) <= 2*pieceBytes {
		buffers.Put(buffer)
	}
}

// Send implements transport.
func (f *framed) Send(batch *remotepb.Batch) error {
	buffer := buffers.Get().(*[]byte)
	defer keep(buffer)
	out, err := proto.MarshalOptions{}.MarshalAppend(append((*buffer)[:0], make([]byte, prefixBytes)...), batch)
	if err != nil {
		return err
	}
	*buffer = out
	binary.BigEndian.PutUint32(out, uint32(len(out)-prefixBytes)) //nolint:gosec // A batch has at most a few MiB.
	for len(out) > 0 {
		piece := out[:min(len(out), pieceBytes)]
		if err := f.conn.SetWriteDeadline(time.Now().Add(pieceTimeout)); err != nil {
			return err
		}
		if _, err := f.conn.Write(piece); err != nil {
			return err
		}
		out = out[len(piece):]
	}
	return nil
}

// Receive implements transport.
func (f *framed) Receive() (*remotepb.Batch, error) {
	if _, err := io.ReadFull(f.conn, f.prefix[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(f.prefix[:])
	if uint64(size) > uint64(f.maxBytes) {
		return nil, fmt.Errorf("a batch of %d bytes: %d are accepted", size, f.maxBytes)
	}
	buffer := buffers.Get().(*[]byte)
	defer keep(buffer)
	// It grows as bytes come, and not because they are announced.
	in := bytes.NewBuffer((*buffer)[:0])
	_, err := io.CopyN(in, f.conn, int64(size))
	*buffer = in.Bytes()
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	batch := new(remotepb.Batch)
	return batch, proto.Unmarshal(in.Bytes(), batch)
}

// finish implements transport. The peer closes the connection when it has read the Bye.
func (f *framed) finish() {}

// abort implements transport.
func (f *framed) abort() {
	_ = f.conn.SetDeadline(past)
	go func() { _ = f.conn.Close() }() // Under TLS it may first try to write an alert.
}

func (f *framed) setRead(deadline time.Time) { _ = f.conn.SetReadDeadline(deadline) }

// protection returns the TLS state of the connection; nil without TLS.
func (f *framed) protection() *tls.ConnectionState {
	secured, ok := f.conn.(*tls.Conn)
	if !ok {
		return nil
	}
	state := secured.ConnectionState()
	return &state
}
