package client

import (
	"context"
	"slices"
	"strings"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// WhoAmI returns who the caller is to the cluster, and which rights pools give to the caller.
func (c *Client) WhoAmI(ctx context.Context) (*apipb.WhoAmIResponse, error) {
	return call(ctx, c.task("who am I"), apipbconnect.AccessServiceClient.WhoAmI, &apipb.WhoAmIRequest{})
}

// MayI returns whether the caller has a right on a pool or an operation, and if not, why.
func (c *Client) MayI(ctx context.Context, req *apipb.MayIRequest) (*apipb.MayIResponse, error) {
	return call(ctx, c.task("may I"), apipbconnect.AccessServiceClient.MayI, req)
}

// Groups returns a group; all groups if name is empty.
func (c *Client) Groups(ctx context.Context, name string) ([]*apipb.Group, error) {
	res, err := call(ctx, c.task("show groups"), apipbconnect.AccessServiceClient.Groups, &apipb.GroupsRequest{Name: name})
	return res.GetGroups(), err
}

// EditGroup changes the users of a group, creates it or removes it. If a try gets no answer and a
// later one is refused, the call still succeeds if the group already is as wanted.
func (c *Client) EditGroup(ctx context.Context, req *apipb.EditGroupRequest) error {
	all := func(ctx context.Context, _ string) (*apipb.GroupsResponse, error) {
		return call(ctx, c.task("show groups"), apipbconnect.AccessServiceClient.Groups, &apipb.GroupsRequest{})
	}
	t, _ := settledBy(c.task("edit group"), all, "", func(now *apipb.GroupsResponse) bool { return groupEdited(now.GetGroups(), req) })
	return do(ctx, t, apipbconnect.AccessServiceClient.EditGroup, req)
}

// Accounts returns as whom subjects may have jobs run.
func (c *Client) Accounts(ctx context.Context) (*apipb.AccountsResponse, error) {
	return call(ctx, c.task("show accounts"), apipbconnect.AccessServiceClient.Accounts, &apipb.AccountsRequest{})
}

// EditAccounts changes as whom a subject may have jobs run. If a try gets no answer and a later one is
// refused, the call still succeeds if the grants already are as wanted.
func (c *Client) EditAccounts(ctx context.Context, req *apipb.EditAccountsRequest) error {
	all := func(ctx context.Context, _ string) (*apipb.AccountsResponse, error) { return c.Accounts(ctx) }
	t, _ := settledBy(c.task("edit accounts"), all, "", func(now *apipb.AccountsResponse) bool { return accountsEdited(now, req) })
	return do(ctx, t, apipbconnect.AccessServiceClient.EditAccounts, req)
}

// accountsEdited reports whether nothing is left to take away of what the request takes away. A
// repeated grant is not refused.
func accountsEdited(now *apipb.AccountsResponse, req *apipb.EditAccountsRequest) bool {
	for _, a := range now.GetAccounts() {
		if a.GetSubject() != req.GetSubject() {
			continue
		}
		all := len(req.GetAccounts()) == 0 && len(req.GetGroups()) == 0 && !req.GetIsolationNone()
		left := func(held, gone []string) bool {
			return slices.ContainsFunc(gone, func(name string) bool { return slices.Contains(held, name) })
		}
		return !all && req.GetDisallow() && !left(a.GetAccounts(), req.GetAccounts()) && !left(a.GetGroups(), req.GetGroups()) && (!req.GetIsolationNone() || !a.GetIsolationNone())
	}
	return req.GetDisallow()
}

// Revocations returns the certificates that are no longer accepted.
func (c *Client) Revocations(ctx context.Context) (*apipb.RevocationsResponse, error) {
	return call(ctx, c.task("show revocations"), apipbconnect.AccessServiceClient.Revocations, &apipb.RevocationsRequest{})
}

// Revoke has certificates no longer accepted, or accepted again. If a try gets no answer and a later
// one is refused, the call still succeeds if the certificates are accepted again as wanted.
func (c *Client) Revoke(ctx context.Context, req *apipb.RevokeRequest) (*apipb.RevokeResponse, error) {
	all := func(ctx context.Context, _ string) (*apipb.RevocationsResponse, error) { return c.Revocations(ctx) }
	t, _ := settledBy(c.task("revoke certificates"), all, "", func(now *apipb.RevocationsResponse) bool {
		return req.GetLift() && !slices.ContainsFunc(now.GetRevocations(), func(r *apipb.Revocation) bool { return revokes(r, req) })
	})
	return call(ctx, t, apipbconnect.AccessServiceClient.Revoke, req)
}

// revokes reports whether a revocation is about the certificates of a request. Serial numbers are
// kept without leading zeros, in small letters.
func revokes(r *apipb.Revocation, req *apipb.RevokeRequest) bool {
	serial := strings.TrimLeft(strings.ToLower(req.GetSerial()), "0")
	return r.GetSerial() == serial && strings.EqualFold(r.GetRole(), req.GetRole()) && r.GetName() == req.GetName()
}

// Stores returns the named object stores, without their secret keys.
func (c *Client) Stores(ctx context.Context) (*apipb.StoresResponse, error) {
	return call(ctx, c.task("show stores"), apipbconnect.AccessServiceClient.Stores, &apipb.StoresRequest{})
}

// EditStore makes an object store, changes it or removes it. If a try gets no answer and a later one is
// refused, the call still succeeds if the store has been made or removed by then.
func (c *Client) EditStore(ctx context.Context, req *apipb.EditStoreRequest) error {
	all := func(ctx context.Context, _ string) (*apipb.StoresResponse, error) { return c.Stores(ctx) }
	t, _ := settledBy(c.task("edit store"), all, "", func(now *apipb.StoresResponse) bool {
		there := slices.ContainsFunc(now.GetStores(), func(o *apipb.NamedStore) bool { return o.GetName() == req.GetStore().GetName() })
		return req.GetCreate() && there || req.GetDelete() && !there
	})
	return do(ctx, t, apipbconnect.AccessServiceClient.EditStore, req)
}

// groupEdited reports whether a group already is as the request wants it.
func groupEdited(now []*apipb.Group, req *apipb.EditGroupRequest) bool {
	users := make(map[string]bool)
	found := false
	for _, group := range now {
		if group.GetName() == req.GetGroup() {
			found = true
			for _, user := range group.GetUsers() {
				users[user] = true
			}
		}
	}
	if found == req.GetDelete() {
		return false
	}
	for _, user := range req.GetAdd() {
		if !users[user] {
			return false
		}
	}
	for _, user := range req.GetRemove() {
		if users[user] {
			return false
		}
	}
	return true
}
