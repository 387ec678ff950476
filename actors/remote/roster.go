package remote

import "slices"

// rememberedLives is how many superseded incarnations of one peer are known.
// Only processes that were alive side by side need to be told apart.
const rememberedLives = 8

// roster knows which stream of a peer counts, and fences a peer's former lives
// off. It is not safe for concurrent use.
type roster struct {
	self  string
	peers map[string]*standing
}

// standing is what the roster knows of one peer.
type standing struct {
	current    *claim
	superseded []uint64
}

// claim is a stream that wants to be the stream of its peer.
type claim struct {
	// stream tells streams of this process apart.
	stream      uint64
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

// verdict is what the roster says to a claim.
type verdict struct {
	// refused is nil when the claim is good.
	refused *ErrRefused
	// replaces is the stream that has to give way, 0 when there is none.
	replaces uint64
	// rival is the incarnation of the peer that is connected now, when it is
	// another than the claim's; 0 otherwise.
	rival uint64
}

func newRoster(self string) *roster {
	return &roster{self: self, peers: make(map[string]*standing)}
}

// judge says what enter would do with c.
//
// A new life of a peer supersedes the connected one for ever: two processes
// that use one name cannot take it from each other in turns. Of two streams of
// one life the later counts when the same side has dialed both, because it
// knows that its earlier one is of no use. When both sides have dialed, both
// must come to the same end: the stream of the lesser name stays.
func (r *roster) judge(c claim) verdict {
	known := r.peers[c.peer]
	if known == nil {
		return verdict{}
	}
	if slices.Contains(known.superseded, c.incarnation) {
		return verdict{refused: refusef("incarnation %x of %s was superseded by a later process of the same name: stop one of them, or restart this one", c.incarnation, c.peer)}
	}
	now := known.current
	switch {
	case now == nil:
		return verdict{}
	case now.incarnation != c.incarnation:
		return verdict{replaces: now.stream, rival: now.incarnation}
	case now.ours == c.ours:
		return verdict{replaces: now.stream}
	case c.dialer(r.self) < now.dialer(r.self):
		return verdict{replaces: now.stream}
	}
	return verdict{refused: refusef("%s and %s are already connected", r.self, c.peer)}
}

// enter makes c the stream of its peer, unless judge refuses it.
func (r *roster) enter(c claim) verdict {
	v := r.judge(c)
	if v.refused != nil {
		return v
	}
	known := r.peers[c.peer]
	if known == nil {
		known = &standing{}
		r.peers[c.peer] = known
	}
	if v.rival != 0 {
		known.superseded = append(known.superseded, v.rival)
		if len(known.superseded) > rememberedLives {
			known.superseded = known.superseded[1:]
		}
	}
	known.current = &c
	return v
}

// leave forgets c, if it still is the stream of its peer.
func (r *roster) leave(c claim) {
	known := r.peers[c.peer]
	if known == nil || known.current == nil || known.current.stream != c.stream {
		return
	}
	known.current = nil
	if len(known.superseded) == 0 {
		delete(r.peers, c.peer)
	}
}
