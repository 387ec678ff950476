package api

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"weir/cluster/identity"
	"weir/cluster/vault"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/access"
)

// whoAndWhat implements AccessService.
type whoAndWhat struct{ *server }

// WhoAmI shows who the caller is, and the rights that pools give to the caller.
func (s whoAndWhat) WhoAmI(ctx context.Context, _ *connect.Request[apipb.WhoAmIRequest]) (*connect.Response[apipb.WhoAmIResponse], error) {
	by := askerOf(ctx)
	out := &apipb.WhoAmIResponse{User: by.Name, Role: by.Role.String(), Gateway: by.gateway}
	err := s.read(ctx, "who am I", func(st *state.State) error {
		rights := state.RightsIn(st)
		who := rights.Who(by.subject())
		out.Groups = who.Groups
		if mine := rights.AccountsOf(who); mine != nil {
			out.Accounts = accountsOf(mine)
		}
		for giver, list := range rights.Given() {
			given := &apipb.PoolRights{Tree: string(giver.Tree), Pool: string(giver.Pool)}
			for _, right := range access.Rights() {
				if list.Gives(right, who) {
					given.Rights = append(given.Rights, string(right))
				}
			}
			if len(given.GetRights()) > 0 {
				out.Rights = append(out.Rights, given)
			}
		}
		return nil
	})
	return answer(out, err)
}

// mayEdit says whether the caller may make edits of a tree, and if not, all that is lacking.
func (s whoAndWhat) mayEdit(ctx context.Context, edit *apipb.EditTreeRequest) (*connect.Response[apipb.MayIResponse], error) {
	command, err := s.editCommand(ctx, edit)
	if err != nil {
		return nil, err
	}
	out := &apipb.MayIResponse{}
	err = s.read(ctx, "may I", func(st *state.State) error {
		if _, err := findTree(st, "may I", edit.GetTree()); err != nil {
			return err
		}
		for _, missing := range state.RightsIn(st).Edits(askerOf(ctx).subject(), command) {
			if text := missing.Error(); !slices.Contains(out.Lacking, text) {
				out.Lacking = append(out.Lacking, text)
			}
		}
		out.Allowed = len(out.GetLacking()) == 0
		if !out.GetAllowed() {
			out.Reason = out.GetLacking()[0]
		}
		return nil
	})
	return answer(out, err)
}

// maxOperationsAsked bounds the operations about which one call asks: a page of a list.
const maxOperationsAsked = 1000

// mayAll says on which of several operations the caller does not have a right, and why.
func (s whoAndWhat) mayAll(ctx context.Context, right access.Right, operations []string) (*connect.Response[apipb.MayIResponse], error) {
	if len(operations) > maxOperationsAsked {
		return nil, invalid("may I: %d operations, the limit is %d", len(operations), maxOperationsAsked)
	}
	out := &apipb.MayIResponse{Refused: map[string]string{}}
	err := s.read(ctx, "may I", func(st *state.State) error {
		rights := state.RightsIn(st)
		who := rights.Who(askerOf(ctx).subject())
		for _, name := range operations {
			op, missing := find(st, name)
			if missing == nil {
				missing = rights.Operation(who, right, op, string(right))
			}
			if missing != nil {
				out.Refused[name] = said(missing)
			}
		}
		out.Allowed = len(out.GetRefused()) == 0
		if !out.GetAllowed() {
			out.Reason = fmt.Sprintf("%d of %d operations: see refused", len(out.GetRefused()), len(operations))
		}
		return nil
	})
	return answer(out, err)
}

// said returns the text of an error for clients, without its code.
func said(err error) string {
	var refused *connect.Error
	if errors.As(err, &refused) {
		return refused.Message()
	}
	return err.Error()
}

