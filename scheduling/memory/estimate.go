package memory

// What a job proxy holds, in bytes, as measured of the program (J.1.6): by itself, and more for
// what it reads, writes and keeps.
const (
	proxyAlone = 10 << 20
	// readBuffer and writeBuffer are a block of input and one of output, with what the
	// collector leaves of the last ones.
	readBuffer, writeBuffer = 512 << 10, 512 << 10
	// storeBuffer is a connection to an object store.
	storeBuffer = 1 << 20
	// nameSize is what is known of a file that is read, or kept.
	nameSize = 1 << 10
)

// Streams are the inputs and outputs of a job.
type Streams struct {
	// Inputs are those that a map operation names, FromStore: in an object store.
	Inputs    int
	FromStore bool
	// Writes: its standard output is the operation's. Kept are files of its workspace that are
	// kept, one after the other. ToStore: some of it goes to an object store.
	Writes  bool
	Kept    int
	ToStore bool
}

// Estimate returns what the proxy of such a job is thought to need, in bytes.
func (s Streams) Estimate() int64 {
	estimate := int64(proxyAlone) + int64(s.Inputs+s.Kept)*nameSize
	for _, part := range []struct {
		has  bool
		size int64
	}{
		{s.Inputs > 0, readBuffer}, {s.Inputs > 0 && s.FromStore, storeBuffer},
		{s.Writes, writeBuffer}, {(s.Writes || s.Kept > 0) && s.ToStore, storeBuffer},
	} {
		if part.has {
			estimate += part.size
		}
	}
	return estimate
}
