package client

import (
	"context"
	"errors"
	"slices"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// OperationStatistics returns the statistics of the finished jobs of an operation,
// aggregated, and advice on the memory to ask for.
func (c memoryCalls) OperationStatistics(ctx context.Context, req *apipb.OperationStatisticsRequest) (*apipb.OperationStatisticsResponse, error) {
	return call(ctx, c.task("show statistics"), apipbconnect.OperationServiceClient.Statistics, req)
}

// JobStatistics returns the statistics of a job.
func (c memoryCalls) JobStatistics(ctx context.Context, job string) (*apipb.JobStatisticsResponse, error) {
	return call(ctx, c.task("show statistics of job"), apipbconnect.JobServiceClient.Statistics, &apipb.JobStatisticsRequest{JobId: job})
}

// MemoryProfiles returns the memory profiles of finished operations, latest update first.
func (c memoryCalls) MemoryProfiles(ctx context.Context, req *apipb.MemoryProfilesRequest) (*apipb.MemoryProfilesResponse, error) {
	return call(ctx, c.task("list memory profiles"), apipbconnect.MemoryServiceClient.Profiles, req)
}

// ForgetMemoryProfiles removes profiles by their keys, and returns how many were removed.
func (c memoryCalls) ForgetMemoryProfiles(ctx context.Context, keys ...string) (forgotten int, err error) {
	t := c.task("forget memory profiles")
	t.settled = func(ctx context.Context) bool {
		return !slices.ContainsFunc(keys, func(key string) bool {
			_, err := c.MemoryProfiles(ctx, &apipb.MemoryProfilesRequest{Key: key})
			var refused *Error
			return !errors.As(err, &refused) || refused.Kind != connect.CodeNotFound
		})
	}
	return c.forget(ctx, t, &apipb.ForgetMemoryProfilesRequest{Keys: keys})
}

// ForgetAllMemoryProfiles removes all profiles, and returns how many there were.
func (c memoryCalls) ForgetAllMemoryProfiles(ctx context.Context) (forgotten int, err error) {
	t := c.task("forget memory profiles")
	t.settled = func(ctx context.Context) bool {
		left, err := c.MemoryProfiles(ctx, &apipb.MemoryProfilesRequest{Limit: 1})
		return err == nil && left.GetTotal() == 0
	}
	return c.forget(ctx, t, &apipb.ForgetMemoryProfilesRequest{All: true})
}

func (c memoryCalls) forget(ctx context.Context, t *task, req *apipb.ForgetMemoryProfilesRequest) (int, error) {
	res, err := call(ctx, t, apipbconnect.MemoryServiceClient.Forget, req)
	if err == nil && res.GetForgotten() == 0 {
		return len(req.GetKeys()), nil
	}
	return int(res.GetForgotten()), err
}
