package client

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxLearned bounds the addresses that hints add.
	maxLearned = 16
	// distrust is how long hints at a replica are ignored after it did not respond:
	// other replicas may notice the death of a leader later than this client.
	distrust = 3 * time.Second
)

// book holds the addresses of replicas and chooses the one to ask next: the hinted leader,
// or else the next in turn. All calls of a client share one book, so that only one call has to
// find out that a replica is dead.
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

// next returns the address for the next try of a call. The parameter last is the address of the
// previous try. The leader is preferred unless the parameter anyone is true.
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

// turn advances to the next address.
func (b *book) turn() { b.current = (b.current + 1) % len(b.addresses) }

// leads records a hint at the leader's address.
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

// answered records that a replica has responded.
func (b *book) answered(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.silent, address)
}

// failed records that a try at the replica at address failed. leader is the address that the
// replica hinted at, if any. silent says that the replica did not answer at all. The replica is no
// longer the current one, so that hints at a dead leader do not keep the client from asking the
// other replicas.
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
