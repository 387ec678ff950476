package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	limits "weir/messages/bounds"
)

// The bounds of a request, unpacked. A specification has one of its own, Limits.MessageBytes.
const (
	// readBytes bounds requests that change nothing: they have names and filters only.
	readBytes = 64 << 10
	// changeBytes bounds those that change something.
	changeBytes = 1 << 20
	// editBytes bounds the edits of a pool tree: what an entry of the log may have.
	editBytes = 4 << 20
	// smallBytes is how much a call may send without a place for a large request.
	smallBytes = 64 << 10
	// maxValues bounds the values of a request: a value of two bytes takes a hundred once it is decoded.
	maxValues = 100_000
	// maxNesting is where the decoder refuses a message.
	maxNesting = 10_000
)

// requestBytes returns the bound of the requests of a call.
func (l Limits) requestBytes(procedure string) int {
	switch {
	case procedure == apipbconnect.OperationServiceStartProcedure:
		return l.MessageBytes
	case procedure == apipbconnect.PoolServiceEditProcedure:
		return editBytes
	case needs[procedure] == subjects || needs[procedure] == operatorsOnly:
		return changeBytes
	}
	return readBytes
}

// receipt is a request that is read as a whole, unpacked and measured before it is decoded. Every
// call of the API has one message.
type receipt struct {
	handler *Handler
	call    *asking
	// name is that of the call, in errors. limit is the bound of its message.
	name  string
	limit int
	body  *hurriedBody
	// place is one among the large requests, or nil.
	place *ticket
}

// receive reads the request of a call, and replaces its body by what was read. The call has a turn
// to compute when it returns. Call done when the call has ended.
func (h *Handler) receive(w *hurried, r *http.Request, call *asking, began time.Time) (done func(), refused *connect.Error) {
	q := &receipt{
		handler: h, call: call, name: r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], limit: h.server.cfg.Limits.requestBytes(r.URL.Path),
		body: w.body(r.Body, began),
	}
	message, refused := q.message(r)
	if refused != nil {
		q.leave()
		if r.ProtoMajor == 1 {
			// The client may not look at the answer before it has sent its whole request.
			_, _ = io.CopyN(io.Discard, q.body, maxDrained)
		}
		return nil, refused
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(message)), int64(len(message))
	return q.leave, nil
}

// maxDrained bounds how many bytes of a refused request are read and discarded.
const maxDrained = 8 << 20

func (q *receipt) leave() {
	if q.place != nil {
		q.handler.door.large.leave(q.place)
	}
}

// message returns the body of a request without its packing.
func (q *receipt) message(r *http.Request) ([]byte, *connect.Error) {
	kind, err := canonicalType(r.Header)
	if err != nil {
		return nil, invalid("%s: %v", q.name, err)
	}
	packing, framed := "Content-Encoding", true
	switch {
	case strings.HasPrefix(kind, "application/grpc"):
		packing = "Grpc-Encoding"
	case strings.HasPrefix(kind, "application/connect+"):
		packing = "Connect-Content-Encoding"
	default:
		framed = false
	}
	head := 0
	if framed {
		head = partHead
	}
	data, refused := q.read(r.Context(), q.body, q.limit+head)
	if refused != nil {
		return nil, refused
	}
	if framed {
		if refused := q.oneFrame(data); refused != nil {
			return nil, refused
		}
	}
	if len(data) < head {
		return data, nil // The protocol refuses it.
	}
	if err := q.call.turn.take(); err != nil {
		return nil, q.handler.server.overloaded(err.Error())
	}
	packed := r.Header.Get(packing) == "gzip" && (!framed || data[0]&1 != 0)
	if packed {
		if data, refused = q.unpack(r.Context(), data, head); refused != nil {
			return nil, refused
		}
		if !framed {
			r.Header.Del(packing)
		}
	}
	return data, q.measure(kind, r.URL.Path, data[head:])
}

// canonicalType returns the media type of a request in small letters and without parameters, and writes
// it back, so that the protocols read what has been looked at.
func canonicalType(h http.Header) (string, error) {
	given := h.Get("Content-Type")
	if given == "" {
		return "", nil
	}
	kind, _, err := mime.ParseMediaType(given)
	if err != nil {
		return "", fmt.Errorf("content type %.60q: %w", given, err)
	}
	h.Set("Content-Type", kind)
	return kind, nil
}

// oneFrame checks that a request has no more than one message, and that of a legal length. The
// protocol refuses one that is shorter.
func (q *receipt) oneFrame(data []byte) *connect.Error {
	if len(data) < partHead {
		return nil
	}
	switch size := int(binary.BigEndian.Uint32(data[1:])); {
	case size > q.limit:
		return q.tooLarge("")
	case size < len(data)-partHead:
		return invalid("%s: the request has more than one message", q.name)
	}
	return nil
}

