package raftstore

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"weir/raftstore/command"
)

// proposed has the commands of log entries that this replica has proposed and not yet
// applied: they were decoded to be checked, and are not decoded again. Raft applies an
// entry of its own leader with the very bytes that it was given.
type proposed struct {
	mu sync.Mutex
	// entries are by the first of their bytes, which stay where they are meanwhile.
	entries map[*byte][]proto.Message
}

// add keeps the commands of an entry until it is taken or forgotten.
func (p *proposed) add(entry []byte, commands []proto.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.entries == nil {
		p.entries = make(map[*byte][]proto.Message)
	}
	p.entries[&entry[0]] = commands
}

// forget drops an entry of which raft has said what became of it.
func (p *proposed) forget(entry []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.entries, &entry[0])
}

// take returns the commands of an entry, once, and decodes them unless they are here.
func (p *proposed) take(entry []byte) ([]proto.Message, error) {
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
