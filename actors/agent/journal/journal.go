package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/journalpb"
)

var (
	// ErrClosed is returned for a record that comes after Close.
	ErrClosed = errors.New("journal is closed")
	// ErrFull is returned when there is no space for a record.
	ErrFull = errors.New("disk full")
	// ErrDisk is returned when the disk failed; every later record fails too.
	ErrDisk = errors.New("disk failed")
	// ErrForeign is returned for a journal of another node, or of a later version.
	ErrForeign = errors.New("belongs to another agent")
)

// Config says which journal to open.
type Config struct {
	// Path is the file. It is made if missing.
	Path string
	// Node is the node's name. A journal of another node is refused.
	Node string
	// Version is the software's version, for people.
	Version string
	// Life is the incarnation of a new journal's node. Default: derived from the time, so that it
	// is greater than earlier incarnations.
	Life uint64
}

// Journal is an open journal. Its methods may be called by several goroutines.
type Journal struct {
	path string

	mu      sync.Mutex
	more    *sync.Cond
	queue   []entry
	closing bool
	// stop is closed by the first Close. ended is closed when the writer has ended.
	stop, ended chan struct{}

	figures figures

	// The fields below belong to the writer. file has size bytes, and its disk space is reserved up
	// to the offset reserved. When size exceeds due, the file is rewritten.
	file                file
	state               *State
	size, reserved, due int64
	// opened: Open has returned, so that Full can report a full disk. Before that, a full disk
	// is an error.
	opened bool
	failed error
}

// entry holds records that wait for the disk.
type entry struct {
	records []*journalpb.Record
	done    func(error)
}

// Recovery is what Open found.
type Recovery struct {
	// State is the state after all records, including the new session.
	State *State
	// Cut is how many bytes of an unfinished batch were cut off.
	Cut int64
}

// Open opens or creates a journal and begins a session. The caller must make sure that only one
// process has it open.
func Open(cfg Config) (*Journal, Recovery, error) {
	j := &Journal{path: cfg.Path, stop: make(chan struct{}), ended: make(chan struct{}), state: &State{}}
	j.more = sync.NewCond(&j.mu)
	cut, err := j.open(cfg)
	if err != nil {
		return nil, Recovery{}, fmt.Errorf("open journal %s: %w", cfg.Path, explain(err))
	}
	j.opened = true
	recovered := j.state.clone()
	go j.run()
	return j, Recovery{State: recovered, Cut: cut}, nil
}

func (j *Journal) open(cfg Config) (cut int64, err error) {
	data, err := os.ReadFile(cfg.Path)
	if errors.Is(err, fs.ErrNotExist) {
		j.state = born(cfg)
		if err := j.state.apply(j.woke(cfg)); err != nil {
			return 0, err
		}
		if err := j.rewrite(); err != nil {
			return 0, err
		}
		return 0, j.hold()
	}
	if err != nil {
		return 0, err
	}
	end, err := replay(data, j.state.apply)
	switch {
	case errors.Is(err, ErrDamaged):
		return 0, fmt.Errorf("%w; restore the file, or remove it once no job of this node can be running: "+
			"the node then starts a new incarnation", err)
	case err != nil:
		return 0, err
	case j.state.Life == 0:
		return 0, fmt.Errorf("%w at offset %d: it ends before the node's first record; restore the file, "+
			"or remove it once no job of this node can be running: the node then starts a new incarnation", ErrDamaged, end)
	case j.state.Node != cfg.Node:
		return 0, fmt.Errorf("%w: it belongs to node %q, but this is node %q: give each agent its own state folder", ErrForeign, j.state.Node, cfg.Node)
	}
	cut = int64(len(data)) - end
	return cut, j.goOn(cfg, end, cut > 0)
}

// goOn opens the file for appending. Its last record ends at the offset end. `cut` is true if bytes
// after that offset must be cut off.
func (j *Journal) goOn(cfg Config, end int64, cut bool) error {
	least, err := j.encode()
	if err != nil {
		return err
	}
	old, err := os.OpenFile(cfg.Path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	j.file, j.size, j.due = diskFile{old}, end, dueAfter(int64(len(least)))
	if cut {
		// Only if needed: truncating frees the reserved space, which a full disk may need.
		err = old.Truncate(end)
	}
	if err == nil {
		err = old.Sync()
	}
	if err == nil {
		err = j.write([]entry{{records: []*journalpb.Record{j.woke(cfg)}}})
	}
	if err != nil {
		return errors.Join(err, j.file.Close())
	}
	return nil
}

func born(cfg Config) *State {
	life := cfg.Life
	if life == 0 {
		life = newLife(time.Now())
	}
	return &State{Node: cfg.Node, Life: life, Jobs: map[string]*Job{}}
}

// newLife returns the number of an incarnation that begins now. It is greater than all earlier
// ones. Its highest bit is set, so it is also greater than the number of any incarnation without a
// journal: those have 63 bits.
func newLife(now time.Time) uint64 { return 1<<63 | uint64(now.UnixNano()) }

// woke returns the record of a new session. Its number is greater than that of earlier sessions. It
// is taken from the time, so that the sessions of a copied state folder differ.
func (j *Journal) woke(cfg Config) *journalpb.Record {
	session := max(j.state.Session+1, uint64(time.Now().UnixNano()))
	return &journalpb.Record{
		Time:  timestamppb.Now(),
		Event: &journalpb.Record_Woke{Woke: &journalpb.Woke{Session: session, Version: cfg.Version}},
	}
}

// Append writes records to disk, in the order of the calls. done is called once, from another
// goroutine, and must not block. It gets an error if the records may not be on disk; all later
// records then fail too. On a full disk records wait: see Full.
func (j *Journal) Append(done func(error), records ...*journalpb.Record) {
	now := timestamppb.Now()
	for _, record := range records {
		record.Time = now
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closing {
		go done(fmt.Errorf("write journal %s: %w", j.path, ErrClosed))
		return
	}
	j.queue = append(j.queue, entry{records, done})
	j.more.Signal()
}

// Close writes waiting records, as far as there is space, and closes the file. It may be called
// twice.
func (j *Journal) Close() error {
	j.mu.Lock()
	if !j.closing {
		j.closing = true
		close(j.stop)
	}
	j.more.Signal()
	j.mu.Unlock()
	<-j.ended
	return j.failed
}

// run writes batches until the journal is closed.
func (j *Journal) run() {
	defer close(j.ended)
	for {
		j.mu.Lock()
		for len(j.queue) == 0 && !j.closing {
			j.more.Wait()
		}
		batch := j.queue
		j.queue = nil
		j.mu.Unlock()
		if len(batch) == 0 {
			if err := j.file.Close(); err != nil && j.failed == nil {
				j.failed = fmt.Errorf("close journal %s: %w", j.path, err)
			}
			return
		}
		err := j.commit(batch)
		for _, e := range batch {
			e.done(err)
		}
	}
}

// commit writes a batch to disk. Once a write has failed, commit writes nothing more and returns
// the error of that write.
func (j *Journal) commit(batch []entry) error {
	if j.failed != nil {
		return j.failed
	}
	if err := j.write(batch); err != nil {
		j.failed = fmt.Errorf("write journal %s: %w", j.path, explain(err))
	}
	return j.failed
}