// MayI says whether the caller has a right on a pool or on operations, or may make edits of a tree.
func (s whoAndWhat) MayI(ctx context.Context, req *connect.Request[apipb.MayIRequest]) (*connect.Response[apipb.MayIResponse], error) {
	m := req.Msg
	if m.GetEdit() != nil {
		if m.GetRight() != "" || m.GetPool() != "" || m.GetOperation() != "" || m.GetTree() != "" || len(m.GetOperations()) > 0 {
			return nil, invalid("may I: give a right with a pool or an operation, or edits")
		}
		return s.mayEdit(ctx, m.GetEdit())
	}
	right, err := access.ParseRight(m.GetRight())
	if err != nil {
		return nil, invalid("may I: %v", err)
	}
	if several := m.GetOperations(); len(several) > 0 {
		if m.GetPool() != "" || m.GetOperation() != "" || m.GetTree() != "" {
			return nil, invalid("may I: give exactly one of pool, operation and operations")
		}
		return s.mayAll(ctx, right, several)
	}
	if (m.GetPool() == "") == (m.GetOperation() == "") {
		return nil, invalid("may I: give exactly one of pool, operation and operations")
	}
	out := &apipb.MayIResponse{}
	err = s.read(ctx, "may I", func(st *state.State) error {
		rights := state.RightsIn(st)
		who := rights.Who(askerOf(ctx).subject())
		var missing error
		if m.GetOperation() != "" {
			op, err := find(st, m.GetOperation())
			if err != nil {
				return err
			}
			missing = rights.Operation(who, right, op, string(right))
		} else {
			t, err := findTree(st, "may I", m.GetTree())
			if err != nil {
				return err
			}
			pool := scheduling.PoolName(m.GetPool())
			if !t.pools.Has(pool) {
				return fail(connect.CodeNotFound, state.CodeUnknownPool, "may I: tree %q has no pool %q", t.name, pool)
			}
			missing = rights.Pool(who, right, t.name, pool, fmt.Sprintf("%s pool %q", right, pool))
		}
		out.Allowed = missing == nil
		if missing != nil {
			out.Reason = missing.Error()
		}
		return nil
	})
	return answer(out, err)
}

// Groups shows groups, by name.
func (s whoAndWhat) Groups(ctx context.Context, req *connect.Request[apipb.GroupsRequest]) (*connect.Response[apipb.GroupsResponse], error) {
	out := &apipb.GroupsResponse{}
	err := s.read(ctx, "show groups", func(st *state.State) error {
		for _, group := range state.RightsIn(st).Groups() {
			if req.Msg.GetName() == "" || req.Msg.GetName() == group.GetName() {
				out.Groups = append(out.Groups, groupOf(group))
			}
		}
		if name := req.Msg.GetName(); name != "" && len(out.GetGroups()) == 0 {
			return fail(connect.CodeNotFound, state.CodeUnknownGroup, "show groups: there is no group %q", name)
		}
		return nil
	})
	return answer(out, err)
}

func groupOf(g *statepb.Group) *apipb.Group {
	return &apipb.Group{Name: g.GetName(), Users: g.GetUsers(), ModifiedTime: g.GetModifiedTime()}
}

// EditGroup changes the users of a group.
func (s whoAndWhat) EditGroup(ctx context.Context, req *connect.Request[apipb.EditGroupRequest]) (*connect.Response[apipb.EditGroupResponse], error) {
	m := req.Msg
	_, err := s.propose(ctx, "edit group", &commandpb.EditGroup{
		Group: m.GetGroup(), Add: m.GetAdd(), Remove: m.GetRemove(), Delete: m.GetDelete(), UnlessInOperations: !m.GetForce(), User: userOf(ctx),
	})
	return answer(&apipb.EditGroupResponse{}, err)
}

// Accounts shows as whom subjects may have jobs run.
func (s whoAndWhat) Accounts(ctx context.Context, _ *connect.Request[apipb.AccountsRequest]) (*connect.Response[apipb.AccountsResponse], error) {
	out := &apipb.AccountsResponse{}
	err := s.read(ctx, "show accounts", func(st *state.State) error {
		out.Accounts = mapped(state.RightsIn(st).Accounts(), accountsOf)
		return nil
	})
	return answer(out, err)
}

