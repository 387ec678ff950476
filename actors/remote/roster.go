package remote

// claim is a stream that is, or wants to be, the stream of its peer.
type claim struct {
	peer        string
	incarnation uint64
	// ours says that this side has dialed.
	ours bool
}

// dialer returns the name of the side that has opened the stream.
func (c claim) dialer(self string) string {
	if c.ours {
		return self
	}
	return c.peer
}

// replaces reports whether c takes the place of the stream that its peer has now.
//
// A new life of a peer does. Of two streams of one life the later counts when the
// same side has dialed both, because it knows that its earlier one is of no use.
// When both sides have dialed, both must come to the same end: the stream of the
// lesser name stays.
func (c claim) replaces(now claim, self string) bool {
	return c.incarnation != now.incarnation || c.ours == now.ours || c.dialer(self) < now.dialer(self)
}
