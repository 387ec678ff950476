package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/document"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

func zipped(t testing.TB, text string) string {
	t.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

// frame puts the head of a stream's message in front of it.
func frame(flags byte, message string) string {
	head := make([]byte, partHead)
	head[0] = flags
	binary.BigEndian.PutUint32(head[1:], uint32(len(message)))
	return string(head) + message
}

// zeroes is a request to start an operation with so many values.
func zeroes(count int) string {
	return `{"spec": {"tasks": [` + strings.Repeat("0,", count) + `0]}}`
}

// TestRequestsAreBounded (T5) sends requests that are small and cost much, in each way that there is to send one. Each is
// refused with the limit before it is decoded.
func TestRequestsAreBounded(t *testing.T) {
	s := newSite(t)
	list := &structpb.ListValue{}
	for range 60_000 {
		list.Values = append(list.Values, structpb.NewListValue(&structpb.ListValue{}))
	}
	encoded, err := proto.Marshal(&apipb.StartRequest{Spec: &structpb.Struct{Fields: map[string]*structpb.Value{"tasks": structpb.NewListValue(list)}}})
	if err != nil {
		t.Fatal(err)
	}
	const start, events = "OperationService/Start", "EventService/Read"
	const values, spec = "values, the limit is 100000", "the request has more than 2097152 bytes"
	bomb, huge := zipped(t, zeroes(1_000_000)), zipped(t, zeroes(20_000_000))
	if len(bomb) > 4<<10 {
		t.Fatalf("a bomb of %d bytes", len(bomb))
	}
	for name, test := range map[string]struct {
		call, kind, body string
		header           [2]string
		want             string
	}{
		"many values":               {start, "application/json", zeroes(200_000), [2]string{}, "Start: the request has 200004 " + values},
		"packed values":             {start, "application/json", bomb, [2]string{"Content-Encoding", "gzip"}, values},
		"in capital letters":        {start, "Application/JSON; Charset=UTF-8", zeroes(200_000), [2]string{}, "Start: the request has 200004 " + values},
		"gRPC in capital letters":   {start, "Application/gRPC-Web+JSON", frame(1, bomb), [2]string{"Grpc-Encoding", "gzip"}, values},
		"no media type":             {start, "application/json; =", zeroes(1), [2]string{}, "Start: content type"},
		"packed bytes":              {start, "application/json", huge, [2]string{"Content-Encoding", "gzip"}, spec + " once it is unpacked, the limit of this call (2 MiB)"},
		"many messages":             {start, "application/proto", string(encoded), [2]string{}, values},
		"packed messages":           {start, "application/proto", zipped(t, string(encoded)), [2]string{"Content-Encoding", "gzip"}, values},
		"gRPC":                      {start, "application/grpc-web+proto", frame(0, string(encoded)), [2]string{}, values},
		"packed gRPC":               {start, "application/grpc-web+json", frame(1, bomb), [2]string{"Grpc-Encoding", "gzip"}, values},
		"bytes of packed gRPC":      {start, "application/grpc-web+json", frame(1, huge), [2]string{"Grpc-Encoding", "gzip"}, spec + " once it is unpacked"},
		"a length in gRPC":          {start, "application/grpc-web+proto", "\x00\xff\xff\xff\xff", [2]string{}, spec},
		"a second message":          {start, "application/grpc-web+json", frame(0, "{}") + frame(0, "{}"), [2]string{}, "Start: the request has more than one message"},
		"packed in a stream":        {events, "application/connect+json", frame(1, zipped(t, zeroes(100_000))), [2]string{"Connect-Content-Encoding", "gzip"}, "more than 65536 bytes once it is unpacked"},
		"a spec":                    {start, "application/json", zeroes(1_100_000), [2]string{}, spec + ", the limit of this call (2 MiB)"},
		"a long list":               {"OperationService/List", "application/json", `{"filter": "` + strings.Repeat("x", 65<<10), [2]string{}, "List: the request has more than 65536 bytes, the limit of this call (64 KiB)"},
		"a change":                  {"OperationService/Abort", "application/json", `{"reason": "` + strings.Repeat("x", 1<<20), [2]string{}, "Abort: the request has more than 1048576 bytes"},
		"not packed, but called so": {start, "application/json", "{}", [2]string{"Content-Encoding", "gzip"}, "Start: unpack request: "},
	} {
		t.Run(name, func(t *testing.T) {
			headers := []string{"Content-Type", test.kind}
			if test.header[0] != "" {
				headers = append(headers, test.header[:]...)
			}
			got := s.post(test.call, test.body, headers...)
			said := got.raw + got.header.Get("Grpc-Message")
			if !strings.Contains(said, test.want) {
				t.Errorf("%d %q, want %q", got.status, said, test.want)
			}
		})
	}
	if now := s.Applied(); now != 1 {
		t.Errorf("%d commands were applied, want that of the fixture", now)
	}
}

// largest is a request to start an operation whose specification has exactly the largest size.
func largest(t *testing.T) string {
	t.Helper()
	of := func(fill int) map[string]any {
		tasks := map[string]any{}
		for i := range 10 {
			part := min(fill, 110<<10)
			fill -= part
			tasks[fmt.Sprint("t", i)] = map[string]any{"job_count": 1, "command": []string{"run"}, "environment": map[string]string{"PART": strings.Repeat("x", part)}}
		}
		return map[string]any{"tasks": tasks}
	}
	empty, err := json.Marshal(of(0))
	if err != nil {
		t.Fatal(err)
	}
	full, err := json.Marshal(of(document.MaxBytes - len(empty)))
	if err != nil || len(full) != document.MaxBytes {
		t.Fatalf("%d bytes, %v", len(full), err)
	}
	return `{"spec": ` + string(full) + `}`
}

// TestLargestRequests (T5): what is allowed comes in, packed or not: a specification of exactly the largest size, and a tree of
// three thousand pools.
func TestLargestRequests(t *testing.T) {
	s := newSite(t)
	spec := largest(t)
	for name, request := range map[string][]string{"plain": {spec}, "packed": {zipped(t, spec), "Content-Encoding", "gzip"}} {
		if got := s.post("OperationService/Start", request[0], request[1:]...); got.status != http.StatusOK {
			t.Errorf("%s: %d %.300s", name, got.status, got.raw)
		}
	}
	if got := s.post("OperationService/Start", strings.Replace(spec, "PART", "PART1", 1)); got.status != http.StatusBadRequest || !strings.Contains(got.raw, "it has 1048577 bytes, the limit is 1048576") {
		t.Errorf("one byte more: %d %.300s", got.status, got.raw)
	}
	edit := &apipb.EditTreeRequest{}
	for i := range 3000 {
		options, err := structpb.NewStruct(map[string]any{
			"weight": 2, "max_running_operation_count": 10, "max_operation_count": 20, "fair_share_starvation_timeout": "30s",
			"strong_guarantee_resources": map[string]any{"cpu": 1, "memory": "1GiB"}, "resource_limits": map[string]any{"cpu": 100, "memory": "100GiB"},
		})
		if err != nil {
			t.Fatal(err)
		}
		edit.Edits = append(edit.Edits, &apipb.TreeEdit{Edit: &apipb.TreeEdit_Create{Create: &apipb.Pool{Name: fmt.Sprint("team-", i), Options: options}}})
	}
	for name, option := range map[string][]connect.ClientOption{"proto": nil, "JSON": {connect.WithProtoJSON()}, "packed": {connect.WithSendGzip()}} {
		client := apipbconnect.NewPoolServiceClient(s.client, s.url, option...)
		asked := proto.CloneOf(edit)
		for _, e := range asked.GetEdits() {
			e.GetCreate().Name = name + e.GetCreate().GetName()
		}
		if _, err := client.Edit(t.Context(), connect.NewRequest(asked)); err != nil {
			t.Errorf("3000 pools, %s: %v", name, err)
		}
	}
}

// TestLargeRequestsTakeTurns (T5) has one user send large requests that last. No more than its share is read; another user's is,
// and small ones of the first.
func TestLargeRequestsTakeTurns(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.LargeRequests, l.Patience = 6, patience })
	hold := make(chan struct{})
	s.hold.Store(&hold)
	body := `{"spec": {"tasks": {"t": {"job_count": 1, "command": ["run"], "environment": {"PART": "` + strings.Repeat("x", 100<<10) + `"}}}}}`
	const greedy = 20
	replies := make(chan reply, greedy)
	for i := range greedy {
		headers := []string{roleHeader, "client/mallory"}
		send := body
		if i%2 == 0 {
			// Its size is known only once it is unpacked.
			send, headers = zipped(t, body), append(headers, "Content-Encoding", "gzip")
		}
		go func() { replies <- s.post("OperationService/Start", send, headers...) }()
	}
	eventually(t, func() bool {
		_, waiting := s.handler.door.large.count()
		return waiting == greedy-3 && s.held.Load() == 3
	})
	s.hold.Store(nil)
	for name, request := range map[string][2]string{"another user": {body, "client/ann"}, "a small request": {startBody(1, ""), "client/mallory"}} {
		if got := s.post("OperationService/Start", request[0], roleHeader, request[1]); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", name, got.status, got.raw)
		}
	}
	close(hold)
	for range greedy {
		if got := <-replies; got.status != http.StatusOK {
			t.Errorf("%d %s", got.status, got.raw)
		}
	}
}

