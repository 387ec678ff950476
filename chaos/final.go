package chaos

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"weir/api/client"
	"weir/chaos/history"
	"weir/messages/apipb"
	"weir/scheduling"
)

// page is how much is read at once: little enough for a try of a client of the run, at a busy replica too.
const page = 200

// readState records all that the cluster knows, by linearizable reads.
func readState(ctx context.Context, api *client.Client, journal *history.Writer) error {
	after := ""
	for {
		list, err := api.ListOperations(ctx, &apipb.ListOperationsRequest{Limit: page, After: after})
		if err != nil {
			return fmt.Errorf("final reads: %w", err)
		}
		for _, o := range list.GetOperations() {
			record, err := readOperation(ctx, api, o)
			if err != nil {
				return fmt.Errorf("final reads: %w", err)
			}
			if err := journal.Write(record); err != nil {
				return err
			}
			after = o.GetId()
		}
		if !list.GetIncomplete() {
			return nil
		}
	}
}

func readOperation(ctx context.Context, api *client.Client, o *apipb.Operation) (*history.Operation, error) {
	record := &history.Operation{ID: o.GetId(), Mutation: o.GetTitle(), User: o.GetUser(), State: o.GetState()}
	for _, t := range o.GetTasks() {
		record.Tasks = append(record.Tasks, history.Task{
			Name: t.GetName(), Total: t.GetTotal(), Pending: t.GetPending(), Running: t.GetRunning(),
			Completed: t.GetCompleted(), Failed: t.GetFailed(), Aborted: t.GetAborted(),
		})
	}
	events, err := api.OperationEvents(ctx, o.GetId())
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		record.Events = append(record.Events, history.Event{State: e.GetState(), Note: e.GetNote(), Index: e.GetIndex()})
	}
	for {
		list, err := api.ListJobs(ctx, &apipb.ListJobsRequest{Operation: o.GetId(), Limit: page, Offset: int32(len(record.Jobs))})
		if err != nil {
			return nil, err
		}
		for _, j := range list.GetJobs() {
			token, err := parseToken(j.GetToken())
			if err != nil {
				return nil, fmt.Errorf("job %s: %w", j.GetId(), err)
			}
			record.Jobs = append(record.Jobs, history.Job{
				ID: j.GetId(), Task: j.GetTask(), Cookie: int(j.GetCookie()), Attempt: int(j.GetAttempt()), Node: j.GetNode(),
				State: j.GetState(), Reason: j.GetAbortReason(), Token: token,
			})
		}
		if len(list.GetJobs()) == 0 || len(record.Jobs) >= int(list.GetTotal()) {
			return record, nil
		}
	}
}

// readDeeds records the events that name a user, as far as a replica has the event log.
func readDeeds(ctx context.Context, api *client.Client, journal, acts *history.Writer) error {
	for e, err := range api.ReadEvents(ctx, &apipb.ReadEventsRequest{}) {
		switch {
		case client.CodeOf(err) == apipb.CodeEventsGone || client.CodeOf(err) == apipb.CodeEventsMissing:
			return acts.Write(history.Act{What: history.Unread, At: history.Now(), Error: err.Error()})
		case err != nil:
			return fmt.Errorf("final reads: %w", err)
		case e.GetUser() == "":
			continue
		}
		deed := history.Deed{
			User: e.GetUser(), Kind: e.GetKind(), Index: e.GetIndex(), Operation: e.GetOperation(), Pool: e.GetPool(), On: cmp.Or(e.GetJob(), e.GetNode()),
		}
		if err := journal.Write(deed); err != nil {
			return err
		}
	}
	return nil
}

// hashPatience is how long replicas may take to tell a hash for the same index: many times the period
// at which they compare their states.
const hashPatience = 30 * time.Second

