package api

import (
	"context"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// leavingNamed is how many of the instances that have to leave a list of services names.
const leavingNamed = 10

// Services lists the services that the caller may read, latest start first.
func (s operations) Services(ctx context.Context, req *connect.Request[apipb.ServicesRequest]) (*connect.Response[apipb.ServicesResponse], error) {
	const what = "list services"
	m := req.Msg
	limit, err := page(m.GetLimit(), what)
	if err != nil {
		return nil, err
	}
	before := uint64(0)
	err = s.read(ctx, what, func(st *state.State) error {
		after, known := state.NumberOf(st, scheduling.OperationID(m.GetAfter()))
		if before = after; m.GetAfter() != "" && !known {
			return fail(connect.CodeNotFound, state.CodeUnknownOperation, "%s: no operation %q to continue after: start again without it", what, m.GetAfter())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	of := serving{request: m, limit: limit, left: s.cfg.Limits.AnswerBytes, out: &apipb.ServicesResponse{}}
	s.latestFirst(before, operationsSearched, true, func(st *state.State, some []*statepb.Operation) bool {
		err = of.add(askerOf(ctx).sight(st), some)
		return err == nil && !of.out.GetIncomplete()
	})
	if err != nil {
		return nil, err
	}
	for i, service := range of.out.GetServices() {
		seen, err := s.instances(ctx, what, service.GetOperation().GetId(), "")
		if err != nil {
			return nil, err
		}
		addInstances(service, of.tasks[i], seen)
	}
	shown := mapped(of.out.GetServices(), (*apipb.Service).GetOperation)
	return answer(of.out, s.addShares(ctx, what, shown...))
}

// serving is a list of services in the making.
type serving struct {
	request *apipb.ServicesRequest
	// limit is how many services it may have; left, how many bytes more.
	limit, left int
	out         *apipb.ServicesResponse
	// tasks are the names of the serving tasks of each service.
	tasks [][]string
}

// add adds those of some operations that are services, that the request selects and that the caller may read.
// It sets Incomplete if there are more than fit.
func (l *serving) add(seen sight, some []*statepb.Operation) error {
	for _, op := range some {
		tasks := servingTasks(op)
		if len(tasks) == 0 || !seen.reads(op) || !l.selects(op) {
			continue
		}
		shown, err := operationOf(op, false)
		if err != nil {
			return err
		}
		l.left -= proto.Size(shown)
		if n := len(l.out.GetServices()); n == l.limit || n > 0 && l.left < 0 {
			l.out.Incomplete = true
			return nil
		}
		service := &apipb.Service{Operation: shown}
		for _, t := range shown.GetTasks() {
			if slices.Contains(tasks, t.GetName()) {
				service.Wanted += t.GetPending() + t.GetRunning()
			}
		}
		l.out.Services, l.tasks = append(l.out.Services, service), append(l.tasks, tasks)
	}
	return nil
}

func (l *serving) selects(op *statepb.Operation) bool {
	m, spec := l.request, op.GetSpec()
	return (m.GetPool() == "" || inPool(op, m.GetPool())) && (m.GetUser() == "" || m.GetUser() == op.GetUser()) &&
		slices.ContainsFunc([]string{op.GetId(), spec.GetTitle(), spec.GetAlias()}, func(text string) bool { return strings.Contains(text, m.GetFilter()) })
}

// servingTasks returns the names of the tasks whose jobs can be reached: those with ports or a readiness check.
func servingTasks(op *statepb.Operation) (names []string) {
	for _, t := range op.GetSpec().GetTasks() {
		if t.GetPortCount() > 0 || t.GetReadiness() != nil {
			names = append(names, t.GetName())
		}
	}
	return names
}

// addInstances adds the figures of the instances of some tasks.
func addInstances(service *apipb.Service, tasks []string, seen *actorpb.Instances) {
	for _, in := range instancesOf(seen) {
		if in.GetState() == actorpb.InstanceGone || !slices.Contains(tasks, in.GetTask()) {
			continue
		}
		service.Running++
		if in.GetReady() {
			service.Ready++
		}
		if in.GetState() == actorpb.InstanceDraining {
			service.Draining++
			service.Leaving = append(service.Leaving, in)
		}
	}
	slices.SortStableFunc(service.GetLeaving(), byDeadline)
	service.Leaving = service.Leaving[:min(len(service.Leaving), leavingNamed)]
}

// byDeadline orders instances by when they have to leave; those without a deadline come last.
func byDeadline(a, b *apipb.Instance) int {
	switch {
	case a.GetDeadline() == nil && b.GetDeadline() == nil:
		return 0
	case a.GetDeadline() == nil:
		return 1
	case b.GetDeadline() == nil:
		return -1
	}
	return a.GetDeadline().AsTime().Compare(b.GetDeadline().AsTime())
}
