package client

import (
	"sync"

	"connectrpc.com/connect"

	"weir/messages/apipb/apipbconnect"
)

// Client calls a cluster. It is safe for concurrent use.
type Client struct {
	*caller
	clusterCalls
	memoryCalls
}

// clusterCalls are calls about replicas and nodes.
type clusterCalls struct{ *caller }

// memoryCalls are calls about statistics of jobs and the memory profiles made of them.
type memoryCalls struct{ *caller }

// caller tries replicas until one answers.
type caller struct {
	cfg  Config
	book *book

	mu       sync.Mutex
	replicas map[string]*replica

	// told: Trying has been.
	told sync.Once
}

// New returns a client. It connects with the first call.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	c := &caller{cfg: cfg, book: newBook(cfg.Addresses), replicas: make(map[string]*replica)}
	return &Client{caller: c, clusterCalls: clusterCalls{c}, memoryCalls: memoryCalls{c}}, nil
}

// Close ends the connections that are kept open for further calls.
func (c *caller) Close() {
	if idle, ok := c.cfg.HTTP.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

// Addresses returns the replicas that are known: those of the configuration, and
// leaders that were hinted at.
func (c *caller) Addresses() []string { return c.book.all() }

// replica is the services of one replica.
type replica struct {
	operations apipbconnect.OperationServiceClient
	jobs       apipbconnect.JobServiceClient
	memory     apipbconnect.MemoryServiceClient
	pools      apipbconnect.PoolServiceClient
	trees      apipbconnect.TreeServiceClient
	attributes apipbconnect.AttributeServiceClient
	nodes      apipbconnect.NodeServiceClient
	cluster    apipbconnect.ClusterServiceClient
	events     apipbconnect.EventServiceClient
	explain    apipbconnect.ExplainServiceClient
}

// at returns the replica at an address.
func (c *caller) at(address string) *replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.replicas[address]; ok {
		return r
	}
	url := c.cfg.URL(address)
	limit := connect.WithReadMaxBytes(maxAnswerBytes)
	r := &replica{
		operations: apipbconnect.NewOperationServiceClient(c.cfg.HTTP, url, limit),
		jobs:       apipbconnect.NewJobServiceClient(c.cfg.HTTP, url, limit),
		memory:     apipbconnect.NewMemoryServiceClient(c.cfg.HTTP, url, limit),
		pools:      apipbconnect.NewPoolServiceClient(c.cfg.HTTP, url, limit),
		trees:      apipbconnect.NewTreeServiceClient(c.cfg.HTTP, url, limit),
		attributes: apipbconnect.NewAttributeServiceClient(c.cfg.HTTP, url, limit),
		nodes:      apipbconnect.NewNodeServiceClient(c.cfg.HTTP, url, limit),
		cluster:    apipbconnect.NewClusterServiceClient(c.cfg.HTTP, url, limit),
		events:     apipbconnect.NewEventServiceClient(c.cfg.HTTP, url, limit),
		explain:    apipbconnect.NewExplainServiceClient(c.cfg.HTTP, url, limit),
	}
	c.replicas[address] = r
	return r
}

// maxAnswerBytes bounds what a replica can make the client hold: a list of 1000
// operations with 100 tasks each takes less.
const maxAnswerBytes = 64 << 20