// TestTooManyLargeRequests is what a user is told who has too many.
func TestTooManyLargeRequests(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.LargeRequests, l.Patience = 1, 10*time.Millisecond })
	first := s.handler.door.large.enter(t.Context(), aUser("mallory"))
	defer s.handler.door.large.leave(first)
	got := s.post("OperationService/Start", `{"mutation_id": "`+strings.Repeat("x", 70<<10)+`"}`, roleHeader, "client/mallory")
	if want := "1 large requests of user mallory in flight on replica r1, with a limit of 1"; got.status != http.StatusTooManyRequests || !strings.Contains(got.raw, want) || got.header.Get(apipb.HeaderRetry) == "" {
		t.Errorf("%d %v %s, want %q", got.status, got.header, got.raw, want)
	}
}

func FuzzValuesOfRequests(f *testing.F) {
	f.Add([]byte(zeroes(3)))
	f.Add([]byte{0x0a, 0x02, 0x0a, 0x00})
	of := (&apipb.StartRequest{}).ProtoReflect().Descriptor()
	f.Fuzz(func(t *testing.T, data []byte) {
		var m apipb.StartRequest
		if (strictJSON{}).Unmarshal(data, &m) == nil && valuesOf(m.GetSpec()) > valuesOfJSON(data) {
			t.Errorf("%q: %d values, counted %d", data, valuesOf(m.GetSpec()), valuesOfJSON(data))
		}
		if proto.Unmarshal(data, &m) == nil && valuesOf(m.GetSpec()) > valuesOfProto(data, of, 0) {
			t.Errorf("%q: %d values, counted %d", data, valuesOf(m.GetSpec()), valuesOfProto(data, of, 0))
		}
	})
}

