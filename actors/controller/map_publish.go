package controller

import (
	"cmp"
	"fmt"
	"slices"

	"weir/cluster/storage"
	"weir/messages/statepb"
)

// inOrder returns the outputs of jobs in the order of the input, however it was divided: each job
// has read one contiguous range.
//
// It fails if two jobs have read the same bytes, or if not all of the input has been read because
// a user completed the operation early.
func inOrder(parts []*statepb.CompletedPart, progress *statepb.InputProgress) ([]storage.Part, error) {
	if read, total := progress.GetBytes(), progress.GetBytesTotal(); read != total {
		return nil, fmt.Errorf("%d of %d input bytes read: partial output is not published", read, total)
	}
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b *statepb.CompletedPart) int { return comparePlaces(first(a), first(b)) })
	var out []storage.Part
	var last *statepb.Slice
	for _, part := range parts {
		if last != nil && len(part.GetSlices()) > 0 && comparePlaces(first(part), &statepb.Slice{File: last.GetFile(), Begin: last.GetEnd()}) < 0 {
			return nil, fmt.Errorf("byte %d of input %d was read by two jobs, the second with cookie %d", first(part).GetBegin(), first(part).GetFile(), part.GetCookie())
		}
		if n := len(part.GetSlices()); n > 0 {
			last = part.GetSlices()[n-1]
		}
		// A skipped record has no output.
		if part.GetOutput() != nil {
			out = append(out, storage.Part{Name: part.GetOutput().GetPart(), Bytes: part.GetOutput().GetBytes()})
		}
	}
	return out, nil
}

// first returns the first slice of a part; nil if it has none.
func first(part *statepb.CompletedPart) *statepb.Slice {
	if len(part.GetSlices()) == 0 {
		return nil
	}
	return part.GetSlices()[0]
}

func comparePlaces(a, b *statepb.Slice) int {
	return cmp.Or(cmp.Compare(a.GetFile(), b.GetFile()), cmp.Compare(a.GetBegin(), b.GetBegin()))
}
