package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/slicing"
)

const (
	// toldSlices bounds the slices in the record of a finished job. A record with more slices lists
	// none: the parts of the task say which cookie has read which slices.
	toldSlices = 16
	// maxSkippedTold bounds the skipped records that a task lists.
	maxSkippedTold = 100
	// maxHead is how many bytes are kept of the beginning of a skipped record.
	maxHead = 256
)

// reads reports whether an operation reads an input.
func (v *version) reads() bool { return v.record.GetSpec().GetType() == lifecycle.Map }

// checkInput refuses an invalid input.
func checkInput(what string, spec *statepb.OperationSpec, in *statepb.Input) *refusal {
	switch {
	case spec.GetType() != lifecycle.Map && in != nil:
		return refuse(CodeInvalidCommand, "%s: it has an input, but an operation of type %q reads none", what, spec.GetType())
	case spec.GetType() == lifecycle.Map && in == nil:
		return refuse(CodeInvalidCommand, "%s: it has no input, but an operation of type %s needs one", what, lifecycle.Map)
	}
	var total int64
	for _, f := range in.GetFiles() {
		if f.GetSize() < 0 {
			return refuse(CodeInvalidCommand, "%s: input %q: size of %d bytes is negative", what, f.GetPath(), f.GetSize())
		}
		total = sum(total, f.GetSize())
	}
	if total != in.GetBytes() || total == math.MaxInt64 {
		return refuse(CodeInvalidCommand, "%s: the input has %d bytes, but its files have %d", what, in.GetBytes(), total)
	}
	return nil
}

// checkCover returns an error unless slices cover each byte of an input exactly once.
func checkCover(in *statepb.Input, all []*statepb.Slice) error {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *statepb.Slice) int {
		return cmp.Or(cmp.Compare(a.GetFile(), b.GetFile()), cmp.Compare(a.GetBegin(), b.GetBegin()))
	})
	i := 0
	for number, f := range in.GetFiles() {
		for end := int64(0); end < f.GetSize(); i++ {
			if i == len(all) || all[i].GetFile() != int32(number) || all[i].GetBegin() != end || all[i].GetEnd() <= end {
				return fmt.Errorf("input %d, %q: slice %s, want one that begins at byte %d", number, f.GetPath(), slicesText(all[i:min(i+1, len(all))]), end)
			}
			end = all[i].GetEnd()
			if end > f.GetSize() {
				return fmt.Errorf("input %d, %q: slice %s, but it has only %d bytes", number, f.GetPath(), slicesText(all[i:i+1]), f.GetSize())
			}
		}
	}
	if i < len(all) {
		return fmt.Errorf("input of %d files: slice %s is in none of them, or covered twice", len(in.GetFiles()), slicesText(all[i:i+1]))
	}
	return nil
}

// checkWork refuses the end of a job unless it accounts for each byte that the job was given.
func (o *operation) checkWork(task int, a *statepb.Allocation, j *statepb.FinishedJob, state lifecycle.JobState) *refusal {
	wrong := func(format string, args ...any) *refusal {
		return refuse(CodeInvalidCommand, "finish job %q: %s", j.GetJobId(), fmt.Sprintf(format, args...))
	}
	switch {
	case j.GetFatal() && state == lifecycle.JobCompleted:
		return wrong("it is marked as fatal, but is %s", state)
	case !o.reads():
		if j.GetInput() != nil || j.GetOutput() != nil || len(j.GetSplit()) > 0 || j.GetSkipped() != nil {
			return wrong("it reports an input or an output, but its operation has none")
		}
		return nil
	case state != lifecycle.JobFailed && (len(j.GetSplit()) > 0 || j.GetSkipped() != nil):
		return wrong("it is %s, but only the input of failed jobs is split or skipped", state)
	case len(j.GetSplit()) > 0 && j.GetSkipped() != nil:
		return wrong("its input is both split and skipped")
	}
	given := o.tasks[task].slices[a.GetCookie()].GetSlices()
	if in := j.GetInput(); in != nil && state == lifecycle.JobCompleted && !j.GetRerun() {
		if !sameBytes(given, in.GetProcessed(), in.GetRest()) {
			return wrong("it has read %s and leaves %s, but was given %s", slicesText(in.GetProcessed()), slicesText(in.GetRest()), slicesText(given))
		}
	}
	if len(j.GetSplit()) > 0 {
		parts := make([][]*statepb.Slice, len(j.GetSplit()))
		for i, part := range j.GetSplit() {
			if parts[i] = part.GetSlices(); len(filled(parts[i])) == 0 {
				return wrong("its input is split, but part %d is empty", i)
			}
		}
		if !sameBytes(given, parts...) {
			return wrong("its input is split into %s, but it was given %s", slicesText(slices.Concat(parts...)), slicesText(given))
		}
	}
	if r := j.GetSkipped(); r != nil {
		return o.checkSkipped(task, a, r, wrong)
	}
	return nil
}

