package client

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxLearned bounds the addresses that hints add.
	maxLearned = 16
	// distrust is how long a replica that was silent is not gone to on another's
	// word: replicas may notice the death of a leader later than we do.
	distrust = 3 * time.Second
)

// book knows where replicas are, and which one to ask next: the one that is said to
// lead, or else the one whose turn it is. All calls of a client share it, so that
// one of them finds out about a dead replica, and the others need not.
type book struct {
	now func() time.Time

	mu        sync.Mutex
	addresses []string
	learned   int
	current   int
	leader    string
	silent    map[string]time.Time
}

func newBook(addresses []string) *book {
	b := &book{now: time.Now, silent: make(map[string]time.Time)}
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

// next returns the address to ask, when the same call has last asked the one at
// last; with anyone, it does not matter who leads.
func (b *book) next(last string, anyone bool) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leader != "" && b.leader != last && !anyone && b.now().Sub(b.silent[b.leader]) >= distrust {
		return b.leader
	}
	if b.addresses[b.current] == last {
		b.turn()
	}
	return b.addresses[b.current]
}

// turn goes to the next address.
func (b *book) turn() { b.current = (b.current + 1) % len(b.addresses) }

// leads takes a hint at who leads.
func (b *book) leads(leader string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hint(leader)
}

func (b *book) hint(leader string) {
	if leader == "" || checkAddress(leader) != nil {
		return
	}
	if !slices.Contains(b.addresses, leader) {
		if b.learned == maxLearned {
			return
		}
		b.learned++
		b.addresses = append(b.addresses, leader)
	}
	b.leader = leader
}

// answered notes that a replica is there.
func (b *book) answered(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.silent, address)
}

// failed notes that the replica at address did not do what it was asked, and
// perhaps who leads instead; silent: that it did not answer at all. Its turn is
// over, so that hints at a dead leader do not keep us from asking everybody.
func (b *book) failed(address, leader string, silent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leader == address {
		b.leader = ""
	}
	if b.addresses[b.current] == address {
		b.turn()
	}
	if silent {
		b.silent[address] = b.now()
	}
	b.hint(leader)
}
