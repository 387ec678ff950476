package discovery

import (
	"sync"

	"weir/messages/discoveryjson"
)

// Asker is the job that asks.
type Asker struct {
	Job, Operation string
	// Index is that of its grant.
	Index uint64
	// Acknowledge takes its word that its state is saved.
	Acknowledge func() error
	// Say takes its word whether it takes requests.
	Say func(word string) error
}

// Desk is where one job asks, and where it is told of its own end.
type Desk struct {
	asker     Asker
	directory *Directory

	mu     sync.Mutex
	notice discoveryjson.Notice
	// changed is closed when notice is another.
	changed chan struct{}
}

// NewDesk returns the desk of a job that need not leave.
func NewDesk(asker Asker, directory *Directory) *Desk {
	return &Desk{asker: asker, directory: directory, changed: make(chan struct{})}
}

// Tell tells the job what is to become of it.
func (d *Desk) Tell(notice discoveryjson.Notice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notice = notice
	close(d.changed)
	d.changed = make(chan struct{})
}

// told returns what the job has been told, and what is closed when that changes.
func (d *Desk) told() (discoveryjson.Notice, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.notice, d.changed
}
