package wire

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"

	"weir/cluster/identity"
)

// Upgrade opens a connection to the HTTP port of the replica at addr, host:port, and asks the handler at path to go on
// in another protocol. The error is an http.ErrNotSupported if the replica answers that it does not know the protocol.
func (d *Dialer) Upgrade(ctx context.Context, addr, path, protocol string) (net.Conn, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL(addr)+path, nil)
	if err != nil {
		return nil, err
	}
	return d.open(ctx, addr, protocol, func(raw net.Conn) (conn net.Conn, err error) {
		conn = raw
		switch security := d.security.(type) {
		case Mutual:
			if conn, err = security.shake(ctx, raw, alpnHTTP1); err != nil {
				return nil, identity.Explain(err)
			}
		case Insecure:
			if security.Self != (identity.Identity{}) {
				request.Header.Set(InsecureHeader, security.Self.Role.String()+"/"+security.Self.Name)
			}
		}
		return conn, identity.Explain(Upgrade(conn, request, protocol))
	})
}

// Upgrade sends request over conn, on which nothing else has been sent, and has the server go on in another protocol. The
// error is an http.ErrNotSupported if the server answers that it does not know the protocol.
func Upgrade(conn net.Conn, request *http.Request, protocol string) error {
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", protocol)
	if err := request.Write(conn); err != nil {
		return err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusHTTPVersionNotSupported:
		return fmt.Errorf("%w: %s", http.ErrNotSupported, protocol)
	case response.StatusCode != http.StatusSwitchingProtocols:
		return fmt.Errorf("answered %s", response.Status)
	case reader.Buffered() > 0:
		return fmt.Errorf("the peer speaks %s before it is asked", protocol)
	}
	return nil
}
