package wire

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"weir/cluster/identity"
)

// ForRoles passes requests of peers with one of the roles to the handler `next`, and rejects all
// others.
func ForRoles(next http.Handler, roles ...identity.Role) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := IdentityOfRequest(r)
		switch {
		case err != nil:
			http.Error(w, "unauthenticated: "+err.Error(), http.StatusUnauthorized)
		case !slices.Contains(roles, who.Role):
			http.Error(w, fmt.Sprintf("%s: not permitted for role %s", r.URL.Path, who.Role), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ForMembers passes requests to the handler `next`, but rejects those of replicas that are not
// members of the cluster, except for the path `open`, at which they ask to become members.
func ForMembers(next http.Handler, security Security, open string) http.Handler {
	mutual, ok := security.(Mutual)
	if !ok {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := IdentityOfRequest(r)
		if err == nil && r.URL.Path != open {
			if err := mutual.Credentials.Member(who); err != nil {
				http.Error(w, fmt.Sprintf("%s: %v", who, err), http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r) // Which answers a caller without an identity.
	})
}

// ListenMutual opens a port for HTTP/1.1 over mutual TLS with peers that have one of the roles. The
// certificate of credentials must be valid for a server. Strangers, and the connections of one user, have
// the default bounds of a Mux.
func ListenMutual(address string, credentials *identity.Credentials, roles ...identity.Role) (net.Listener, error) {
	if !credentials.Serves() {
		return nil, fmt.Errorf("listen %s: the certificate of %s is not valid for a server: reissue it with --hosts", address, credentials.Identity())
	}
	return listenHTTP(Config{Address: address, Security: Mutual{Credentials: credentials}, only: roles})
}

// httpPort is a Mux with HTTP only, as a listener.
type httpPort struct{ *Mux }

// Accept implements net.Listener.
func (p httpPort) Accept() (net.Conn, error) { return p.http.Accept() }

func listenHTTP(config Config) (net.Listener, error) {
	mux, err := Listen(config)
	if err != nil {
		return nil, err
	}
	// Nobody accepts what asks for these protocols: it is closed at once.
	_, _ = mux.raft.Close(), mux.gossip.Close()
	return httpPort{mux}, nil
}

// ListenLoopback opens a plaintext port that only this machine can reach. Its connections have the
// bounds of a Mux until they send something.
func ListenLoopback(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen %q: %w: want host:port", address, err)
	}
	listener, err := listenHTTP(Config{Address: address, Security: Insecure{}, only: identity.Roles()})
	if err != nil {
		return nil, err
	}
	// A host name may resolve to any address, so check the address that was opened.
	if at, ok := listener.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("listen %s: without certificates only loopback addresses are allowed, but %q is not one: use 127.0.0.1",
			address, host), listener.Close())
	}
	return listener, nil
}
