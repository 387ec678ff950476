package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/chaos/history"
	"weir/messages/apipb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// asker is a user who keeps asking for what the user may not do, at all replicas.
type asker struct {
	*load
	user   string
	doors  []door
	random *rand.Rand
	// verbs are what the user asks for. It is about the operations in a pool, or in all pools if
	// pool is "".
	verbs []verb
	pool  string
	// count numbers its submissions.
	count int
}

// verb is a call that needs a right.
type verb struct {
	what, right string
	// of chooses what the call is about; nil if it is about the operation of a client.
	of func(a *asker) (target, bool)
	// on returns the name of that; nil if it is the operation.
	on  func(a *asker, t target) string
	ask func(ctx context.Context, a *asker, d door, t target) error
}

// askPace is the mean time between two calls of an asker.
const askPace = 250 * time.Millisecond

func (a *asker) run(ctx context.Context) error {
	for sleep(ctx, time.Duration(float64(askPace)*2*a.random.Float64())) == nil {
		v := a.verbs[a.random.IntN(len(a.verbs))]
		of := v.of
		if of == nil {
			of = func(a *asker) (target, bool) { return a.targets.pick(a.random, false, a.pool) }
		}
		if t, found := of(a); found {
			if err := a.ask(ctx, v, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask makes one call. The error is one of the journal.
func (a *asker) ask(ctx context.Context, v verb, t target) error {
	d := a.doors[a.random.IntN(len(a.doors))]
	asked := history.Ask{User: a.user, Replica: d.replica, What: v.what, Right: v.right, Pool: t.pool, On: t.operation}
	if v.on != nil {
		asked.On = v.on(a, t)
	}
	if v.what == history.Submit {
		a.count++
		asked.Mutation = a.mutation()
	}
	limited, cancel := context.WithTimeout(ctx, doorTimeout)
	defer cancel()
	asked.Called = history.Now()
	err := v.ask(limited, a, d, t)
	asked.Returned = history.Now()
	var code string
	asked.Outcome, code = answer(err)
	asked.Denied = code == state.CodeDenied
	if err != nil {
		asked.Error = err.Error()
	}
	return a.asks.Write(asked)
}

// mutation is the id of the latest submission.
func (a *asker) mutation() string { return fmt.Sprintf("%s-%d", a.user, a.count) }

// swingersAsk is what users ask for whose rights come and go.
var swingersAsk = []verb{start, start, update, update, update, abort}

// strangersAsk is what users ask for who have no rights.
var strangersAsk = []verb{
	start, update, abort,
	{what: history.Suspend, right: history.MayManage, ask: func(ctx context.Context, _ *asker, d door, t target) error {
		_, err := d.operations.Suspend(ctx, connect.NewRequest(&apipb.SuspendOperationRequest{Operation: t.operation}))
		return err
	}},
	{what: history.Complete, right: history.MayManage, ask: func(ctx context.Context, _ *asker, d door, t target) error {
		_, err := d.operations.Complete(ctx, connect.NewRequest(&apipb.CompleteOperationRequest{Operation: t.operation}))
		return err
	}},
	{what: history.ReadEvents, right: history.MayRead, ask: func(ctx context.Context, _ *asker, d door, t target) error {
		_, err := d.operations.Events(ctx, connect.NewRequest(&apipb.OperationEventsRequest{Operation: t.operation}))
		return err
	}},
	{what: history.AbortJob, right: history.MayManage, of: aJob, on: jobName, ask: func(ctx context.Context, _ *asker, d door, t target) error {
		_, err := d.jobs.Abort(ctx, connect.NewRequest(&apipb.AbortJobRequest{JobId: t.job}))
		return err
	}},
	{what: history.InterruptJob, right: history.MayManage, of: aJob, on: jobName, ask: func(ctx context.Context, _ *asker, d door, t target) error {
		_, err := d.jobs.Interrupt(ctx, connect.NewRequest(&apipb.InterruptJobRequest{JobId: t.job}))
		return err
	}},
	{what: history.CreatePool, right: history.MayAdminister, of: atRoot, ask: func(ctx context.Context, a *asker, d door, _ target) error {
		return editPools(ctx, d, &apipb.TreeEdit{Edit: &apipb.TreeEdit_Create{Create: &apipb.Pool{Name: a.user}}})
	}},
	{what: history.GiveRights, right: history.MayAdminister, of: atRoot, ask: func(ctx context.Context, a *asker, d door, _ target) error {
		given, err := structpb.NewStruct(map[string]any{"acl": rights{}.with("user:" + a.user).option()})
		if err != nil {
			return err
		}
		return editPools(ctx, d, &apipb.TreeEdit{Edit: &apipb.TreeEdit_Change{Change: &apipb.PoolChange{Name: pool(a.cfg.Clients), Options: given}}})
	}},
	{
		what: history.EditGroup, right: history.MayOperate, of: nothing, on: func(*asker, target) string { return crew(1) },
		ask: func(ctx context.Context, a *asker, d door, _ target) error {
			_, err := d.access.EditGroup(ctx, connect.NewRequest(&apipb.EditGroupRequest{Group: crew(1), Add: []string{a.user}}))
			return err
		},
	},
	{
		what: history.Drain, right: history.MayOperate, of: nothing, on: func(a *asker, _ target) string { return a.cfg.Agents[0] },
		ask: func(ctx context.Context, a *asker, d door, _ target) error {
			_, err := d.nodes.Drain(ctx, connect.NewRequest(&apipb.DrainNodeRequest{Node: a.cfg.Agents[0]}))
			return err
		},
	},
}

// What calls are about that are not about an operation.
func aJob(a *asker) (target, bool)      { return a.targets.pick(a.random, true, a.pool) }
func jobName(_ *asker, t target) string { return t.job }
func atRoot(*asker) (target, bool)      { return target{pool: string(scheduling.RootPool)}, true }
func nothing(*asker) (target, bool)     { return target{}, true }
func inPool(a *asker) (target, bool)    { return target{pool: a.poolOrAny()}, true }

// poolOrAny returns the pool of the asker, or that of a client.
func (a *asker) poolOrAny() string {
	if a.pool != "" {
		return a.pool
	}
	return pool(1 + a.random.IntN(a.cfg.Clients))
}

// askedWork is how long jobs of askers last.
const askedWork = leastWork

// What users ask for whether they have rights or not.
var (
	start = verb{what: history.Submit, right: history.MayUse, of: inPool, ask: func(ctx context.Context, a *asker, d door, t target) error {
		spec, err := a.cfg.spec(a.mutation(), t.pool, 1, askedWork)
		if err != nil {
			return err
		}
		_, err = d.operations.Start(ctx, connect.NewRequest(&apipb.StartRequest{Spec: spec, MutationId: a.mutation()}))
		return err
	}}
	update = verb{what: history.Update, right: history.MayManage, ask: func(ctx context.Context, a *asker, d door, t target) error {
		options, err := structpb.NewStruct(map[string]any{"weight": 1 + a.random.IntN(9)})
		if err != nil {
			return err
		}
		changes := []*apipb.OperationChange{{Options: options}}
		_, err = d.operations.Update(ctx, connect.NewRequest(&apipb.UpdateOperationRequest{Operation: t.operation, Changes: changes}))
		return err
	}}
	abort = verb{what: history.Abort, right: history.MayManage, ask: func(ctx context.Context, _ *asker, d door, t target) error {
		_, err := d.operations.Abort(ctx, connect.NewRequest(&apipb.AbortOperationRequest{Operation: t.operation, Reason: "somebody else wants it to end"}))
		return err
	}}
)

func editPools(ctx context.Context, d door, edit *apipb.TreeEdit) error {
	_, err := d.pools.Edit(ctx, connect.NewRequest(&apipb.EditTreeRequest{Edits: []*apipb.TreeEdit{edit}}))
	return err
}
