package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"weir/scheduling/access"
)

// OIDC says how people sign in.
type OIDC struct {
	// Issuer is the URL of the OpenID Connect provider. Plain http is for this machine alone.
	Issuer string
	// ClientID and ClientSecret are those of this gateway at the issuer.
	ClientID, ClientSecret string
	// Scopes are asked for beside openid and profile.
	Scopes []string
	// NameClaim is the claim with a person's name. Default preferred_username. An email counts only
	// if the issuer has verified it.
	NameClaim string
	// NameSuffix, if set, is what the names of people end with, such as @example.org, and Weir's do not. A
	// person whose name ends otherwise is refused.
	NameSuffix string
	// GroupsClaim is the claim with a person's groups. Default groups.
	GroupsClaim string
	// SessionTime is how long a person stays signed in, with the groups of that moment. Default 8 h.
	SessionTime time.Duration
}

func (o OIDC) complete() (OIDC, error) {
	issuer, err := url.Parse(o.Issuer)
	switch {
	case err != nil || issuer.Host == "" || issuer.Scheme != "https" && issuer.Scheme != "http":
		return o, fmt.Errorf("issuer %q: must be a URL such as https://id.example.org", o.Issuer)
	case issuer.Scheme == "http" && !isLoopback(issuer.Hostname()):
		return o, fmt.Errorf("issuer %q: must be https: what it says decides who people are", o.Issuer)
	case o.ClientID == "":
		return o, errors.New("the client id is missing: the issuer gives one to each of its clients")
	case o.ClientSecret == "":
		return o, errors.New("the client secret is empty: the issuer gives one with the client id")
	case o.SessionTime < 0:
		return o, fmt.Errorf("session time %v: must not be negative", o.SessionTime)
	}
	if o.SessionTime == 0 {
		o.SessionTime = 8 * time.Hour
	}
	if o.NameClaim == "" {
		o.NameClaim = "preferred_username"
	}
	if o.GroupsClaim == "" {
		o.GroupsClaim = "groups"
	}
	return o, nil
}

func isLoopback(host string) bool {
	address := net.ParseIP(host)
	return host == "localhost" || address != nil && address.IsLoopback()
}

const (
	// issuerPatience bounds a question to the issuer.
	issuerPatience = 5 * time.Second
	// issuerAnswered is how long an answer of the issuer counts, so that not each sign-in asks whether it is there.
	issuerAnswered = 5 * time.Second
	// discoveryPause is how long a failure to reach the issuer is remembered, so that those who wait for it do
	// not wait one after another.
	discoveryPause = time.Second
	// maxGroups bounds the groups of a person, as replicas do.
	maxGroups = 200
)

// errIssuer is returned when the issuer cannot be asked.
var errIssuer = errors.New("the identity provider does not answer")

// issuer is the OpenID Connect provider. It is found when the first person signs in, so that the gateway
// starts without it.
type issuer struct {
	cfg      OIDC
	callback string
	http     *http.Client

	mu       sync.Mutex
	provider *oidc.Provider
	answered time.Time
	failed   time.Time
	failure  error
}

func newIssuer(cfg OIDC, origin *url.URL) *issuer {
	return &issuer{cfg: cfg, callback: origin.String() + pathCallback, http: &http.Client{Timeout: issuerPatience}}
}

// find returns what the issuer says of itself.
func (i *issuer) find() (*oidc.Provider, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.provider != nil {
		return i.provider, nil
	}
	if i.failure != nil && time.Since(i.failed) < discoveryPause {
		return nil, i.failure
	}
	// The keys of the issuer are fetched with this context later on.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.Background(), i.http), i.cfg.Issuer)
	if err != nil {
		i.failed, i.failure = time.Now(), fmt.Errorf("%w: %w", errIssuer, err)
		return nil, i.failure
	}
	i.provider, i.answered, i.failure = provider, time.Now(), nil
	return provider, nil
}

