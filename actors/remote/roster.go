package remote

// claim describes a stream that is, or is to become, the stream with its peer.
type claim struct {
	peer        string
	incarnation uint64
	// ours says that this side has dialed.
	ours bool
}

// dialer returns the name of the side that opened the stream.
func (c claim) dialer(self string) string {
	if c.ours {
		return self
	}
	return c.peer
}

// replaces reports whether c takes the place of `now`, the peer's current stream.
//
// A stream with another incarnation of the peer replaces the current one. If the same side dialed
// two streams with one incarnation, the later stream replaces the earlier one, because that side
// has found the earlier one to be useless. If each side has dialed one, both sides must make the
// same decision: the stream that was dialed by the side with the lesser name wins.
func (c claim) replaces(now claim, self string) bool {
	return c.incarnation != now.incarnation || c.ours == now.ours || c.dialer(self) < now.dialer(self)
}
