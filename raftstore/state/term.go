package state

import (
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// beginTerm fences off all leaders of earlier terms. The leader of the term may repeat the command,
// for instance if the outcome of the first one is unknown.
func (c *change) beginTerm(m *commandpb.BeginTerm) *refusal {
	last := c.term.GetTerm()
	repeated := m.GetTerm() == last && m.GetReplica() == c.term.GetReplica()
	switch {
	case m.GetTerm() == 0 || m.GetReplica() == "":
		return refuse(CodeInvalidCommand, "begin term: term %d of replica %q: both must be given", m.GetTerm(), m.GetReplica())
	case m.GetTerm() <= last && !repeated:
		return refuse(CodeStaleTerm, "begin term: term %d of replica %q is not after term %d of replica %q",
			m.GetTerm(), m.GetReplica(), last, c.term.GetReplica())
	case c.clusterID != "" && m.GetClusterId() != "" && m.GetClusterId() != c.clusterID:
		return refuse(CodeWrongCluster, "begin term: this is cluster %q, but replica %q belongs to %q: "+
			"start the replica with an empty folder or with the settings of this cluster", c.clusterID, m.GetReplica(), m.GetClusterId())
	}
	limits := c.limits
	if m.GetLimits() != nil {
		complete, refused := completeLimits(m.GetLimits())
		if refused != nil {
			return refused
		}
		limits = complete
	}
	if !proto.Equal(limits, c.limits) {
		c.limits = limits
		for _, o := range c.order {
			c.edit(o)
			c.trimHistory(o)
		}
	}
	if c.clusterID == "" {
		c.clusterID = m.GetClusterId()
	}
	if !repeated {
		c.term = &statepb.Term{Term: m.GetTerm(), Replica: m.GetReplica(), Time: c.timestamp()}
		c.emit(TermBegan{Term: m.GetTerm(), Replica: scheduling.ReplicaID(m.GetReplica())})
	}
	c.trimArchive()
	memoryChange{c}.trimProfiles()
	return nil
}
