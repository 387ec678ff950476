package filecache

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func indexWith(limit int64, sizes ...int64) *index {
	x := newIndex(limit)
	for i, size := range sizes {
		if _, ok := x.reserve(size); !ok {
			panic("no room")
		}
		x.add(fmt.Sprint("c", i), size)
	}
	return x
}

func TestIndexThrowsAwayWhatWasNotUsedForLongest(t *testing.T) {
	tests := map[string]struct {
		use, pin []string
		size     int64
		want     []string
		wantNone bool
	}{
		"there is room":                     {size: 10},
		"the oldest":                        {size: 30, want: []string{"c0"}},
		"as many as it takes":               {size: 60, want: []string{"c0", "c1"}},
		"not what was used since":           {use: []string{"c0"}, size: 30, want: []string{"c1"}},
		"not what is in use":                {pin: []string{"c0"}, size: 30, want: []string{"c1"}},
		"nothing, as it would not do":       {pin: []string{"c0", "c2"}, size: 50, wantNone: true},
		"all of it":                         {size: 100, want: []string{"c0", "c1", "c2"}},
		"more than there can be is no room": {size: 101, wantNone: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x := indexWith(100, 30, 30, 30)
			for _, hash := range test.use {
				x.unpin(x.pin(hash))
			}
			for _, hash := range test.pin {
				x.pin(hash)
			}
			got, ok := x.reserve(test.size)
			if diff := cmp.Diff(test.want, got); diff != "" || ok == test.wantNone {
				t.Errorf("reserve: %v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestIndexForgetsTheSourcesOfWhatItThrowsAway(t *testing.T) {
	x := indexWith(100, 60)
	x.learn("/a", "1", "c0")
	x.learn("/b", "", "c0")
	if hash := x.find("/a", "1"); hash != "c0" {
		t.Errorf("found %q", hash)
	}
	for source, version := range map[string]string{"/a": "2", "/b": "", "/c": "1"} {
		if hash := x.find(source, version); hash != "" {
			t.Errorf("%s in version %q is found as %q", source, version, hash)
		}
	}
	x.reserve(50)
	if hash := x.find("/a", "1"); hash != "" || len(x.sources) != 0 {
		t.Errorf("sources %v", x.sources)
	}
}

// TestIndexKeepsItsBound: whatever happens, contents and reservations are within the
// limit, nothing that is pinned goes, and the sums are those of what is there.
func TestIndexKeepsItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newIndex(rapid.Int64Range(1, 200).Draw(t, "limit"))
		pins, open := map[string][]*content{}, []int64(nil)
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				size := rapid.Int64Range(0, 120).Draw(t, "size")
				if _, ok := x.reserve(size); ok {
					open = append(open, size)
				}
			case 1:
				if len(open) > 0 {
					x.add(name.Draw(t, "content"), open[0])
					open = open[1:]
				}
			case 2:
				if len(open) > 0 {
					x.cancel(open[0])
					open = open[1:]
				}
			case 3:
				hash := name.Draw(t, "content")
				if held := x.pin(hash); held != nil {
					pins[hash] = append(pins[hash], held)
				}
			case 4:
				if hash := name.Draw(t, "content"); len(pins[hash]) > 0 {
					x.unpin(pins[hash][0])
					pins[hash] = pins[hash][1:]
				}
			}
			bytes, reserved := int64(0), int64(0)
			for _, c := range x.contents {
				bytes += c.size
			}
			for _, size := range open {
				reserved += size
			}
			if bytes != x.bytes || reserved != x.reserved || bytes+reserved > x.limit {
				t.Fatalf("%d bytes of %d and %d reserved of %d, at most %d", x.bytes, bytes, x.reserved, reserved, x.limit)
			}
			for hash, held := range pins {
				if len(held) > 0 && x.contents[hash] == nil {
					t.Fatalf("%s is in use and gone", hash)
				}
			}
		}
	})
}

// TestIndexTellsContentsOfOneHashApart: who still uses a content that was damaged, and has been
// dropped, has nothing to do with the one that took its place.
func TestIndexTellsContentsOfOneHashApart(t *testing.T) {
	x := indexWith(100, 60)
	damaged := x.pin("c0")
	x.drop("c0")
	if _, ok := x.reserve(60); !ok || !x.add("c0", 60) {
		t.Fatal("it has no place")
	}
	held := x.pin("c0")
	x.unpin(damaged)
	if evicted, ok := x.reserve(50); ok {
		t.Errorf("%v was thrown away, and is in use", evicted)
	}
	x.unpin(held)
	if evicted, ok := x.reserve(50); !ok || len(evicted) != 1 {
		t.Errorf("%v was thrown away, and nobody uses it: %t", evicted, ok)
	}
}
