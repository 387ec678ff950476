// Package oidctest is an OpenID Connect provider for tests: it lets in whoever the test says, and asks no
// password.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// The client that an Issuer knows.
const (
	ClientID     = "weir"
	ClientSecret = "a-secret"
)

// Claims are what a token says of a person.
type Claims map[string]any

// Issuer is a provider on a port of this machine. Each code is good for one token, and for the verifier whose
// challenge came with it.
type Issuer struct {
	// URL is the issuer's.
	URL string

	key *rsa.PrivateKey

	mu     sync.Mutex
	person Claims
	refuse string
	down   bool
	codes  map[string]granted
}

type granted struct {
	claims              Claims
	challenge, redirect string
}

// keyOfAll is the key of all issuers of a test run: a new one takes long.
var keyOfAll = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// New starts an issuer, which ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	key, err := keyOfAll()
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{key: key, codes: map[string]granted{}}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	routes.HandleFunc("GET /keys", i.keys)
	routes.HandleFunc("GET /authorize", i.authorize)
	routes.HandleFunc("POST /token", i.token)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		down := i.down
		i.mu.Unlock()
		if down {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		routes.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

// Person says who signs in next: the claims replace those that a token has by itself.
func (i *Issuer) Person(claims Claims) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.person, i.refuse = claims, ""
}

// Refuse has the next sign-ins refused with an error.
func (i *Issuer) Refuse(code string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refuse = code
}

// Down says whether the issuer answers nothing but errors.
func (i *Issuer) Down(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"keys": []map[string]string{{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "k", "n": encode(i.key.N.Bytes()), "e": encode(big.NewInt(int64(i.key.E)).Bytes()),
	}}})
}

// authorize sends the browser back with a code, as if the person had given a password.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	asked := r.URL.Query()
	back, err := url.Parse(asked.Get("redirect_uri"))
	if err != nil || asked.Get("client_id") != ClientID || asked.Get("response_type") != "code" || asked.Get("code_challenge_method") != "S256" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	said := url.Values{"state": {asked.Get("state")}}
	if i.refuse != "" {
		said.Set("error", i.refuse)
	} else {
		claims := Claims{
			"iss": i.URL, "aud": ClientID, "sub": "1", "nonce": asked.Get("nonce"), "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		}
		maps.Copy(claims, i.person)
		code := rand.Text()
		i.codes[code] = granted{claims: claims, challenge: asked.Get("code_challenge"), redirect: asked.Get("redirect_uri")}
		said.Set("code", code)
	}
	back.RawQuery = said.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	code := r.PostFormValue("code")
	of, known := i.codes[code]
	delete(i.codes, code)
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case id != ClientID || secret != ClientSecret:
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
	case !known || encode(sum[:]) != of.challenge || r.PostFormValue("redirect_uri") != of.redirect:
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
	default:
		answer(w, http.StatusOK, map[string]any{"access_token": "unused", "token_type": "Bearer", "expires_in": 60, "id_token": i.sign(of.claims)})
	}
}

// sign returns a token with the claims, signed with the issuer's key.
func (i *Issuer) sign(claims Claims) string {
	head, _ := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": "k"})
	body, _ := json.Marshal(claims)
	signed := encode(head) + "." + encode(body)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	if err != nil {
		return strings.Repeat("x", 8)
	}
	return signed + "." + encode(signature)
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}
