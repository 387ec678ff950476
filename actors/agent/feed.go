package agent

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"weir/actors/agent/runner/proxyproto"
	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// feedOf returns the input that a job's proxy feeds to it; nil: none.
func feedOf(feed *actorpb.JobFeed) *proxyproto.Feed {
	if feed == nil {
		return nil
	}
	told := &proxyproto.Feed{Format: feed.GetFormat(), MaxRecordBytes: feed.GetMaxRecordBytes(), Output: feed.GetOutput(), Part: feed.GetOutputPart()}
	for _, p := range feed.GetParts() {
		file, slice := p.GetFile(), p.GetSlice()
		part := proxyproto.FeedPart{
			Name: file.GetPath(), Size: file.GetSize(), Version: file.GetVersion(), Begin: slice.GetBegin(), End: slice.GetEnd(),
		}
		if file.GetModifiedTime() != nil {
			part.ModTime = file.GetModifiedTime().AsTime()
		}
		if strings.Contains(p.GetSource(), "://") {
			part.URL = p.GetSource()
		} else {
			part.Path = p.GetSource()
		}
		told.Parts = append(told.Parts, part)
	}
	return told
}

// inputOf returns how much of its input a job has processed, and what is left.
func inputOf(feed *actorpb.JobFeed, count *proxyproto.InputCount) *statepb.JobInput {
	if feed == nil || count == nil {
		return nil
	}
	input := &statepb.JobInput{Rows: count.Rows, Bytes: count.Bytes, Hash: count.Hash}
	for i, part := range feed.GetParts() {
		slice := part.GetSlice()
		switch {
		case count.Rest == nil || i < count.Rest.Part:
			input.Processed = append(input.Processed, proto.CloneOf(slice))
		case i > count.Rest.Part:
			input.Rest = append(input.Rest, proto.CloneOf(slice))
		default:
			border := max(slice.GetBegin(), min(slice.GetEnd(), count.Rest.Offset))
			if border > slice.GetBegin() {
				input.Processed = append(input.Processed, &statepb.Slice{File: slice.GetFile(), Begin: slice.GetBegin(), End: border})
			}
			if border < slice.GetEnd() {
				input.Rest = append(input.Rest, &statepb.Slice{File: slice.GetFile(), Begin: border, End: slice.GetEnd()})
			}
		}
	}
	return input
}

// outputOf returns how much output a job has written.
func outputOf(count *proxyproto.OutputCount) *statepb.JobOutput {
	if count == nil {
		return nil
	}
	return &statepb.JobOutput{Part: count.Part, Rows: count.Rows, Bytes: count.Bytes}
}

// faultAttributes returns error attributes that say what is wrong with a job's input, and
// where.
func faultAttributes(fault *proxyproto.InputFault) map[string]string {
	if fault == nil {
		return map[string]string{statepb.AttributeInputFault: proxyproto.InputUnreadable}
	}
	attributes := map[string]string{statepb.AttributeInputFault: fault.Kind, statepb.AttributeInputPath: fault.Name}
	if fault.End > fault.Begin {
		placeRecord(attributes, fault.Begin, fault.End, fault.Head)
	}
	return attributes
}

// onlyRecord returns error attributes with the record of a job that was fed a single one.
func onlyRecord(feed *actorpb.JobFeed, count *proxyproto.InputCount) map[string]string {
	if count == nil || count.Only == nil || count.Only.Part < 0 || count.Only.Part >= len(feed.GetParts()) {
		return nil
	}
	attributes := map[string]string{statepb.AttributeInputPath: feed.GetParts()[count.Only.Part].GetFile().GetPath()}
	placeRecord(attributes, count.Only.Begin, count.Only.End, count.Only.Head)
	return attributes
}

func faultText(fault *proxyproto.InputFault) string {
	if fault == nil {
		return "input cannot be read"
	}
	return fault.String()
}

func placeRecord(attributes map[string]string, begin, end int64, head []byte) {
	attributes[statepb.AttributeRecordOffset], attributes[statepb.AttributeRecordEnd] = strconv.FormatInt(begin, 10), strconv.FormatInt(end, 10)
	if len(head) > 0 {
		attributes[statepb.AttributeRecordHead] = strconv.Quote(string(head))
	}
}
