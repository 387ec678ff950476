package raftstore

import (
	"sync"

	"weir/raftstore/command"
)

// proposed holds the commands of log entries that this replica has proposed and not yet applied.
// They were decoded when they were checked, so they need not be decoded again when they are
// applied: on the leader, raft applies an entry with the same slice that was proposed.
type proposed struct {
	mu sync.Mutex
	// entries are keyed by the address of their first byte, which is stable while in flight.
	entries map[*byte][]command.Decoded
}

// add keeps the commands of an entry until take or forget is called for the entry.
func (p *proposed) add(entry []byte, commands []command.Decoded) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.entries == nil {
		p.entries = make(map[*byte][]command.Decoded)
	}
	p.entries[&entry[0]] = commands
}

// forget drops an entry once raft has reported its outcome.
func (p *proposed) forget(entry []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.entries, &entry[0])
}

// take removes and returns the commands of an entry; it decodes those that are not held.
func (p *proposed) take(entry []byte) ([]command.Decoded, error) {
	if len(entry) > 0 {
		p.mu.Lock()
		commands, ok := p.entries[&entry[0]]
		delete(p.entries, &entry[0])
		p.mu.Unlock()
		if ok {
			return commands, nil
		}
	}
	return command.DecodeEntry(entry)
}
