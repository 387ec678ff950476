package client

import (
	"fmt"
	"reflect"
	"sync"

	"connectrpc.com/connect"

	"weir/messages/apipb/apipbconnect"
)

// Client calls a cluster. It is safe for concurrent use.
type Client struct {
	*caller
	clusterCalls
	memoryCalls
	outputCalls
	execCalls
}

// clusterCalls are calls about replicas and nodes.
type clusterCalls struct{ *caller }

// memoryCalls are calls about statistics of jobs, and about the memory profiles learned from them.
type memoryCalls struct{ *caller }

// outputCalls are calls about what jobs have written: to their stdout and stderr, and to files.
type outputCalls struct{ *caller }

// caller tries replicas until one answers.
type caller struct {
	cfg  Config
	book *book

	mu       sync.Mutex
	replicas map[string]replica

	// told ensures that Trying is called once.
	told sync.Once
}

// New returns a client. It connects with the first call.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	c := &caller{cfg: cfg, book: newBook(cfg.Addresses), replicas: make(map[string]replica)}
	return &Client{caller: c, clusterCalls: clusterCalls{c}, memoryCalls: memoryCalls{c}, outputCalls: outputCalls{c}, execCalls: execCalls{c}}, nil
}

// Close closes idle connections.
func (c *caller) Close() {
	if idle, ok := c.cfg.HTTP.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

// Addresses returns the addresses of the known replicas: those of the configuration, and
// leaders that replicas hinted at.
func (c *caller) Addresses() []string { return c.book.all() }

// replica holds a client for each service of one replica.
type replica []any

// service returns the service of a replica that has the methods of S.
func service[S any](r replica) S {
	for _, of := range r {
		if s, ok := of.(S); ok {
			return s
		}
	}
	panic(fmt.Sprintf("a replica has no %v", reflect.TypeFor[S]()))
}

// at returns the replica at an address.
func (c *caller) at(address string) replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.replicas[address]; ok {
		return r
	}
	client, url, limit := c.cfg.HTTP, c.cfg.URL(address), connect.WithReadMaxBytes(maxAnswerBytes)
	c.replicas[address] = replica{
		apipbconnect.NewOperationServiceClient(client, url, limit),
		apipbconnect.NewJobServiceClient(client, url, limit),
		apipbconnect.NewMemoryServiceClient(client, url, limit),
		apipbconnect.NewPoolServiceClient(client, url, limit),
		apipbconnect.NewAccessServiceClient(client, url, limit),
		apipbconnect.NewTreeServiceClient(client, url, limit),
		apipbconnect.NewAttributeServiceClient(client, url, limit),
		apipbconnect.NewNodeServiceClient(client, url, limit),
		apipbconnect.NewClusterServiceClient(client, url, limit),
		apipbconnect.NewEventServiceClient(client, url, limit),
		apipbconnect.NewAuditServiceClient(client, url, limit),
		apipbconnect.NewExplainServiceClient(client, url, limit),
	}
	return c.replicas[address]
}

// maxAnswerBytes bounds the size of one answer: a list of 1000 operations with 100 tasks
// each is smaller.
const maxAnswerBytes = 64 << 20