func accountsOf(a *statepb.Accounts) *apipb.Accounts {
	return &apipb.Accounts{
		Subject: a.GetSubject(), Accounts: a.GetAccounts(), Groups: a.GetGroups(), IsolationNone: a.GetIsolationNone(), ModifiedTime: a.GetModifiedTime(),
	}
}

// EditAccounts changes as whom a subject may have jobs run.
func (s whoAndWhat) EditAccounts(ctx context.Context, req *connect.Request[apipb.EditAccountsRequest]) (*connect.Response[apipb.EditAccountsResponse], error) {
	m := req.Msg
	_, err := s.propose(ctx, "edit accounts", &commandpb.EditAccounts{
		Subject: m.GetSubject(), Accounts: m.GetAccounts(), Groups: m.GetGroups(), IsolationNone: m.GetIsolationNone(), Disallow: m.GetDisallow(),
		User: userOf(ctx),
	})
	return answer(&apipb.EditAccountsResponse{}, err)
}

// Revocations shows the certificates that are no longer accepted.
func (s whoAndWhat) Revocations(ctx context.Context, _ *connect.Request[apipb.RevocationsRequest]) (*connect.Response[apipb.RevocationsResponse], error) {
	out := &apipb.RevocationsResponse{}
	err := s.read(ctx, "show revocations", func(st *state.State) error {
		out.Revocations = mapped(state.RightsIn(st).Revocations(), revocationOf)
		return nil
	})
	return answer(out, err)
}

func revocationOf(r *statepb.Revocation) *apipb.Revocation {
	return &apipb.Revocation{
		Serial: r.GetSerial(), Role: r.GetRole(), Name: r.GetName(), IssuedBefore: r.GetIssuedBefore(), Reason: r.GetReason(), User: r.GetUser(), Time: r.GetTime(),
	}
}

// maxRevokeReasonBytes bounds the reason of a revocation.
const maxRevokeReasonBytes = 1024

// Revoke has certificates no longer accepted. It refuses to revoke the certificate of its caller, who
// may be the last operator.
func (s whoAndWhat) Revoke(ctx context.Context, req *connect.Request[apipb.RevokeRequest]) (*connect.Response[apipb.RevokeResponse], error) {
	const what = "revoke certificates"
	m := req.Msg
	r := &statepb.Revocation{Serial: strings.ToLower(m.GetSerial()), Role: m.GetRole(), Name: m.GetName(), Reason: m.GetReason()}
	by := askerOf(ctx)
	switch {
	case (m.GetSerial() == "") == (m.GetRole() == "" && m.GetName() == ""), (m.GetRole() == "") != (m.GetName() == ""):
		return nil, invalid("%s: give either serial, or role and name", what)
	case len(m.GetReason()) > maxRevokeReasonBytes:
		return nil, invalid("%s: reason: it has %d bytes, the limit is %d", what, len(m.GetReason()), maxRevokeReasonBytes)
	case m.GetSerial() != "":
		if _, err := hex.DecodeString(strings.Repeat("0", len(r.GetSerial())%2) + r.GetSerial()); err != nil || len(r.GetSerial()) > 40 {
			return nil, invalid("%s: serial %q: must be at most 40 hexadecimal digits", what, m.GetSerial())
		}
		r.Serial = strings.TrimLeft(r.GetSerial(), "0")
	default:
		role, err := identity.ParseRole(m.GetRole())
		if err == nil {
			err = identity.Identity{Cluster: s.cfg.Cluster, Role: role, Name: m.GetName()}.Validate()
		}
		if err != nil {
			return nil, invalid("%s: %v", what, err)
		}
		r.Role = role.String()
	}
	if own := by.Role.String() == r.GetRole() && by.Name == r.GetName() || by.serial != "" && by.serial == r.GetSerial(); own && !m.GetLift() {
		return nil, fail(connect.CodeFailedPrecondition, state.CodeInvalidRevocation,
			"%s: it is the certificate with which you ask: let another operator revoke it, so that an operator is left", what)
	}
	_, err := s.propose(ctx, what, &commandpb.Revoke{Revocation: r, Lift: m.GetLift(), User: userOf(ctx)})
	return answer(&apipb.RevokeResponse{Revocation: revocationOf(r)}, err)
}

