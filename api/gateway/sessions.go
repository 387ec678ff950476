package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// sessionsOfOne bounds the sessions of one person: a newer one ends the oldest.
	sessionsOfOne = 16
	// maxSessions bounds the sessions of all.
	maxSessions = 10_000
)

var (
	errNoSession = errors.New("not signed in, or signed in too long ago: sign in")
	errElsewhere = errors.New("this session was opened at another network address: sign in again")
	errManyIn    = errors.New("too many people are signed in")
)

// signedIn is the session of one person in one browser. It is bound to the address at which the person signed
// in, so that a cookie that was stolen is of no use elsewhere.
type signedIn struct {
	visitor
	from    netip.Prefix
	began   time.Time
	expires time.Time
	end     context.CancelFunc
}

// sessions are those of all people, in memory. They are known by the digest of what the browser has.
type sessions struct {
	now func() time.Time

	mu  sync.Mutex
	all map[[sha256.Size]byte]*signedIn
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, all: map[[sha256.Size]byte]*signedIn{}}
}

// open begins a session, and returns the secret that the browser keeps.
func (s *sessions) open(who visitor, r *http.Request, lasts time.Duration) (secret string, err error) {
	from, err := addressOf(r)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, own, oldest := s.now(), 0, [sha256.Size]byte{}
	for key, session := range s.all {
		switch {
		case !now.Before(session.expires):
			s.drop(key)
		case session.name == who.name:
			if own++; own == 1 || session.began.Before(s.all[oldest].began) {
				oldest = key
			}
		}
	}
	if own >= sessionsOfOne {
		s.drop(oldest)
	}
	if len(s.all) >= maxSessions {
		return "", errManyIn
	}
	secret = rand.Text()
	session := &signedIn{visitor: who, from: from, began: now, expires: now.Add(lasts)}
	session.ends, session.end = context.WithTimeout(context.Background(), lasts)
	s.all[sha256.Sum256([]byte(secret))] = session
	return secret, nil
}

// of returns who has the secret, if it comes from where the session was opened.
func (s *sessions) of(secret string, r *http.Request) (visitor, error) {
	from, err := addressOf(r)
	if err != nil {
		return visitor{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256([]byte(secret))
	session := s.all[key]
	switch {
	case session == nil:
		return visitor{}, errNoSession
	case !s.now().Before(session.expires):
		s.drop(key)
		return visitor{}, errNoSession
	case session.from != from:
		return session.visitor, errElsewhere
	}
	return session.visitor, nil
}

// close ends a session, and the calls that it has in flight.
func (s *sessions) close(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(sha256.Sum256([]byte(secret)))
}

// closeAll ends all sessions.
func (s *sessions) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.all {
		s.drop(key)
	}
}

// drop removes a session. The caller holds the lock.
func (s *sessions) drop(key [sha256.Size]byte) {
	if session := s.all[key]; session != nil {
		session.end()
		delete(s.all, key)
	}
}

// addressOf returns where a request comes from: an address of IPv4, or the network of one of IPv6, in which
// a machine changes its address by itself.
func addressOf(r *http.Request) (netip.Prefix, error) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}, err
	}
	address := from.Addr().Unmap().WithZone("")
	if address.Is4() {
		return address.Prefix(32)
	}
	return address.Prefix(64)
}
