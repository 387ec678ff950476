package browse

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lookEvery is how often a new certificate is looked for: it is renewed days before the old one expires.
const lookEvery = time.Minute

// pair is a certificate in two files, which are read again when they change.
type pair struct {
	cert, key string
	log       *slog.Logger
	now       func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	changed time.Time
	looked  time.Time
}

func loadPair(cert, key string, log *slog.Logger) (*pair, error) {
	p := &pair{cert: cert, key: key, log: log, now: time.Now}
	p.looked, p.changed = p.now(), p.stamp()
	loaded, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	p.current = &loaded
	return p, nil
}

// stamp returns when the files changed last.
func (p *pair) stamp() (latest time.Time) {
	for _, path := range []string{p.cert, p.key} {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(latest) {
			latest = info.ModTime()
		}
	}
	return latest
}

// get is tls.Config.GetCertificate. A new pair that cannot be read leaves the one before.
func (p *pair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); now.Sub(p.looked) >= lookEvery {
		p.looked = now
		if changed := p.stamp(); !changed.Equal(p.changed) {
			loaded, err := tls.LoadX509KeyPair(p.cert, p.key)
			if err != nil {
				p.log.Warn("certificate not reloaded", "file", p.cert, "error", err)
				return p.current, nil
			}
			p.current, p.changed = &loaded, changed
			p.log.Info("certificate reloaded", "file", p.cert)
		}
	}
	return p.current, nil
}
