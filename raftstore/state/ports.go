package state

import (
	"cmp"
	"fmt"
	"maps"

	"weir/messages/statepb"
	"weir/scheduling"
)

// maxPort is the last TCP port.
const maxPort = 65535

// checkPorts returns an error if the port range of a node is invalid.
func checkPorts(n *statepb.Node) error {
	first, count := int64(n.GetFirstPort()), int64(n.GetPortCount())
	switch {
	case count == 0 && first == 0:
	case count < 1 || first < 1 || first+count-1 > maxPort:
		return fmt.Errorf("%d ports from %d on: ports must be from 1 to %d", count, first, maxPort)
	}
	return nil
}

// freePorts returns the given number of free ports of the node, and the port at which the next
// search begins. It searches round robin, so that a port is reused as late as possible.
func (n *node) freePorts(count int) (ports []int32, next int32, ok bool) {
	first, total := n.record.GetFirstPort(), n.record.GetPortCount()
	if count > int(total) {
		return nil, 0, false
	}
	begin := n.record.GetNextPort() - first
	if begin < 0 || begin >= total {
		begin = 0
	}
	ports = make([]int32, 0, count)
	for i := int32(0); i < total && len(ports) < count; i++ {
		// The node's port range may have changed since the held ports were assigned.
		port := first + (begin+i)%total
		if n.ports[port] == "" {
			ports = append(ports, port)
		}
	}
	if len(ports) < count {
		return nil, 0, false
	}
	return ports, first + (ports[count-1]-first+1)%total, true
}

// grantPorts assigns ports to a grant; it is the last check that may refuse it.
func (n *node) grantPorts(what grantSubject, count int) ([]int32, *refusal) {
	if count == 0 {
		return nil, nil
	}
	ports, next, ok := n.freePorts(count)
	if !ok {
		return nil, refuse(CodeNoPorts, "%s: task %q needs %d TCP ports, but too few are free: the node has %d, and its jobs hold %d "+
			"(option --ports of its agent)", what, what.grant.GetTask(), count, n.record.GetPortCount(), len(n.ports))
	}
	record := shallow(n.record)
	record.NextPort = next
	n.record = record
	return ports, nil
}

// verifyPorts checks that each port of a node belongs to one job.
func (n *node) verifyPorts() error {
	var b breach
	held := make(map[int32]scheduling.JobID)
	for _, a := range byGrant(n.allocations) {
		for _, port := range a.GetPorts() {
			other, taken := held[port]
			b.when(taken || port < 1 || port > maxPort, "job %q has port %d, which is out of range or also held by job %q", a.GetJobId(), port, other)
			held[port] = scheduling.JobID(a.GetJobId())
		}
	}
	b.when(!maps.Equal(held, n.ports), "jobs have ports %v, but counted are %v", held, n.ports)
	return cmp.Or(b.err, checkPorts(n.record))
}
