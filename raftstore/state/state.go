package state

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/scheduling"
	"weir/scheduling/pooltree"
)

// Format returns the format of the records that a Frozen yields in a version of the cluster.
func Format(version uint32) uint32 { return min(version, 2) + 1 }

// State is the replicated state. One writer calls Apply and Freeze. Between these calls, any number
// of readers may call the other methods.
type State struct {
	lastIndex uint64
	lastTime  time.Time
	term      *statepb.Term
	clusterID string
	limits    *statepb.Limits
	// version is the version of the cluster: what is newer is not in the state.
	version uint32
	// pace is the committed pace of agents; nil before the first leader that has said it.
	pace *statepb.Pace
	// generation grows with each Freeze. A version made in an earlier generation may be shared with
	// a Frozen.
	generation uint64

	trees map[scheduling.TreeName]*tree
	// defaultTree is the pool tree of operations that name none.
	defaultTree scheduling.TreeName
	// lastPool is the latest id given to a pool.
	lastPool scheduling.PoolID
	nodes    map[scheduling.NodeID]*node
	// byName lists the nodes by name.
	byName []*node

	operations map[scheduling.OperationID]*operation
	// order lists the operations by acceptance.
	order []*operation
	// accepted is the number of operations accepted so far.
	accepted uint64
	// inProgress lists those that have not ended, by acceptance.
	inProgress []*operation
	// aliases maps each alias to the latest operation that has it.
	aliases   map[string]scheduling.OperationID
	mutations map[mutation]scheduling.OperationID
	// archive lists the operations that have ended, in the order of their end. It grows
	// at the end and shrinks at the front, so a Frozen may share it.
	archive []string
	// ended is the number of ends so far.
	ended uint64

	groups map[string]*statepb.Group
	// revocations are the certificates that are no longer accepted, by revocationKey.
	revocations map[string]*statepb.Revocation
	// accounts are the accounts of the machines that subjects may have jobs run as, by subject.
	accounts map[string]*statepb.Accounts
	// nodeGrants are what agents may claim, by pattern; none: whatever they like.
	nodeGrants map[string]*statepb.NodeGrant
	// refused are the registered nodes that claim more than grants give, with the reason. It is derived.
	refused map[scheduling.NodeID]string
	// stores are the object stores with credentials of their own, by name.
	stores map[string]*statepb.Store
	// quotas counts what operations take. It is derived from their records.
	quotas quotas
	// shelves are where the records of ended operations are.
	shelves shelves
	// edited are the operations that the command in progress has changed: true if more than their jobs
	// and tasks.
	edited map[*operation]bool

	allocations shards
	// profiles are the memory profiles that ended operations have saved, by key.
	profiles map[string]*statepb.MemoryProfile
	// profileBytes is what they take.
	profileBytes int64
	// claims and rates let a new leader continue where its predecessor stopped.
	claims claims
	rates  rates
}

// mutation identifies a request to start an operation, so that it can be retried: that of a user, or of
// an operator, who may have the same name.
type mutation struct {
	user       scheduling.User
	byOperator bool
	id         string
}

// mutationOf returns the request that has started an operation.
func mutationOf(op *statepb.Operation) mutation {
	return mutation{user: scheduling.User(op.GetUser()), byOperator: op.GetByOperator(), id: op.GetMutationId()}
}

// New returns the state before the first command: the pool tree
// scheduling.DefaultTree with the pool scheduling.DefaultPool, and nothing else.
func New() *State {
	s := empty()
	s.lastPool = 1
	t, err := newTree(scheduling.DefaultTree, pooltree.Default(), s.lastPool)
	if err != nil {
		panic(fmt.Sprintf("new state: the default pool tree is not valid: %v", err))
	}
	s.trees[scheduling.DefaultTree] = t
	s.defaultTree = scheduling.DefaultTree
	return s
}

func empty() *State {
	return &State{
		version:     versions.Oldest,
		term:        &statepb.Term{},
		limits:      DefaultLimits(),
		trees:       make(map[scheduling.TreeName]*tree),
		nodes:       make(map[scheduling.NodeID]*node),
		operations:  make(map[scheduling.OperationID]*operation),
		aliases:     make(map[string]scheduling.OperationID),
		mutations:   make(map[mutation]scheduling.OperationID),
		groups:      make(map[string]*statepb.Group),
		revocations: make(map[string]*statepb.Revocation),
		accounts:    make(map[string]*statepb.Accounts),
		nodeGrants:  make(map[string]*statepb.NodeGrant),
		refused:     make(map[scheduling.NodeID]string),
		stores:      make(map[string]*statepb.Store),
		quotas:      quotas{users: make(map[scheduling.User]usage)},
		profiles:    make(map[string]*statepb.MemoryProfile),
		claims:      newClaims(),
		rates:       make(rates),
	}
}

// Apply carries out a command of the log entry at index. It returns the result and the
// changes, in order. A refused command changes nothing but LastIndex. The commands of one
// entry are applied one by one, with the same index.
//
// The state keeps parts of msg, so msg must not be changed afterwards. Apply panics if msg is not a
// command that this version knows, or if index is less than that of an earlier command, because
// this replica would diverge from the others.
func (s *State) Apply(index uint64, msg proto.Message) (*commandpb.Result, []Event) {
	return ApplyBy(s, index, nil, msg)
}

// ApplyBy is like State.Apply, for a command that a subject asked for. The command is refused unless the
// subject has the right to it in the state before the command. If the subject is nil, the system
// proposed the command.
func ApplyBy(s *State, index uint64, by *commandpb.Subject, msg proto.Message) (*commandpb.Result, []Event) {
	if index < s.lastIndex {
		panic(fmt.Sprintf("apply %T at index %d: index %d has been applied already", msg, index, s.lastIndex))
	}
	s.lastIndex = index
	s.edited = nil
	drift(s)
	result := &commandpb.Result{Index: index}
	c := &change{State: s, by: by, index: index, now: s.lastTime, result: result}
	defer tidy(s)
	if refused := c.apply(msg); refused != nil {
		return &commandpb.Result{Index: index, Refusal: refused.record()}, nil
	}
	c.settleClaims()
	c.settleRates()
	c.trimKept()
	settleBytes(c)
	s.lastTime = c.now
	return result, c.events
}

// sorted yields a map in key order, because nothing may depend on the order of a map.
func sorted[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// listed returns the results of the function `of` for the values of a map, in key order.
func listed[K cmp.Ordered, V, R any](m map[K]V, of func(V) R) []R {
	all := make([]R, 0, len(m))
	for _, value := range sorted(m) {
		all = append(all, of(value))
	}
	return all
}

// made returns a map, and creates it first if it is nil.
func made[K comparable, V any](m *map[K]V) map[K]V {
	if *m == nil {
		*m = make(map[K]V)
	}
	return *m
}

// orEmpty returns the value of a key, or an empty value if the key is missing.
func orEmpty[K comparable, V any](m map[K]*V, key K) *V {
	if value, ok := m[key]; ok {
		return value
	}
	return new(V)
}