// checkSkipped refuses to skip a record that is not in the job's input. It also refuses to skip
// more records than the operation may skip.
func (o *operation) checkSkipped(task int, a *statepb.Allocation, r *statepb.SkippedRecord, wrong func(string, ...any) *refusal) *refusal {
	if most := o.record.GetSpec().GetMap().GetMaxSkippedRecords(); o.record.GetTasks()[task].GetInput().GetSkippedRecords() >= most {
		return refuse(CodeTooManySkipped, "the job skips a record, but max_skipped_records, %d, is already used up", most)
	}
	given := o.tasks[task].slices[a.GetCookie()].GetSlices()
	if len(given) != 1 || given[0].GetFile() != r.GetFile() || r.GetBegin() < given[0].GetBegin() || r.GetBegin() >= given[0].GetEnd() || r.GetEnd() <= r.GetBegin() {
		return wrong("record [%d, %d) of input %d is skipped, but the job was given %s: split that first", r.GetBegin(), r.GetEnd(), r.GetFile(), slicesText(given))
	}
	return nil
}

// sameBytes reports whether the concatenated parts are the same bytes as the given
// slices, however they are cut.
func sameBytes(given []*statepb.Slice, parts ...[]*statepb.Slice) bool {
	var all []slicing.Slice
	for _, part := range parts {
		for _, s := range part {
			if s.GetBegin() > s.GetEnd() {
				return false
			}
		}
		all = append(all, plainSlices(part)...)
	}
	return slicing.Covers(plainSlices(given), nil, all)
}

// plainSlices converts slices to those of package slicing, without empty ones.
func plainSlices(records []*statepb.Slice) []slicing.Slice {
	all := make([]slicing.Slice, 0, len(records))
	for _, s := range filled(records) {
		all = append(all, slicing.Slice{File: s.GetFile(), Begin: s.GetBegin(), End: s.GetEnd()})
	}
	return all
}

// filled returns slices without empty ones.
func filled(records []*statepb.Slice) []*statepb.Slice {
	empty := func(s *statepb.Slice) bool { return s.GetBegin() == s.GetEnd() }
	if !slices.ContainsFunc(records, empty) {
		return records
	}
	return slices.DeleteFunc(slices.Clone(records), empty)
}

// slicesText formats slices for people: the number of the file, and the bytes.
type slicesText []*statepb.Slice

// String implements fmt.Stringer.
func (all slicesText) String() string {
	parts := make([]string, len(all))
	for i, s := range all {
		parts[i] = fmt.Sprintf("%d[%d, %d)", s.GetFile(), s.GetBegin(), s.GetEnd())
	}
	return "{" + strings.Join(parts, " ") + "}"
}

// lengthOf returns the total size of slices, in bytes.
func lengthOf(all []*statepb.Slice) (bytes int64) {
	for _, s := range all {
		bytes += s.GetEnd() - s.GetBegin()
	}
	return bytes
}

// take records the input and output of a job that completed for good. Unread input goes
// to a new cookie. edit has been called.
func (c jobChange) take(o *operation, task int, cookie scheduling.Cookie, j *statepb.FinishedJob) {
	w, progress := &o.tasks[task], o.record.GetTasks()[task].GetInput()
	read := w.slices[cookie].GetSlices()
	if in := j.GetInput(); in != nil {
		read = filled(in.GetProcessed())
		progress.Rows, progress.Hash = sum(progress.GetRows(), in.GetRows()), progress.GetHash()+in.GetHash()
	}
	progress.Bytes += lengthOf(read)
	w.addPart(&statepb.CompletedPart{Cookie: int32(cookie), Slices: read, Output: j.GetOutput()})
	w.setSlices(cookie, nil)
	if rest := filled(j.GetInput().GetRest()); len(rest) > 0 {
		c.grow(o, task, cookie, &statepb.Slices{Slices: rest})
	}
}

// split cuts the input of a failed job into parts. Its cookie keeps the first part; each other part
// goes to a new cookie. edit has been called.
func (c jobChange) split(o *operation, task int, cookie scheduling.Cookie, parts []*statepb.Slices) {
	o.tasks[task].setSlices(cookie, &statepb.Slices{Slices: filled(parts[0].GetSlices())})
	for _, part := range parts[1:] {
		c.grow(o, task, cookie, &statepb.Slices{Slices: filled(part.GetSlices())})
	}
}

// skip marks the record given to a failed job as skipped. edit has been called.
func (c jobChange) skip(o *operation, task int, cookie scheduling.Cookie, r *statepb.SkippedRecord) {
	t, w := o.record.GetTasks()[task], &o.tasks[task]
	read := w.slices[cookie].GetSlices()
	w.setSlices(cookie, nil)
	w.addPart(&statepb.CompletedPart{Cookie: int32(cookie), Slices: read})
	t.Input.Bytes += lengthOf(read)
	t.Input.SkippedRecords++
	told := shallow(r)
	told.Head = told.GetHead()[:min(len(told.GetHead()), maxHead)]
	told.Path = o.input.GetFiles()[r.GetFile()].GetPath()
	if len(t.GetSkipped()) < maxSkippedTold {
		t.Skipped = append(t.GetSkipped(), told)
		w.read += skippedBytes(told)
	}
	c.consequences = append(c.consequences, RecordSkipped{
		ID: o.id(), Task: scheduling.TaskName(t.GetName()), Cookie: cookie, Path: told.GetPath(), Record: told,
	})
}

