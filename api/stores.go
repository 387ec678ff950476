package api

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"connectrpc.com/connect"

	"weir/cluster/vault"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

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
