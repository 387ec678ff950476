package api

import (
	"errors"

	"connectrpc.com/connect"

	"weir/cluster/vault"
	"weir/messages/apipb"
	"weir/messages/statepb"
)

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
