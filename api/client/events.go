package client

import (
	"context"
	"iter"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/eventpb"
)

// ReadEvents yields the events that match a request, in order, each exactly once. If a
// replica fails or lacks some of the events, it continues from the same place at another
// replica. An error is the last thing that it yields. The error is a refusal with the code
// events_gone if the log has already dropped the events, or with events_missing if no replica has
// them.
func (c *Client) ReadEvents(ctx context.Context, request *apipb.ReadEventsRequest) iter.Seq2[*eventpb.Event, error] {
	return func(yield func(*eventpb.Event, error) bool) {
		at := proto.CloneOf(request)
		w := &watch[apipb.ReadEventsResponse]{c: c, what: "read events"}
		w.open = func(ctx context.Context, r replica) (*connect.ServerStreamForClient[apipb.ReadEventsResponse], error) {
			return service[apipbconnect.EventServiceClient](r).Read(ctx, connect.NewRequest(at))
		}
		w.take = func(m *apipb.ReadEventsResponse) (over bool, err error) {
			for _, e := range m.GetEvents() {
				goOnAt(at, e.GetIndex(), e.GetPosition()+1)
				if !yield(e, nil) {
					return true, nil
				}
			}
			if m.GetNextIndex() > at.GetIndex() {
				goOnAt(at, m.GetNextIndex(), 0)
			}
			return m.GetEnd(), nil
		}
		if err := w.run(ctx); err != nil {
			yield(nil, err)
		}
	}
}

// goOnAt sets a request to continue at an index and position.
func goOnAt(m *apipb.ReadEventsRequest, index uint64, position uint32) {
	m.Since, m.Latest, m.Index, m.Position = nil, false, index, position
}