// readHashes records hashes of the replicas' states until all have told one for the same index.
func readHashes(ctx context.Context, api *client.Client, replicas []string, journal *history.Writer) error {
	told := make(map[uint64]map[string]bool)
	silent := make(map[string]bool)
	for _, name := range replicas {
		silent[name] = true
	}
	for end := time.Now().Add(hashPatience); time.Now().Before(end); {
		for _, answer := range api.StatusAll(ctx) {
			st := answer.Status
			if answer.Err != nil || st.GetHashedIndex() == 0 || told[st.GetHashedIndex()][st.GetReplica()] {
				continue
			}
			at := told[st.GetHashedIndex()]
			if at == nil {
				at = make(map[string]bool)
				told[st.GetHashedIndex()] = at
			}
			at[st.GetReplica()] = true
			delete(silent, st.GetReplica())
			if err := journal.Write(history.StateHash{Replica: st.GetReplica(), Index: st.GetHashedIndex(), Hash: hex.EncodeToString(st.GetStateHash())}); err != nil {
				return err
			}
			if len(at) == len(replicas) {
				return nil
			}
		}
		if err := sleep(ctx, lookPeriod); err != nil {
			return err
		}
	}
	for name := range silent {
		if err := journal.Write(history.StateHash{Replica: name}); err != nil {
			return err
		}
	}
	return nil
}

// heldPatience is how long nodes and pools may take to show that the last operation has ended.
// They do so at once unless the machine is busy.
const heldPatience = time.Minute

// readHeld records what nodes and pools still hold after heldPatience.
func readHeld(ctx context.Context, api *client.Client, nodes []string, journal *history.Writer) error {
	for end := time.Now().Add(heldPatience); ; {
		held, err := heldNow(ctx, api, nodes)
		switch {
		case err != nil:
			return fmt.Errorf("final reads: %w", err)
		case len(held) > 0 && time.Now().Before(end):
			if err := sleep(ctx, lookPeriod); err != nil {
				return err
			}
			continue
		}
		for _, h := range held {
			if err := journal.Write(h); err != nil {
				return err
			}
		}
		return nil
	}
}

// heldNow returns what nodes and pools hold now.
func heldNow(ctx context.Context, api *client.Client, nodes []string) ([]history.Held, error) {
	var held []history.Held
	for _, name := range nodes {
		node, err := api.GetNode(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, j := range node.GetJobs() {
			held = append(held, history.Held{Who: "node " + name, What: "job " + j.GetId()})
		}
	}
	trees, err := api.ListTrees(ctx)
	if err != nil {
		return nil, err
	}
	for _, tree := range trees.GetTrees() {
		pools, err := api.ListPools(ctx, tree.GetName())
		if err != nil {
			return nil, err
		}
		for _, p := range pools.GetPools() {
			if count, slots := p.GetOperationCount(), p.GetUsage().GetUserSlots(); count != 0 || slots != 0 {
				held = append(held, history.Held{Who: "pool " + p.GetName(), What: fmt.Sprintf("%d operations and %d user slots", count, slots)})
			}
		}
	}
	return held, nil
}

// parseToken reads the token of a job; an empty one is zero.
func parseToken(text string) (scheduling.Token, error) {
	var t scheduling.Token
	if text == "" {
		return t, nil
	}
	if _, err := fmt.Sscanf(text, "%d:%d", &t.Term, &t.Index); err != nil {
		return t, fmt.Errorf("token %q is not term:index: %w", text, err)
	}
	return t, nil
}

// grantPeriod is how often running jobs are read.
const grantPeriod = 400 * time.Millisecond

// watchGrants records each job of the nodes once, until ctx is done. Jobs that begin and end
// between two reads are missed.
func watchGrants(ctx context.Context, api *client.Client, nodes []string, journal *history.Writer, score *score, targets *targets) {
	seen := make(map[string]bool)
	for sleep(ctx, grantPeriod) == nil {
		running := 0
		for _, node := range nodes {
			limited, cancel := context.WithTimeout(ctx, callTimeout)
			res, err := api.GetNode(limited, node)
			cancel()
			if err != nil {
				continue
			}
			running += len(res.GetJobs())
			for _, j := range res.GetJobs() {
				if seen[j.GetId()] {
					continue
				}
				seen[j.GetId()] = true
				targets.addJob(j.GetId(), j.GetOperationId())
				g := history.Grant{
					Operation: j.GetOperationId(), Task: j.GetTask(), Cookie: int(j.GetCookie()), Attempt: int(j.GetAttempt()), Job: j.GetId(), Node: node,
				}
				if g.Token, err = parseToken(j.GetToken()); err != nil || g.Token.IsZero() {
					continue
				}
				if journal.Write(g) != nil {
					// The writer keeps the error for the end of the run.
					return
				}
			}
		}
		score.change(func(p *Progress) { p.Jobs = running })
	}
}
