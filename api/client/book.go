package client

import (
	"slices"
	"sync"
)

// maxLearned bounds the addresses that hints add.
const maxLearned = 16

// book knows where replicas are, and which one to ask next: the one that answered
// last.
type book struct {
	mu        sync.Mutex
	addresses []string
	learned   int
	current   int
}

func newBook(addresses []string) *book {
	b := &book{}
	for _, address := range addresses {
		if !slices.Contains(b.addresses, address) {
			b.addresses = append(b.addresses, address)
		}
	}
	return b
}

func (b *book) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.addresses)
}

// next returns the address to ask.
func (b *book) next() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addresses[b.current]
}

// failed turns to another replica than the one at address, which did not answer:
// to the leader when one was hinted at, or else to the next one. When another
// call has turned already there is nothing to do.
func (b *book) failed(address, leader string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.addresses[b.current] != address {
		return
	}
	if leader == "" || leader == address {
		b.current = (b.current + 1) % len(b.addresses)
		return
	}
	i := slices.Index(b.addresses, leader)
	if i < 0 {
		if b.learned == maxLearned || checkAddress(leader) != nil {
			b.current = (b.current + 1) % len(b.addresses)
			return
		}
		b.learned++
		b.addresses = append(b.addresses, leader)
		i = len(b.addresses) - 1
	}
	b.current = i
}
