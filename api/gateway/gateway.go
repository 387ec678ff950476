// Package gateway serves Weir's page to browsers, and makes their calls of the public API for them.
//
// A Handler has the files of the page and forwards calls in the Connect protocol to the replicas. Who
// looks is found out in one of two ways: by a token, which whoever started the process passes on (weir
// ui), or by signing in with OpenID Connect (weir gateway). Browsers say nothing about who they are:
// only a few headers of theirs reach a replica.
package gateway

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"connectrpc.com/connect"

	"weir/api/client"
)

// Cluster forwards calls to the replicas of a cluster. Package client has it.
type Cluster interface {
	Forward(ctx context.Context, f client.Forwarded) (*http.Response, error)
}

// Config says what a Handler serves, and for whom.
type Config struct {
	// Files are the files of the page, with index.html.
	Files   fs.FS
	Cluster Cluster
	// Origin is what browsers have in their address line: scheme, host and port.
	Origin *url.URL
	// Version is that of this process.
	Version string
	// Write lets calls through that change something.
	Write bool
	// CallsOfOne and Calls bound how many calls may be in flight, streams included: of one person, and
	// of all. Defaults 64, which is ten pages, and 4096.
	CallsOfOne, Calls int
	// Now returns the time by which sessions expire. Default time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

func (c Config) complete() (Config, error) {
	switch {
	case c.Files == nil || c.Cluster == nil:
		return c, errors.New("gateway: files and cluster are needed")
	case c.Origin == nil || c.Origin.Host == "":
		return c, errors.New("gateway: the origin needs a host")
	case c.CallsOfOne < 0 || c.Calls < 0:
		return c, errors.New("gateway: the number of calls is negative")
	}
	if c.CallsOfOne == 0 {
		c.CallsOfOne = 64
	}
	if c.Calls == 0 {
		c.Calls = 4096
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// visitor is who looks.
type visitor struct {
	// name and groups are those that a person has signed in with. They are empty if the certificate
	// of this process says who looks.
	name   string
	groups []string
	// ends, if not nil, ends with the person's session.
	ends context.Context
}

// usher finds out who looks.
type usher interface {
	// visitor returns who sent a request, or an error that says what to do.
	visitor(r *http.Request) (visitor, error)
	// serve answers requests of the usher's own, such as for signing in. It returns false if a request
	// is none of them.
	serve(w http.ResponseWriter, r *http.Request) bool
	// signOut is the path that ends a session; empty if there are none.
	signOut() string
}

// Handler serves the page and forwards calls.
type Handler struct {
	cfg    Config
	usher  usher
	files  http.Handler
	errors *connect.ErrorWriter
	places *places
	roster roster
}

func newHandler(cfg Config, usher usher) *Handler {
	return &Handler{
		cfg: cfg, usher: usher, files: http.FileServerFS(cfg.Files), errors: connect.NewErrorWriter(), places: newPlaces(cfg.CallsOfOne, cfg.Calls),
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.protect(w.Header())
	if refused := h.foreign(r); refused != nil {
		refused.write(w)
		return
	}
	switch {
	case r.Method == http.MethodPost && r.URL.Path != pathSignOut:
		h.call(w, r)
	case r.URL.Path == pathSession:
		h.session(w, r)
	case h.usher.serve(w, r):
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		h.file(w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		notice{status: http.StatusMethodNotAllowed, title: "Not possible", text: "This address answers GET and POST only.", remedy: "Open the page.", link: "/"}.write(w)
	}
}

// The paths that are neither files nor calls.
const (
	pathSession  = "/session"
	pathSignIn   = "/login"
	pathCallback = "/callback"
	pathSignOut  = "/logout"
)
