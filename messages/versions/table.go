package versions

// Row is something that is newer than version 1 of the cluster.
type Row struct {
	// Name is the full name of a message, which stands for all of its fields, or of a field; or a name
	// with a space of what is neither.
	Name string
	// Since is the version of the cluster from which on it is written.
	Since uint32
	// Before says what happens instead in clusters of an earlier version.
	Before string
	// Told things are written at every version, since readers that do not know them skip them and lose
	// nothing: what a process says of itself.
	Told bool
}

// rows is the table.
var rows = []Row{
	{Name: "weir.command.v1.RaiseVersion", Since: 2, Before: "the command that raises the version is the only one that is applied before its version"},
	{Name: "weir.command.v1.CheckState", Since: 2, Before: "replicas do not compare their states"},
	{Name: "weir.command.v1.Entry.version", Since: 2, Before: "entries have no version: every program reads them"},
	{Name: "weir.state.v1.SnapshotHeader.version", Since: 2, Before: "snapshots and backups have no version and format 2"},
	{Name: "format 3 of snapshots and backups", Since: 2, Before: "format 2"},
	{Name: "format 2 in replica.json", Since: 2, Before: "format 1"},
	{Name: "tag 12 of gossip members", Since: 2, Before: "a replica that does not say what it can works with version 1", Told: true},
	{Name: "tag 13 of gossip members", Since: 2, Before: "a replica that does not say its version has 1", Told: true},
	{Name: "tags 14 and 15 of gossip members", Since: 2, Before: "no CheckState asks for a hash"},
	{Name: "weir.actor.v1.RegisterAgent.can", Since: 2, Before: "an agent that does not say what it can works with version 1", Told: true},
	{Name: "weir.actor.v1.NodeView.can", Since: 2, Before: "it stays on the leader's board", Told: true},
	{Name: "weir.actor.v1.SchedulerViewRequest.agents", Since: 2, Before: "an older leader answers with its view, without agents", Told: true},
	{Name: "weir.actor.v1.SchedulerViewRequest.reports", Since: 2, Before: "an older leader answers with its view, which has the reports of all nodes", Told: true},
	{Name: "weir.actor.v1.SchedulerViewRequest.without_nodes", Since: 2, Before: "an older leader answers with its view, with nodes", Told: true},
	{Name: "weir.actor.v1.SchedulerView.agents", Since: 2, Before: "what agents can is not known", Told: true},
	{Name: "weir.actor.v1.AgentProgram", Since: 2, Before: "what agents can is not known", Told: true},
	{Name: "weir.command.v1.SetPace", Since: 2, Before: "the heartbeat period and the lease are those that the leader was started with"},
	{Name: "weir.state.v1.Pace", Since: 2, Before: "the same"},
	{Name: "weir.state.v1.SnapshotHeader.pace", Since: 2, Before: "the same"},
	{Name: "weir.actor.v1.HeartbeatAck.lease_millis", Since: 2, Before: "what the agent was told when it registered, which does not change", Told: true},
	{Name: "weir.actor.v1.HeartbeatAck.heartbeat_millis", Since: 2, Before: "the same", Told: true},
	{Name: "weir.actor.v1.AgentRegistered.takes_changes", Since: 2, Before: "an agent that is not told so lists all jobs in each heartbeat", Told: true},
	{Name: "weir.actor.v1.Heartbeat.only_changes", Since: 2, Before: "all jobs are in each heartbeat, as a leader expects that does not say takes_changes", Told: true},
	{Name: "weir.actor.v1.Heartbeat.gone", Since: 2, Before: "the same", Told: true},
}
