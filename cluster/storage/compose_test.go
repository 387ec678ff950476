package storage

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPiecesAreAllPartsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(
			rapid.Int64Range(0, 100), rapid.Int64Range(leastPiece-3, leastPiece+3), rapid.Int64Range(0, 20<<30),
		), 1, 60).Draw(t, "sizes")
		var total int64
		for _, size := range sizes {
			total += size
		}
		pieces, err := compose(sizes)
		if err != nil {
			t.Fatal(err)
		}
		part, at := 0, int64(0)
		for i, piece := range pieces {
			if n := piece.bytes(); n > mostPiece || n < leastPiece && i < len(pieces)-1 {
				t.Fatalf("piece %d of %d has %d bytes", i, len(pieces), n)
			}
			for _, e := range piece.extents {
				for at == sizes[part] {
					part, at = part+1, 0
				}
				if e.begin == e.end {
					continue
				}
				if e.part != part || e.begin != at {
					t.Fatalf("piece %d goes on at %d of part %d, want %d of %d", i, e.begin, e.part, at, part)
				}
				at = e.end
			}
			total -= piece.bytes()
		}
		if total != 0 || len(pieces) > mostPieces {
			t.Fatalf("%d pieces lack %d bytes", len(pieces), total)
		}
	})
}

func TestManySmallPartsAreFewPieces(t *testing.T) {
	sizes := make([]int64, 100000)
	for i := range sizes {
		sizes[i] = 10 << 20
	}
	pieces, err := compose(sizes)
	if err != nil {
		t.Fatal(err)
	}
	if len(pieces) > mostPieces {
		t.Errorf("%d pieces", len(pieces))
	}
	if _, err := compose([]int64{mostBytes, 1}); err == nil {
		t.Error("an object of too many bytes")
	}
}