// grow adds a cookie to a task for part of another cookie's input. The new cookie gets the reserve
// of the other cookie.
func (c jobChange) grow(o *operation, task int, from scheduling.Cookie, reads *statepb.Slices) {
	t, w := o.record.GetTasks()[task], &o.tasks[task]
	cookie := scheduling.Cookie(len(w.slices))
	w.setSlices(cookie, reads)
	move(t, "add job", (*lifecycle.Counters).Grow)
	if own := t.GetReserves()[int32(from)]; own != nil {
		t.Reserves[int32(cookie)] = own
	}
	group := groupOf(t, cookie)
	w.pending.add(group, cookie)
	c.touch(o, task, group)
}

// told drops fields that would make the record of a finished job long.
func told(j *statepb.FinishedJob) {
	j.Split = nil
	if in := j.GetInput(); len(in.GetProcessed())+len(in.GetRest()) > toldSlices {
		in = shallow(in)
		in.Processed, in.Rest = nil, nil
		j.Input = in
	}
}

// verifyInput checks that each byte of the input of an operation in progress is assigned
// to one cookie, or has been read by one, and that the bytes read are counted.
func (w *work) verifyInput(o *operation, t *statepb.Task) error {
	var b breach
	in, progress, total := o.input, t.GetInput(), t.GetCounters().GetTotal()
	b.when((progress != nil) != o.reads(), "it has input progress: %t, but the operation is of type %q", progress != nil, o.record.GetSpec().GetType())
	if !o.reads() || !o.state.InProgress() {
		b.when(len(w.slices) > 0 || len(w.parts) > 0, "%d slices and %d parts, but the operation has no input or has ended", len(w.slices), len(w.parts))
		return b.err
	}
	b.when(int64(len(w.slices)) != total, "%d cookies have slices, but the task has %d", len(w.slices), total)
	var all []*statepb.Slice
	for cookie, s := range w.slices {
		if done := w.completed.Contains(scheduling.Cookie(cookie)); done != (s == nil) {
			b.when(true, "cookie %d: completed: %t, reads %s", cookie, done, slicesText(s.GetSlices()))
		}
		all = append(all, s.GetSlices()...)
	}
	var read int64
	for _, part := range w.parts {
		if !w.completed.Contains(scheduling.Cookie(part.GetCookie())) {
			b.when(true, "cookie %d has read a part, but is not completed", part.GetCookie())
		}
		all = append(all, part.GetSlices()...)
		read += lengthOf(part.GetSlices())
	}
	b.when(int64(len(w.parts)) != w.completed.Len(), "%d parts, but %d completed cookies", len(w.parts), w.completed.Len())
	b.when(read != progress.GetBytes() || progress.GetBytesTotal() != in.GetBytes(),
		"%d of %d bytes have been read, but counted as %d of %d", read, in.GetBytes(), progress.GetBytes(), progress.GetBytesTotal())
	b.when(int64(len(t.GetSkipped())) > min(progress.GetSkippedRecords(), maxSkippedTold),
		"%d skipped records are listed, but %d have been counted", len(t.GetSkipped()), progress.GetSkippedRecords())
	return cmp.Or(b.err, checkCover(in, all))
}

// publishOutput records that the output of a map operation is at its final path, or why it could
// not be published. The operation cannot complete before its output is published.
func (c operationChange) publishOutput(what string, o *operation, m *commandpb.PublishOutput) *refusal {
	switch {
	case !o.reads():
		return refuse(CodeInvalidCommand, "%s: an operation of type %q has no output", what, o.record.GetSpec().GetType())
	case o.state != lifecycle.Completing:
		return refuse(CodeInvalidOperationState, "%s: it is %s, not completing", what, o.state)
	case o.record.GetOutput() != nil:
		return refuse(CodeInvalidOperationState, "%s: it has been published already", what)
	case len(o.allocations) > 0:
		return refuse(CodeAllocationsLeft, "%s: it has %d allocations, whose jobs may still write output: end them first", what, len(o.allocations))
	case m.GetError() != nil:
		c.fail(o, m.GetError(), NotePublicationFailed)
		return nil
	case m.GetOutput() == nil:
		return refuse(CodeInvalidCommand, "%s: neither an output nor an error is given", what)
	}
	c.edit(o)
	out := shallow(m.GetOutput())
	if out.GetTime() == nil {
		out.Time = c.timestamp()
	}
	o.record.Output = out
	c.note(o, NoteOutputPublished, map[string]string{"path": out.GetPath(), "rows": fmt.Sprint(out.GetRows()), "bytes": fmt.Sprint(out.GetBytes())})
	c.emit(OutputPublished{ID: o.id(), Output: out})
	return nil
}
