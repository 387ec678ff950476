package gateway

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const (
	// cookieSession has the secret of a session. Browsers take cookies with such names from https only, for
	// this host alone.
	cookieSession = "__Host-weir"
	// cookieAttempt has what this process must know when the issuer sends a person back. Its name ends with the
	// state of the sign-in, so that windows that sign in at once do so each for itself.
	cookieAttempt = "__Host-weir-signin-"
	// attemptsOfOne bounds the sign-ins under way in one browser: a newer one ends the oldest. Their cookies have
	// 2 kB each, at most.
	attemptsOfOne = 4
	// attemptTime is how long a person may take to sign in.
	attemptTime = 10 * time.Minute
	// maxExchanges bounds how many people are asked about at the issuer at once.
	maxExchanges = 32
	// maxReturn bounds the path to which a person returns after signing in.
	maxReturn = 1024
	// askAgain is after how many seconds a browser asks again while the issuer does not answer.
	askAgain = 10
)

// attempt is a sign-in under way. It is kept in a sealed cookie of the browser, so that strangers who begin
// sign-ins cost no memory, and so that nobody ends one that another has begun.
type attempt struct {
	State, Nonce, Verifier string
	// To is the path of the page to return to.
	To      string
	Expires time.Time
}

// Team is a Handler for people who sign in.
type Team struct {
	*Handler
	doorman *doorman
}

// NewTeam returns a handler that makes calls for people who sign in, by name and groups.
func NewTeam(cfg Config, by OIDC) (*Team, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if cfg.Origin.Scheme != "https" {
		return nil, fmt.Errorf("gateway: %s: must be https: cookies would be sent in the clear", cfg.Origin)
	}
	if by, err = by.complete(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // It never fails.
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	cfg.Cluster = newSharing(cfg.Cluster)
	d := &doorman{cfg: cfg, issuer: newIssuer(by, cfg.Origin), seal: seal, exchanges: make(chan struct{}, maxExchanges)}
	d.sessions = newSessions(cfg.Now, d.misused)
	return &Team{newHandler(cfg, d), d}, nil
}

// Close ends all sessions, with their calls.
func (t *Team) Close() { t.doorman.sessions.closeAll() }

// doorman signs people in and out.
type doorman struct {
	cfg      Config
	issuer   *issuer
	sessions *sessions
	seal     cipher.AEAD
	// exchanges has a place for each person that the issuer is asked about.
	exchanges chan struct{}
}

func (d *doorman) visitor(r *http.Request) (visitor, error) {
	cookie, err := r.Cookie(cookieSession)
	if err != nil {
		return visitor{}, errNoSession
	}
	who, err := d.sessions.of(cookie.Value, r)
	if err != nil {
		return visitor{}, err
	}
	return who, nil
}

// misused says that a session was used from another address.
func (d *doorman) misused(who visitor, from string, uses int) {
	d.cfg.Logger.Warn("session used from another address", "user", who.name, "from", from, "unlogged_before", uses-1)
}

func (d *doorman) signOut() string { return pathSignOut }

func (d *doorman) serve(w http.ResponseWriter, r *http.Request) bool {
	leaves := r.URL.Path == pathSignOut
	if !leaves && r.Method != http.MethodGet {
		return false
	}
	switch r.URL.Path {
	case pathSignIn:
		d.begin(w, r)
	case pathCallback:
		d.end(w, r)
	case pathSignOut:
		d.leave(w, r)
	default:
		return false
	}
	return true
}

// begin sends a person to the issuer.
func (d *doorman) begin(w http.ResponseWriter, r *http.Request) {
	a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: localPath(r.URL.Query().Get("to")), Expires: d.cfg.Now().Add(attemptTime)}
	address, err := d.issuer.address(a)
	if err != nil {
		d.refuse(w, err, again(a.To))
		return
	}
	text, err := json.Marshal(a)
	if err != nil {
		d.refuse(w, err, again(a.To))
		return
	}
	sealed := base64.RawURLEncoding.EncodeToString(d.seal.Seal(nil, nil, text, nil))
	d.forgetOldest(w, r)
	setCookie(w, cookieAttempt+a.State, sealed, attemptTime)
	http.Redirect(w, r, address, http.StatusFound)
}

