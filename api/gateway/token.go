package gateway

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
)

// Local is a Handler for the one who started its process, and the token that admits to it.
type Local struct {
	*Handler
	token string
}

// NewLocal returns a handler that makes calls with the certificate of the process's own client. Whoever
// has URL may look.
func NewLocal(cfg Config) (*Local, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	return &Local{newHandler(cfg, bearer(token)), token}, nil
}

// URL is the address to open. The token is in its fragment, which browsers send to nobody.
func (l *Local) URL() string { return l.cfg.Origin.String() + "/#token=" + l.token }

// bearer admits whoever has the token.
type bearer string

var errToken = errors.New("the page has no valid token: open the address that weir ui has printed; each run of weir ui has another one")

func (b bearer) visitor(r *http.Request) (visitor, error) {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(b)) != 1 {
		return visitor{}, errToken
	}
	return visitor{}, nil
}

func (bearer) serve(http.ResponseWriter, *http.Request) bool { return false }

func (bearer) signOut() string { return "" }