// read reads everything, at most limit bytes. What is not small needs a place.
func (q *receipt) read(ctx context.Context, from io.Reader, limit int) ([]byte, *connect.Error) {
	data, err := io.ReadAll(io.LimitReader(from, int64(min(smallBytes, limit))+1))
	if err == nil && len(data) > smallBytes && len(data) <= limit {
		if refused := q.enlarge(ctx); refused != nil {
			return nil, refused
		}
		rest := bytes.NewBuffer(data)
		_, err = rest.ReadFrom(io.LimitReader(from, int64(limit-len(data))+1))
		data = rest.Bytes()
	}
	switch {
	case err != nil:
		return nil, invalid("%s: read request: %v", q.name, err)
	case len(data) > limit:
		return nil, q.tooLarge("")
	}
	return data, nil
}

func (q *receipt) tooLarge(how string) *connect.Error {
	return fail(connect.CodeResourceExhausted, apipb.CodeInvalidArgument, "%s: the request has more than %d bytes%s, the limit of this call (%s)",
		q.name, q.limit, how, limits.Text(int64(q.limit)))
}

// enlarge waits for a place among the large requests; other calls compute meanwhile.
func (q *receipt) enlarge(ctx context.Context) *connect.Error {
	if q.place != nil {
		return nil
	}
	q.call.turn.rest()
	d, of := q.handler.door, subjectOf(q.call.Identity)
	if q.place = d.large.enter(ctx, of); q.place == nil {
		return q.handler.server.overloaded(d.crowded(d.large, of))
	}
	q.body.until = time.Now().Add(q.handler.server.cfg.Limits.Stall)
	return nil
}

// unpack returns a request with its message unpacked, behind a head of so many bytes.
func (q *receipt) unpack(ctx context.Context, data []byte, head int) ([]byte, *connect.Error) {
	unpacker, err := gzip.NewReader(bytes.NewReader(data[head:]))
	if err != nil {
		return nil, invalid("%s: unpack request: %v", q.name, err)
	}
	message, refused := q.read(ctx, unpacker, q.limit)
	switch {
	case refused != nil && refused.Code() == connect.CodeResourceExhausted && len(refused.Meta().Get(apipb.HeaderRetry)) == 0:
		return nil, q.tooLarge(" once it is unpacked")
	case refused != nil:
		return nil, refused
	}
	if err := q.call.turn.take(); err != nil {
		return nil, q.handler.server.overloaded(err.Error())
	}
	if head == 0 {
		return message, nil
	}
	framed := make([]byte, head, head+len(message))
	framed[0] = data[0] &^ 1
	binary.BigEndian.PutUint32(framed[1:], uint32(len(message)))
	return append(framed, message...), nil
}

// measure returns an error if a message has more values than a request may have.
func (q *receipt) measure(kind, procedure string, message []byte) *connect.Error {
	count := 0
	if strings.Contains(kind, "json") {
		count = valuesOfJSON(message)
	} else if of := q.handler.server.procedures[procedure].input; of != nil {
		count = valuesOfProto(message, of, 0)
	}
	if count > maxValues {
		return fail(connect.CodeResourceExhausted, apipb.CodeInvalidArgument, "%s: the request has %d values, the limit is %d: send fewer list items and options", q.name, count, maxValues)
	}
	return nil
}

// valuesOfJSON returns how many values a text of JSON has at most: one, and one more for each comma and
// each bracket that opens.
func valuesOfJSON(text []byte) int {
	count, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			count++
		}
	}
	return count
}

// valuesOfProto returns how many messages, entries of maps and list items an encoded message has. What
// cannot be decoded does not count.
func valuesOfProto(data []byte, of protoreflect.MessageDescriptor, depth int) (count int) {
	if depth > maxNesting {
		return 0
	}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return count
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return count
		}
		field := of.Fields().ByNumber(number)
		if value, _ := protowire.ConsumeBytes(data[:n]); kind == protowire.BytesType && field != nil {
			switch {
			case field.Message() != nil:
				if !of.IsMapEntry() { // Otherwise the entry counts.
					count++
				}
				count += valuesOfProto(value, field.Message(), depth+1)
			case field.IsList() && field.Kind() != protoreflect.StringKind && field.Kind() != protoreflect.BytesKind:
				count += len(value) // Packed numbers, of a byte or more each.
			case field.IsList():
				count++
			}
		}
		data = data[n:]
	}
	return count
}
