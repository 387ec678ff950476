package storage

import "fmt"

// S3's limits on an object that is uploaded in parts.
const (
	// A piece has at least leastPiece and at most mostPiece bytes. Only the last piece may be
	// smaller.
	leastPiece = 5 << 20
	mostPiece  = 5 << 30
	mostPieces = 10000
	mostBytes  = 5 << 40
)

// extent is a range of a part: bytes [begin, end) of the part with this index.
type extent struct {
	part       int
	begin, end int64
}

// piece is a piece of the object to be composed: one extent that the store copies itself,
// or several small ones that are read and uploaded.
type piece struct {
	extents []extent
}

// copied reports whether the store can copy the piece itself.
func (p piece) copied() bool { return len(p.extents) == 1 }

func (p piece) bytes() (n int64) {
	for _, e := range p.extents {
		n += e.end - e.begin
	}
	return n
}

// compose cuts the concatenation of parts with the given sizes into pieces that a store accepts, so
// that as few bytes as possible pass through this process. The parts together have at least one
// byte.
func compose(sizes []int64) ([]piece, error) {
	var total int64
	for _, size := range sizes {
		total += size
	}
	if total > mostBytes {
		return nil, fmt.Errorf("%d bytes exceed the limit for one object: write to a folder, with a slash at the end of the path", total)
	}
	// The minimum for joined pieces is raised for large objects, to stay below mostPieces.
	least := max(leastPiece, total/(mostPieces-1)+1)
	var pieces []piece
	var open piece
	for i, size := range sizes {
		begin := int64(0)
		if have := open.bytes(); have > 0 && size > 0 {
			begin = min(size, least-have)
			open.extents = append(open.extents, extent{i, 0, begin})
			if open.bytes() >= least {
				pieces, open = append(pieces, open), piece{}
			}
		}
		for begin < size {
			end := min(size, begin+mostPiece)
			if rest := size - end; rest > 0 && rest < least {
				end -= least
			}
			next := piece{extents: []extent{{i, begin, end}}}
			if next.bytes() < least {
				open = next
			} else {
				pieces = append(pieces, next)
			}
			begin = end
		}
	}
	if open.bytes() > 0 {
		pieces = append(pieces, open)
	}
	return pieces, nil
}