// reach returns an error if the issuer does not answer: a browser that is sent there would be left with an error
// of its own, and nothing to press.
func (i *issuer) reach() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case time.Since(i.answered) < issuerAnswered:
		return nil
	case i.failure != nil && time.Since(i.failed) < discoveryPause:
		return i.failure
	}
	answer, err := i.http.Get(strings.TrimSuffix(i.cfg.Issuer, "/") + "/.well-known/openid-configuration")
	if err == nil {
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
	}
	if err != nil {
		i.failed, i.failure = time.Now(), fmt.Errorf("%w: %w", errIssuer, err)
		return i.failure
	}
	i.answered, i.failure = time.Now(), nil
	return nil
}

func (i *issuer) oauth(provider *oidc.Provider) *oauth2.Config {
	scopes := []string{oidc.ScopeOpenID, "profile"}
	for _, scope := range i.cfg.Scopes {
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return &oauth2.Config{ClientID: i.cfg.ClientID, ClientSecret: i.cfg.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: i.callback, Scopes: scopes}
}

// address returns where a person signs in.
func (i *issuer) address(a attempt) (string, error) {
	provider, err := i.find()
	if err != nil {
		return "", err
	}
	if err := i.reach(); err != nil {
		return "", err
	}
	return i.oauth(provider).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// identify returns who has signed in, by the code with which the issuer sent the person back.
func (i *issuer) identify(ctx context.Context, a attempt, code string) (visitor, error) {
	provider, err := i.find()
	if err != nil {
		return visitor{}, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, i.http), issuerPatience)
	defer cancel()
	tokens, err := i.oauth(provider).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode != "":
		return visitor{}, fmt.Errorf("the identity provider refused the code: %s %s", refused.ErrorCode, refused.ErrorDescription)
	case err != nil:
		return visitor{}, fmt.Errorf("%w: %w", errIssuer, err)
	}
	raw, ok := tokens.Extra("id_token").(string)
	if !ok {
		return visitor{}, errors.New("the identity provider sent no id_token")
	}
	token, err := provider.Verifier(&oidc.Config{ClientID: i.cfg.ClientID}).Verify(ctx, raw)
	if err != nil {
		return visitor{}, fmt.Errorf("the identity provider's token is not valid: %w", err)
	}
	if token.Nonce != a.Nonce {
		return visitor{}, errors.New("the identity provider's token is for another sign-in")
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return visitor{}, fmt.Errorf("the identity provider's token: %w", err)
	}
	return i.cfg.person(claims)
}

// person returns who the claims are about. Groups whose names no group of Weir can have are left out.
func (o OIDC) person(claims map[string]any) (visitor, error) {
	said, ok := claims[o.NameClaim].(string)
	if !ok || said == "" {
		return visitor{}, fmt.Errorf("the identity provider's token has no claim %q with a name: choose another with --name-claim", o.NameClaim)
	}
	if o.NameClaim == "email" && claims["email_verified"] != true {
		return visitor{}, fmt.Errorf("the identity provider has not verified the email %q", said)
	}
	name, ok := strings.CutSuffix(said, o.NameSuffix)
	if !ok {
		return visitor{}, fmt.Errorf("the name %q does not end with %q (--name-suffix)", said, o.NameSuffix)
	}
	if err := access.CheckName("user", name); err != nil {
		return visitor{}, fmt.Errorf("%w: choose another claim with --name-claim, or cut its end with --name-suffix", err)
	}
	who := visitor{name: name}
	var all []any
	switch said := claims[o.GroupsClaim].(type) {
	case nil:
	case string:
		all = []any{said}
	case []any:
		all = said
	default:
		return visitor{}, fmt.Errorf("the claim %q is not a list of groups: choose another with --groups-claim", o.GroupsClaim)
	}
	for _, group := range all {
		if text, ok := group.(string); ok && access.CheckName("group", text) == nil && !slices.Contains(who.groups, text) {
			who.groups = append(who.groups, text)
		}
	}
	if len(who.groups) > maxGroups {
		return visitor{}, fmt.Errorf("%d groups of %q, the limit is %d: have the identity provider name fewer of them in the claim %q", len(who.groups), name, maxGroups, o.GroupsClaim)
	}
	return who, nil
}
