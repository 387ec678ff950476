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
	// lingers is how long a session goes on when its person has signed in again in the same browser: calls that
	// another window has in flight end in it. They take 5 s, as the page makes them.
	lingers = 10 * time.Second
	// misuseTold is how often uses of a session from another address are told.
	misuseTold = time.Minute
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
	// Uses from other addresses that have not been told, from where the last of them came, and when some were told.
	misuses int
	thief   string
	told    time.Time
}

// due returns how many uses from other addresses are to be told now, and from where the last of them came.
func (s *signedIn) due(now time.Time) (uses int, from string) {
	if s.misuses == 0 || now.Sub(s.told) < misuseTold {
		return 0, ""
	}
	uses, s.misuses, s.told = s.misuses, 0, now
	return uses, s.thief
}

// sessions are those of all people, in memory. They are known by the digest of what the browser has.
type sessions struct {
	now func() time.Time
	// misused is told how often a session was used from other addresses: the first use at once, and those after it
	// once in misuseTold, as long as anybody uses the session.
	misused func(who visitor, from string, uses int)

	mu  sync.Mutex
	all map[[sha256.Size]byte]*signedIn
}

func newSessions(now func() time.Time, misused func(who visitor, from string, uses int)) *sessions {
	return &sessions{now: now, misused: misused, all: map[[sha256.Size]byte]*signedIn{}}
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
	who, uses, thief, err := s.find(secret, from, r.RemoteAddr)
	if uses > 0 {
		s.misused(who, thief, uses)
	}
	return who, err
}

// find is of, for a request from an address. It also returns what is to be told of uses from other addresses.
func (s *sessions) find(secret string, from netip.Prefix, remote string) (who visitor, uses int, thief string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, now := sha256.Sum256([]byte(secret)), s.now()
	session := s.all[key]
	switch {
	case session == nil:
		return visitor{}, 0, "", errNoSession
	case !now.Before(session.expires):
		s.drop(key)
		return visitor{}, 0, "", errNoSession
	case session.from != from:
		session.misuses++
		session.thief = remote
		err = errElsewhere
	}
	uses, thief = session.due(now)
	return session.visitor, uses, thief, err
}

// supersede ends a session because somebody has signed in in its browser: soon if it is the same person, else at once.
func (s *sessions) supersede(secret string, by visitor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256([]byte(secret))
	session := s.all[key]
	switch {
	case session == nil:
	case session.name != by.name:
		s.drop(key)
	default:
		if last := s.now().Add(lingers); last.Before(session.expires) {
			session.expires = last
		}
		time.AfterFunc(lingers, func() { s.close(secret) })
	}
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