// end takes a person back from the issuer.
func (d *doorman) end(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	a, ok := d.attempt(r, query.Get("state"))
	if !ok {
		notice{
			status: http.StatusBadRequest, title: "Sign in again", text: "This sign-in was begun in another browser, more than ten minutes ago, or before the gateway was restarted.",
			remedy: "Sign in", link: pathSignIn,
		}.write(w)
		return
	}
	setCookie(w, cookieAttempt+a.State, "", 0)
	if refused := query.Get("error"); refused != "" {
		d.refuse(w, fmt.Errorf("the identity provider refused: %s %s", refused, query.Get("error_description")), again(a.To))
		return
	}
	select {
	case d.exchanges <- struct{}{}:
		defer func() { <-d.exchanges }()
	default:
		d.refuse(w, fmt.Errorf("%w: %d people sign in right now", errIssuer, maxExchanges), again(a.To))
		return
	}
	who, err := d.issuer.identify(r.Context(), a, query.Get("code"))
	if err != nil {
		d.refuse(w, err, again(a.To))
		return
	}
	secret, err := d.sessions.open(who, r, d.issuer.cfg.SessionTime)
	if err != nil {
		d.refuse(w, err, again(a.To))
		return
	}
	if before, err := r.Cookie(cookieSession); err == nil {
		if _, err := d.sessions.of(before.Value, r); err == nil {
			d.sessions.supersede(before.Value, who)
		}
	}
	d.cfg.Logger.Info("signed in", "user", who.name, "from", r.RemoteAddr)
	setCookie(w, cookieSession, secret, d.issuer.cfg.SessionTime)
	http.Redirect(w, r, a.To, http.StatusSeeOther)
}

// leave ends a session. A link on another site does not.
func (d *doorman) leave(w http.ResponseWriter, r *http.Request) {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		foreignPage(d.cfg.Origin.String()).write(w)
		return
	}
	if cookie, err := r.Cookie(cookieSession); err == nil {
		if _, err := d.sessions.of(cookie.Value, r); err == nil {
			d.sessions.close(cookie.Value)
		}
	}
	setCookie(w, cookieSession, "", 0)
	notice{
		status: http.StatusOK, title: "Signed out", text: "You may still be signed in at the identity provider.", remedy: "Sign in again", link: pathSignIn,
	}.write(w)
}

// refuse says why a person is not signed in.
func (d *doorman) refuse(w http.ResponseWriter, err error, retry string) {
	n := notice{status: http.StatusForbidden, title: "Not signed in", text: capital(err.Error()) + ".", remedy: "Try again", link: retry}
	if errors.Is(err, errIssuer) || errors.Is(err, errManyIn) {
		n.status = http.StatusServiceUnavailable
		if errors.Is(err, errIssuer) {
			n.title = "Nobody can sign in at the moment"
		}
		// The callback cannot be asked again: its code counts once.
		n.retry = retry
	}
	d.cfg.Logger.Warn("sign-in refused", "error", err)
	n.write(w)
}

// attempt returns the sign-in with a state that a browser has begun.
func (d *doorman) attempt(r *http.Request, state string) (a attempt, ok bool) {
	cookie, err := r.Cookie(cookieAttempt + state)
	if err != nil {
		return a, false
	}
	a, ok = d.open(cookie)
	return a, ok && a.State == state
}

// open returns what is in the cookie of a sign-in, unless it has expired.
func (d *doorman) open(cookie *http.Cookie) (a attempt, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return a, false
	}
	text, err := d.seal.Open(nil, nil, sealed, nil)
	if err != nil || json.Unmarshal(text, &a) != nil || !d.cfg.Now().Before(a.Expires) {
		return a, false
	}
	return a, true
}

// forgetOldest removes cookies of sign-ins until there is room for one more: those that count no longer, and
// then the oldest.
func (d *doorman) forgetOldest(w http.ResponseWriter, r *http.Request) {
	var begun []attempt
	for _, cookie := range r.Cookies() {
		if !strings.HasPrefix(cookie.Name, cookieAttempt) {
			continue
		}
		if a, ok := d.open(cookie); ok && cookie.Name == cookieAttempt+a.State {
			begun = append(begun, a)
		} else {
			setCookie(w, cookie.Name, "", 0)
		}
	}
	slices.SortFunc(begun, func(a, b attempt) int { return a.Expires.Compare(b.Expires) })
	for len(begun) >= attemptsOfOne {
		setCookie(w, cookieAttempt+begun[0].State, "", 0)
		begun = begun[1:]
	}
}

// setCookie sets a cookie that scripts cannot read and that other sites' calls do not carry; or removes it.
func setCookie(w http.ResponseWriter, name, value string, lasts time.Duration) {
	age := int(lasts.Seconds())
	if value == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
}

// localPath returns the path of the page to return to: never another site.
func localPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || len(to) > maxReturn || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, `\`) {
		return "/"
	}
	return to
}

// again is where a person tries again to sign in.
func again(to string) string { return pathSignIn + "?to=" + url.QueryEscape(to) }

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