// Stores shows the object stores whose credentials operations may use, by name, without secret keys.
func (s whoAndWhat) Stores(ctx context.Context, _ *connect.Request[apipb.StoresRequest]) (*connect.Response[apipb.StoresResponse], error) {
	out := &apipb.StoresResponse{}
	err := s.read(ctx, "show stores", func(st *state.State) error {
		out.Stores = mapped(state.StoresIn(st).All(), func(o *statepb.Store) *apipb.NamedStore {
			return &apipb.NamedStore{
				Name: o.GetName(), Endpoint: o.GetEndpoint(), Region: o.GetRegion(), AccessKey: o.GetAccessKey(),
				Prefixes: o.GetPrefixes(), Pools: o.GetPools(), Tree: o.GetTree(), ModifiedTime: o.GetModifiedTime(),
			}
		})
		return nil
	})
	return answer(out, err)
}

// maxKeyBytes bounds the keys of a store.
const maxKeyBytes = 512

// EditStore makes an object store, changes it or removes it. Its secret key is sealed here.
func (s whoAndWhat) EditStore(ctx context.Context, req *connect.Request[apipb.EditStoreRequest]) (*connect.Response[apipb.EditStoreResponse], error) {
	const what = "edit store"
	m, given := req.Msg, req.Msg.GetStore()
	store := &statepb.Store{Name: given.GetName(), Endpoint: given.GetEndpoint(), Region: given.GetRegion(), AccessKey: given.GetAccessKey(), Pools: given.GetPools(), Tree: given.GetTree()}
	if endpoint, err := url.Parse(given.GetEndpoint()); given.GetEndpoint() != "" &&
		(err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.User != nil || strings.Trim(endpoint.Path, "/") != "") {
		return nil, invalid("%s: endpoint: write http://HOST:PORT or https://HOST:PORT, without a path or a user", what)
	}
	if len(given.GetAccessKey()) > maxKeyBytes || len(m.GetSecretKey()) > maxKeyBytes {
		return nil, invalid("%s: a key has more than %d bytes, the limit", what, maxKeyBytes)
	}
	for _, prefix := range given.GetPrefixes() {
		store.Prefixes = append(store.Prefixes, strings.TrimRight(prefix, "/"))
	}
	if m.GetCreate() && len(store.GetPools()) == 0 {
		store.Pools = []string{string(scheduling.RootPool)}
	}
	if m.GetSecretKey() != "" {
		sealed, err := s.cfg.Vault.Seal(vault.OfStore(store.GetName()), map[string]string{vault.SecretKey: m.GetSecretKey()})
		if err != nil {
			return nil, fail(connect.CodeFailedPrecondition, apipb.CodeNoVaultKey, "%s: %v", what, err)
		}
		store.Sealed = sealed
	}
	_, err := s.propose(ctx, what, &commandpb.EditStore{
		Store: store, Create: m.GetCreate(), Delete: m.GetDelete(), User: userOf(ctx),
	})
	return answer(&apipb.EditStoreResponse{}, err)
}

// seal puts the secrets of an operation, sealed for its id, into its spec. From here on nothing but
// the spec of a job has them.
func (s *server) seal(what, operation string, described *statepb.OperationSpec, secrets map[string]string) error {
	if len(secrets) == 0 {
		return nil
	}
	sealed, err := s.cfg.Vault.Seal(vault.OfOperation(operation), secrets)
	switch {
	case errors.Is(err, vault.ErrNoKey):
		return fail(connect.CodeFailedPrecondition, apipb.CodeNoVaultKey, "%s: secure_vault: %v", what, err)
	case err != nil:
		return fail(connect.CodeInternal, apipb.CodeInternal, "%s: secure_vault cannot be sealed", what)
	}
	described.Vault.Sealed = sealed
	return nil
}
