package discovery

import (
	"sync"

	"weir/messages/discoveryjson"
)

// Asker is the job whose requests are answered.
type Asker struct {
	Job, Operation string
	// Index is the log index of the job's grant.
	Index uint64
	// Acknowledge handles the job's report that its state is saved.
	Acknowledge func() error
	// Say handles the job's report of its readiness.
	Say func(word string) error
}

// Desk answers the requests of one job, and holds the notice that it has to leave.
type Desk struct {
	asker     Asker
	directory *Directory

	mu     sync.Mutex
	notice discoveryjson.Notice
	// changed is closed when notice changes.
	changed chan struct{}
}

// NewDesk returns the desk of a job that need not leave.
func NewDesk(asker Asker, directory *Directory) *Desk {
	return &Desk{asker: asker, directory: directory, changed: make(chan struct{})}
}

// Tell sets the job's notice.
func (d *Desk) Tell(notice discoveryjson.Notice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notice = notice
	close(d.changed)
	d.changed = make(chan struct{})
}

// told returns the job's notice, and a channel that is closed when the notice changes.
func (d *Desk) told() (discoveryjson.Notice, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.notice, d.changed
}