// valuesOf counts the values of an object as they are in memory.
func valuesOf(s *structpb.Struct) (count int) {
	for _, v := range s.GetFields() {
		count += 1 + valuesOf(v.GetStructValue())
		for _, item := range v.GetListValue().GetValues() {
			count += valuesOf(&structpb.Struct{Fields: map[string]*structpb.Value{"": item}})
		}
	}
	return count
}

// TestCallsRestWhileTheyWait: a call that waits, for the leader, for a change or for a client that reads, does not compute.
func TestCallsRestWhileTheyWait(t *testing.T) {
	s := newSite(t)
	id := s.run(1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 3 {
		stream, err := watcher(s).Watch(ctx, connect.NewRequest(&apipb.WatchOperationRequest{Operation: id}))
		if err != nil || !stream.Receive() {
			t.Fatal(err, stream.Err())
		}
		defer func() { _ = stream.Close() }()
		events, err := apipbconnect.NewEventServiceClient(s.client, s.url).Read(ctx, connect.NewRequest(&apipb.ReadEventsRequest{Follow: true}))
		if err != nil || !events.Receive() {
			t.Fatal(err, events.Err())
		}
		defer func() { _ = events.Close() }()
	}
	eventually(t, func() bool { computing, waiting := s.handler.door.turns.count(); return computing+waiting == 0 })
	first := &turn{door: s.handler.door, of: aUser("mallory"), ctx: ctx}
	if err := first.take(); err != nil {
		t.Fatal(err)
	}
	h := newHurried(discarded{}, time.Second)
	h.turn = first
	if _, err := h.Write([]byte("x")); err != nil || first.held != nil {
		t.Errorf("the turn is held during a write; %v", err)
	}
}

type discarded struct{ http.ResponseWriter }

func (discarded) Write(data []byte) (int, error) { return len(data), nil }

// TestTurnsGoRound (T5): a call of another user is next but one at most, however many calls of a user wait.
func TestTurnsGoRound(t *testing.T) {
	p := newPlaces(1, 1000)
	next := func() string {
		ticket := p.admit()
		defer p.leave(ticket)
		return ticket.of.of.name
	}
	come := func(name string, calls int) {
		for range calls {
			p.enter(aUser(name))
		}
	}
	come("mallory", 500)
	var order []string
	for _, name := range []string{"ann", "bob", "ann", "ann"} {
		come(name, 1)
		order = append(order, next(), next())
	}
	if got, want := strings.Join(order, " "), "mallory ann mallory bob mallory ann mallory ann"; got != want {
		t.Errorf("in the order %s, want %s", got, want)
	}
}

// TestTurnsOutlastParts: a part of a call that has less time than the call does not make the call compute out of turn.
func TestTurnsOutlastParts(t *testing.T) {
	d := newDoor("r1", DefaultLimits())
	d.turns = newEntrance("calls that compute", 1, 10, patience)
	mine := &turn{door: d, of: aUser("ann"), ctx: t.Context()}
	short, cancel := context.WithCancel(context.WithValue(t.Context(), askingKey{}, &asking{turn: mine}))
	other := &turn{door: d, of: aUser("mallory"), ctx: t.Context()}
	if err := mine.take(); err != nil {
		t.Fatal(err)
	}
	back := make(chan error, 1)
	go func() {
		_, err := away(short, d, d.leader, func() (none struct{}, err error) {
			cancel()
			return none, other.take()
		})
		back <- err
	}()
	eventually(t, func() bool { _, waiting := d.turns.count(); return waiting == 1 })
	if len(back) > 0 {
		t.Error("the call goes on without a turn")
	}
	other.rest()
	if err := <-back; err != nil || mine.held == nil {
		t.Errorf("%v, with a turn: %t", err, mine.held != nil)
	}
	mine.rest()
}
