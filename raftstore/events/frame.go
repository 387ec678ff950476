package events

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"weir/messages/eventpb"
	"weir/raftstore/recordlog"
)

// signature begins each segment.
const signature = "weir events 1\n"

// frames use the log index as tag. MaxRecord is far above the size of any entry, even of
// the largest log entry that starts jobs.
var frames = recordlog.Format{MaxRecord: 256 << 20, SumAt: 4, TagAt: 8, LongTag: true}

// appendFrame appends an entry to data, which will be written at offset of the segment.
func appendFrame(data []byte, offset int64, entry *eventpb.Entry) ([]byte, error) {
	data, err := frames.Append(data, offset, entry.GetIndex(), entry)
	if err != nil {
		err = fmt.Errorf("events of index %d: %w", entry.GetIndex(), err)
	}
	return data, err
}

// decode returns the entry of a frame.
func decode(f recordlog.Frame) (*eventpb.Entry, error) {
	entry := new(eventpb.Entry)
	if err := proto.Unmarshal(f.Record, entry); err != nil {
		return nil, fmt.Errorf("decode events of index %d: %w", f.Tag, err)
	}
	return entry, nil
}
