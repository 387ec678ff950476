package chaosrun

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"weir/actors/agent/journal"
	"weir/chaos/history"
	"weir/cmd/poll"
	"weir/cmd/weir/internal/devcluster"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/scheduling"
)

// journals reads the agents' journals while they are written: an agent rewrites its
// journal, without finished jobs, once it has grown.
type journals struct {
	out    *history.Writer
	agents []agentJournal
}

// agentJournal is the journal of one agent.
type agentJournal struct {
	node string
	// path is the journal's file while the cluster runs. kept is the path of that file
	// afterwards.
	path, kept string
	tail       journal.Tail
}

// openJournals prepares to read the journals of those members that are agents.
func openJournals(dir string, config devcluster.Config, members []devcluster.Member) (*journals, error) {
	out, err := history.Create(filepath.Join(dir, history.AgentFile))
	if err != nil {
		return nil, err
	}
	j := &journals{out: out}
	for _, m := range members {
		if m.Kind == devcluster.Agent {
			kept := filepath.Join(config.Preserve, m.Name, filepath.Base(m.Data), journal.FileName)
			j.agents = append(j.agents, agentJournal{node: m.Name, path: filepath.Join(m.Data, journal.FileName), kept: kept})
		}
	}
	return j, nil
}

// journalPeriod is how often journals are read. Between two reads a journal may be rewritten
// once; it does not grow fast enough to be rewritten twice.
const journalPeriod = 500 * time.Millisecond

// follow reads new records until ctx is done.
func (j *journals) follow(ctx context.Context) error {
	for poll.Pause(ctx, journalPeriod) == nil {
		for i := range j.agents {
			if err := j.read(&j.agents[i], j.agents[i].path); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish reads the remaining records after the cluster has stopped.
func (j *journals) finish() error {
	var errs []error
	for i := range j.agents {
		errs = append(errs, j.read(&j.agents[i], j.agents[i].kept), j.agents[i].tail.Close())
	}
	return errors.Join(append(errs, j.out.Close())...)
}

func (j *journals) read(a *agentJournal, path string) error {
	return a.tail.Read(path, func(record *journalpb.Record) error {
		for _, e := range entriesOf(a.node, record) {
			if err := j.out.Write(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// entriesOf returns the history entries for a record of a node's journal.
func entriesOf(node string, record *journalpb.Record) []history.Entry {
	e := history.Entry{Node: node}
	switch r := record.GetEvent().(type) {
	case *journalpb.Record_Woke:
		e.What = history.Woke
	case *journalpb.Record_Seen:
		e.What, e.Token = history.Seen, journalToken(r.Seen)
	case *journalpb.Record_Granted:
		g := r.Granted
		e.What, e.Operation, e.Task, e.Cookie, e.Attempt = history.Granted, g.GetOperationId(), g.GetTask(), int(g.GetCookie()), int(g.GetAttempt())
		e.Job, e.Token, e.Plan = g.GetJobId(), journalToken(g.GetToken()), journalToken(record.GetPlan())
	case *journalpb.Record_Starting:
		e.What, e.Job = history.Starting, r.Starting.GetJobId()
	case *journalpb.Record_Started:
		e.What, e.Job = history.Started, r.Started.GetJobId()
	case *journalpb.Record_Exited:
		e.What, e.Job, e.State = history.Exited, r.Exited.GetJob().GetJobId(), r.Exited.GetJob().GetState()
	case *journalpb.Record_Rejected:
		e.What, e.Job, e.Token, e.Seen = history.Rejected, r.Rejected.GetJobId(), journalToken(r.Rejected.GetToken()), journalToken(r.Rejected.GetSeen())
		e.Reason, e.From = r.Rejected.GetReason(), r.Rejected.GetFrom()
	case *journalpb.Record_Released:
		if !r.Released.GetUnstarted() {
			return nil
		}
		entries := make([]history.Entry, 0, len(r.Released.GetJobIds()))
		for _, job := range r.Released.GetJobIds() {
			entries = append(entries, history.Entry{Node: node, What: history.Unstarted, Job: job})
		}
		return entries
	default:
		return nil
	}
	return []history.Entry{e}
}

func journalToken(m *actorpb.Token) scheduling.Token {
	return scheduling.Token{Term: m.GetTerm(), Index: m.GetIndex()}
}
