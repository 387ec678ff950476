package state

import (
	"fmt"

	"weir/messages/commandpb"
	"weir/scheduling/lifecycle"
)

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
