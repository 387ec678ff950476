package events

import (
	"strconv"

	"weir/messages/eventpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// tellWork adds events about reserves, gangs, skipped records, outputs and memory profiles.
func (c *telling) tellWork(event state.Event) {
	switch e := event.(type) {
	case state.ReserveMoved:
		c.add(c.ofTask(ReserveMoved, e.ID, e.Task, map[string]string{
			"memory_before": number(e.From), "memory": number(e.To), "samples": number(e.Samples),
		}))
	case state.GangRestarted:
		out := c.ofTask(GangIncarnation, e.ID, e.Task, map[string]string{"incarnation": number(e.Incarnation)})
		out.Job, out.Message = string(e.Job), e.Reason
		c.add(out)
	case state.RecordSkipped:
		out := c.ofTask(RecordSkipped, e.ID, e.Task, map[string]string{
			"path": e.Path, "begin": number(e.Record.GetBegin()), "end": number(e.Record.GetEnd()), "head": strconv.Quote(string(e.Record.GetHead())),
		})
		out.Cookie = int32(e.Cookie)
		c.add(out)
	case state.OutputPublished:
		c.add(c.ofTask(OutputPublished, e.ID, "", map[string]string{
			"path": e.Output.GetPath(), "rows": number(e.Output.GetRows()), "bytes": number(e.Output.GetBytes()),
		}))
	case state.ProfileSaved:
		c.add(c.ofTask(ProfileSaved, e.ID, e.Task, map[string]string{
			"profile": e.Profile.GetKey(), "samples": number(e.Profile.GetSampleCount()), "operations": number(e.Profile.GetOperationCount()),
		}))
	case state.ProfileRemoved:
		c.add(&eventpb.Event{Kind: ProfileRemoved, User: c.user(), Attributes: map[string]string{"profile": e.Key}})
	}
}

// ofTask returns an event with an operation's trees and pools, one of its tasks, and attributes.
func (c *telling) ofTask(kind string, id scheduling.OperationID, task scheduling.TaskName, attributes map[string]string) *eventpb.Event {
	e := c.ofOperation(kind, id)
	e.Task, e.Attributes = string(task), attributes
	return e
}

// rankOf returns the attributes for a job's rank in its gang.
func rankOf(a *statepb.Allocation) map[string]string {
	if a.GangRank == nil {
		return nil
	}
	return map[string]string{"gang_rank": number(int64(a.GetGangRank())), "gang_incarnation": number(a.GetGangIncarnation())}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
