package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/cluster/identity"
	"weir/cluster/wire"
)

// lookAtCertificate is how often a process looks whether its credentials folder has
// changed. Certificates are renewed days before they expire.
const lookAtCertificate = time.Minute

// keepFresh takes up renewed certificates, for connections made from then on, until
// stop is called: on SIGHUP, and when the credentials folder has changed. Without
// certificates SIGHUP has no effect; it must not end a process that is told to reload.
func (p protection) keepFresh(every time.Duration, log *slog.Logger) (stop func()) {
	mutual, _ := p.security.(wire.Mutual)
	hangups, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	r := renewal{credentials: mutual.Credentials, dir: p.dir, seen: stampOf(p.dir), log: log}
	var running sync.WaitGroup
	running.Go(func() {
		defer signal.Stop(hangups)
		looks := time.NewTicker(every)
		defer looks.Stop()
		for {
			select {
			case <-over:
				return
			case <-hangups:
				r.reload()
			case <-looks.C:
				if stampOf(r.dir) != r.seen {
					r.reload()
				}
			}
		}
	})
	return sync.OnceFunc(func() {
		close(over)
		running.Wait()
	})
}

// renewal knows which state of a folder was tried last.
type renewal struct {
	// credentials are nil without certificates.
	credentials *identity.Credentials
	dir         string
	seen        string
	log         *slog.Logger
}

// reload reads the folder. One that is being written is tried again when it has
// changed further.
func (r *renewal) reload() {
	if r.credentials == nil {
		r.log.Info("SIGHUP ignored: no certificates to renew")
		return
	}
	r.seen = stampOf(r.dir)
	if err := r.credentials.Reload(); err != nil {
		r.log.Warn("certificate not reloaded", "dir", r.dir, "expires", r.credentials.Expires(), "error", err)
		return
	}
	r.log.Info("certificate reloaded", "dir", r.dir, "expires", r.credentials.Expires())
}

// stampOf changes with the files of a folder.
func stampOf(dir string) string {
	var stamp strings.Builder
	files, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	for _, file := range files {
		// Clocks of file systems tick slowly, so the times alone may not tell.
		var stat syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir, file.Name()), &stat); err == nil {
			fmt.Fprintln(&stamp, file.Name(), stat.Ino, stat.Size, stat.Mtim, stat.Ctim)
		}
	}
	return stamp.String()
}
