package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/memory"
)

// memories implements MemoryService.
type memories struct{ *server }

// Profiles shows memory profiles of finished operations, latest update first: those whose last operation
// the caller may read, or all to those who may read all operations of the default tree.
func (s memories) Profiles(ctx context.Context, req *connect.Request[apipb.MemoryProfilesRequest]) (*connect.Response[apipb.MemoryProfilesResponse], error) {
	const what = "list memory profiles"
	limit, err := page(req.Msg.GetLimit(), what)
	if err != nil {
		return nil, err
	}
	var all []*statepb.MemoryProfile
	hidden := 0
	err = s.read(ctx, what, func(st *state.State) error {
		seen := askerOf(ctx).sight(st)
		missing := seen.Pool(seen.who, access.Read, "", scheduling.RootPool, "see memory profiles of others")
		if key := req.Msg.GetKey(); key != "" {
			p, ok := st.Profile(key)
			if !ok {
				p, ok = st.Profile(userOf(ctx) + ":" + key)
			}
			if !ok {
				return fail(connect.CodeNotFound, state.CodeUnknownProfile, "%s: no profile %q: no operation with this profile has finished, or the profile was removed", what, key)
			}
			if missing != nil && !seen.readsID(p.GetLastOperation()) {
				return denied(missing)
			}
			all = []*statepb.MemoryProfile{p}
			return nil
		}
		for _, p := range st.Profiles() {
			if missing != nil && !seen.readsID(p.GetLastOperation()) {
				hidden++
				continue
			}
			all = append(all, p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b *statepb.MemoryProfile) int {
		return cmp.Or(b.GetUpdatedTime().AsTime().Compare(a.GetUpdatedTime().AsTime()), cmp.Compare(a.GetKey(), b.GetKey()))
	})
	out := &apipb.MemoryProfilesResponse{Total: int32(len(all)), Hidden: int32(hidden)}
	for _, p := range all[:min(limit, len(all))] {
		shown, err := profileOf(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		out.Profiles = append(out.Profiles, shown)
	}
	return connect.NewResponse(out), nil
}

// profileOf shows a profile. The state replaces profiles and never modifies them, so this
// one may be read after View returns.
func profileOf(p *statepb.MemoryProfile) (*apipb.MemoryProfile, error) {
	used, err := memory.Decode(p.GetUserDigest())
	if err != nil {
		return nil, fmt.Errorf("memory profile %q: %w", p.GetKey(), err)
	}
	out := &apipb.MemoryProfile{
		Key: p.GetKey(), Task: p.GetTask(), Command: p.GetCommand(), Samples: p.GetSampleCount(), Operations: p.GetOperationCount(),
		MemoryLimit: p.GetMemoryLimit(), Reserve: p.GetReserve(), UpdatedTime: p.GetUpdatedTime(), LastOperation: p.GetLastOperation(),
	}
	out.P50, _ = used.Quantile(0.5)
	out.P95, _ = used.Quantile(memory.Quantile)
	return out, nil
}

// Forget removes profiles.
func (s memories) Forget(ctx context.Context, req *connect.Request[apipb.ForgetMemoryProfilesRequest]) (*connect.Response[apipb.ForgetMemoryProfilesResponse], error) {
	const what = "forget memory profiles"
	keys := slices.Compact(slices.Sorted(slices.Values(req.Msg.GetKeys())))
	switch {
	case req.Msg.GetAll() && len(keys) > 0:
		return nil, invalid("%s: give either keys or all, not both", what)
	case !req.Msg.GetAll() && len(keys) == 0:
		return nil, invalid("%s: keys are needed, or all", what)
	}
	forgotten := len(keys)
	if req.Msg.GetAll() {
		err := s.read(ctx, what, func(st *state.State) error {
			forgotten = len(st.Profiles())
			return nil
		})
		if err != nil || forgotten == 0 {
			return answer(&apipb.ForgetMemoryProfilesResponse{}, err)
		}
	}
	_, err := s.propose(ctx, what, &commandpb.RemoveMemoryProfiles{Keys: keys, User: userOf(ctx)})
	return answer(&apipb.ForgetMemoryProfilesResponse{Forgotten: int32(forgotten)}, err)
}

// memoryOf shows the memory reserve of a task's jobs and how it was learned; nil if
// nothing is recorded for the task yet.
func memoryOf(task *statepb.Task, described *statepb.TaskSpec) *apipb.TaskMemory {
	m := task.GetMemory()
	if m == nil {
		return nil
	}
	return &apipb.TaskMemory{
		Limit: described.GetMemoryLimit(), Reserve: reserveOf(m.GetReserve()), Samples: m.GetSampleCount(), Profile: m.GetProfile(),
		FromProfile: m.GetFromProfile(), Dedicated: int64(len(task.GetReserves())),
	}
}

// reserveOf shows the memory reserve of a job; nil if it is not known.
func reserveOf(r *statepb.JobReserve) *apipb.JobReserve {
	if r == nil {
		return nil
	}
	return &apipb.JobReserve{
		Total: r.GetUser() + r.GetProxy(), User: r.GetUser(), UserFactor: r.GetUserFactor(), Proxy: r.GetProxy(),
		ProxyFactor: r.GetProxyFactor(), ProxyEstimate: r.GetProxyEstimate(), Predecessor: r.GetPredecessor(),
	}
}

// checkTask returns an error if the operation has no task of this name. An empty name
// means all tasks.
func checkTask(what string, op *statepb.Operation, name string) error {
	if name == "" || describedTask(op, name) != nil {
		return nil
	}
	names := mapped(op.GetSpec().GetTasks(), (*statepb.TaskSpec).GetName)
	return fail(connect.CodeNotFound, state.CodeUnknownTask, "%s: operation %s has no task %q: it has %s", what, op.GetId(), name, strings.Join(names, ", "))
}

// describedTask returns the spec of a task; nil if the operation has none of this name.
func describedTask(op *statepb.Operation, name string) *statepb.TaskSpec {
	tasks := op.GetSpec().GetTasks()
	if i := slices.IndexFunc(tasks, func(t *statepb.TaskSpec) bool { return t.GetName() == name }); i >= 0 {
		return tasks[i]
	}
	return nil
}
