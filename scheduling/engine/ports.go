package engine

import (
	"fmt"
	"time"

	"weir/scheduling"
)

// portsPause is how long no job of a task is tried on a node that had too few free TCP ports for one, and
// portsGrace how long none is preempted there for one. The engine does not know ports: whoever grants a job
// does.
const (
	portsPause = 10 * time.Second
	portsGrace = 2 * time.Minute
)

// portless names a node that had too few free ports for a job of a task.
type portless struct {
	node scheduling.NodeID
	task scheduling.TaskName
}

// LacksPorts takes back a start in flight that was refused because its node has too few free TCP ports. For
// some time no job of the task starts there, and for longer none is preempted there for one. It returns the
// node, which may have room for others now.
func (e *Engine) LacksPorts(ticket Ticket) (scheduling.NodeID, error) {
	h := e.holdings.inFlight[ticket]
	if h == nil {
		return "", fmt.Errorf("reject start %d: %w", ticket, ErrUnknown)
	}
	id, op := h.node.id, h.operation
	if op.portless == nil {
		op.portless = map[portless]time.Time{}
	}
	op.portless[portless{id, h.task.Name}] = e.moment.now
	op.order.SetGuarded(true)
	// What was held for it is for others.
	h.claimed = false
	return id, e.Reject(ticket)
}

// lacksPorts reports whether a node had too few free ports for a job of a task within a time, at most
// portsGrace.
func (op *operation) lacksPorts(n *node, task scheduling.TaskName, now time.Time, within time.Duration) bool {
	of := portless{n.id, task}
	at, noted := op.portless[of]
	if noted && now.Sub(at) >= portsGrace {
		delete(op.portless, of)
	}
	return noted && now.Sub(at) < within
}
