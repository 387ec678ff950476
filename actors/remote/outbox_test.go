package remote

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/messages/remotepb"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func sendFrame(to string) *remotepb.Frame {
	return &remotepb.Frame{Kind: &remotepb.Frame_Send{Send: &remotepb.Send{To: to}}}
}

func requestFrame(id uint64) *remotepb.Frame {
	return &remotepb.Frame{Kind: &remotepb.Frame_Request{Request: &remotepb.Request{Id: id}}}
}

func TestOutboxBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		maxMessages, maxBytes int
		sizes                 []int
		wantRefusedAt         int
	}{
		"messages":                        {maxMessages: 2, maxBytes: 100, sizes: []int{1, 1, 1}, wantRefusedAt: 2},
		"bytes":                           {maxMessages: 9, maxBytes: 100, sizes: []int{60, 41}, wantRefusedAt: 1},
		"bytes to the brim":               {maxMessages: 9, maxBytes: 100, sizes: []int{60, 40, 1}, wantRefusedAt: 2},
		"one message always, whatever it": {maxMessages: 9, maxBytes: 100, sizes: []int{500, 1}, wantRefusedAt: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := &outbox{maxMessages: tc.maxMessages, maxBytes: tc.maxBytes}
			for i, size := range tc.sizes {
				if got, want := o.push(outgoing{frame: sendFrame("x"), bytes: size}), i != tc.wantRefusedAt; got != want {
					t.Errorf("push %d: %v, want %v", i, got, want)
				}
			}
		})
	}
}

func TestOutboxHasRoomForNoticesBeyondMessages(t *testing.T) {
	o := &outbox{maxMessages: 4, maxBytes: 1 << 20}
	for o.push(outgoing{frame: sendFrame("x"), bytes: 1}) {
	}
	notices := 0
	for o.pushNotice(sendFrame("notice")) {
		notices++
	}
	if notices != 4/reserve+reserve {
		t.Errorf("%d notices on top", notices)
	}
}

func TestOutboxTellsRequestsTheTimeThatIsLeft(t *testing.T) {
	o := &outbox{maxMessages: 9, maxBytes: 100}
	o.push(outgoing{frame: requestFrame(1), deadline: noon.Add(-time.Second)})
	o.push(outgoing{frame: requestFrame(2), deadline: noon.Add(1500 * time.Microsecond)})
	o.push(outgoing{frame: requestFrame(3), deadline: noon})
	batch, late := o.take(nil, 100, noon)
	if len(batch) != 1 || late != 2 || batch[0].GetRequest().GetId() != 2 || batch[0].GetRequest().GetTimeoutMillis() != 2 {
		t.Errorf("batch %v, %d late; want request 2 with 2 ms, 2 late", batch, late)
	}
}

func TestOutboxSendsPingsFirst(t *testing.T) {
	o := &outbox{maxMessages: 9, maxBytes: 100}
	o.push(outgoing{frame: sendFrame("x"), bytes: 1})
	o.ping, o.pong = true, true
	batch, _ := o.take(nil, 100, noon)
	if len(batch) != 3 || batch[0].GetPing() == nil || batch[1].GetPong() == nil {
		t.Errorf("batch %v", batch)
	}
	if rest, _ := o.take(nil, 100, noon); len(rest) > 0 {
		t.Errorf("left over: %v", rest)
	}
}

// TestOutboxKeepsOrderAndCount pushes and takes at will, and wants every frame
// that was let in to come out once, in order, in batches that keep the bound.
func TestOutboxKeepsOrderAndCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &outbox{maxMessages: rapid.IntRange(1, 20).Draw(t, "messages"), maxBytes: rapid.IntRange(1, 200).Draw(t, "bytes")}
		var in, out []*remotepb.Frame
		waiting := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				f, size := sendFrame("x"), rapid.IntRange(1, 50).Draw(t, "size")
				room := waiting == 0 || waiting < o.maxMessages && o.bytes+size <= o.maxBytes
				if o.push(outgoing{frame: f, bytes: size}) != room {
					t.Fatalf("room for %d bytes on %d of %d: %v", size, o.bytes, o.maxBytes, !room)
				}
				if room {
					in = append(in, f)
					waiting++
				}
			},
			"take": func(t *rapid.T) {
				limit, before := rapid.IntRange(1, 60).Draw(t, "limit"), o.bytes
				batch, late := o.take(nil, limit, noon)
				if late != 0 || len(batch) == 0 && waiting > 0 || len(batch) > 1 && before-o.bytes > limit {
					t.Fatalf("took %d frames, %d bytes, limit %d", len(batch), before-o.bytes, limit)
				}
				out = append(out, batch...)
				waiting -= len(batch)
			},
			"": func(t *rapid.T) {
				if o.messages != waiting || waiting == 0 && o.bytes != 0 {
					t.Fatalf("counts %d messages, %d bytes, want %d messages", o.messages, o.bytes, waiting)
				}
				for i := range out {
					if out[i] != in[i] {
						t.Fatalf("frame %d came out of order", i)
					}
				}
			},
		})
	})
}
