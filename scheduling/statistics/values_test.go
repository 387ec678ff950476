package statistics

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// given are the numbers that names have in logs and on disks.
//
//go:embed testdata/numbers.txt
var given string

func TestNumbersStay(t *testing.T) {
	var now strings.Builder
	for number, known := range byNumber {
		fmt.Fprintln(&now, number, known.Name)
	}
	if !strings.HasPrefix(now.String(), given) {
		t.Errorf("numbers have changed: got\n%s\nwant that it begins with\n%s", now.String(), given)
	}
	if now.String() != given {
		t.Error("there are new numbers: add them to testdata/numbers.txt")
	}
	if len(numbers) != len(byNumber) {
		t.Error("a name has two numbers")
	}
}

func TestValues(t *testing.T) {
	var v Values
	if packed, others := v.Pack(); len(packed) != 0 || others != nil {
		t.Errorf("nothing is packed as %x and %v", packed, others)
	}
	for _, name := range []string{TimeTotal, "user_job/mood"} {
		v.Put(name, 1)
		v.Put(name, -7)
		if got, ok := v.Get(name); got != -7 || !ok {
			t.Errorf("%s: got %d, %t", name, got, ok)
		}
		v.Delete(name)
		if got, ok := v.Get(name); got != 0 || ok {
			t.Errorf("%s after Delete: got %d, %t", name, got, ok)
		}
	}
	v.Put(DataInputBytes, 5)
	v.Put(DataOutputBytes, -1)
	v.Put("user_job/mood", 3)
	packed, others := v.Pack()
	if want := []byte{1, 10, 2, 1}; !bytes.Equal(packed, want) || !maps.Equal(others, map[string]int64{"user_job/mood": 3}) {
		t.Errorf("packed as %v and %v, want %v", packed, others, want)
	}
}

func TestWhatCannotBeUnpacked(t *testing.T) {
	unknown := byte(len(byNumber) + 1)
	for story, test := range map[string]struct {
		packed      []byte
		want        string
		wantUnknown bool
	}{
		"a number without a value":      {[]byte{1}, "expected a value of data/input/bytes", false},
		"half a value":                  {[]byte{1, 0x80}, "expected a value of data/input/bytes", false},
		"half a number":                 {[]byte{1, 0, 0x80}, "expected a statistic number after 0", false},
		"a number that is too long":     {bytes.Repeat([]byte{0xff}, 11), "expected a statistic number after -1", false},
		"a number twice":                {[]byte{2, 0, 0, 0}, "expected a statistic number after 1", false},
		"a number of a newer version":   {[]byte{unknown, 0}, "46 more than -1, but the greatest is 44", true},
		"one after others":              {[]byte{3, 0, unknown - 3, 0}, "43 more than 2", true},
		"one that is out of all ranges": {[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0}, "18446744073709551615 more", true},
	} {
		t.Run(story, func(t *testing.T) {
			err := Check(test.packed)
			if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, ErrUnknownNumber) != test.wantUnknown {
				t.Errorf("got %v, want %q", err, test.want)
			}
			values, again := Unpack(test.packed, map[string]int64{"a": 1})
			if again == nil || values != nil || again.Error() != err.Error() {
				t.Errorf("unpacked to %v, %v", values, again)
			}
			if got, ok := Find(test.packed, UserTmpfsSize); ok {
				t.Errorf("found %d in it", got)
			}
			var s Sums
			if err := s.Add("completed", test.packed, nil); err == nil || len(s.Set) > 0 {
				t.Errorf("added: %v, %v", s.Set, err)
			}
		})
	}
}

// drawMeasured draws what may have been measured of a job: some of all names, or of few, so
// that jobs have the same.
func drawMeasured(t *rapid.T) map[string]int64 {
	name := rapid.SampledFrom([]string{DataInputRows, TimeTotal, UserTmpfsSize})
	if rapid.Bool().Draw(t, "of all names") {
		known := rapid.Map(rapid.SampledFrom(byNumber[:]), func(d Description) string { return d.Name })
		name = rapid.OneOf(known, rapid.StringMatching(`own/[a-e]`))
	}
	amount := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 1<<40), rapid.SampledFrom([]int64{0, -1, math.MaxInt64, math.MinInt64}))
	return rapid.MapOf(name, amount).Draw(t, "measured")
}

func pack(measured map[string]int64) (packed []byte, others map[string]int64) {
	var v Values
	for name, amount := range measured {
		v.Put(name, amount)
	}
	return v.Pack()
}

func TestPackedValuesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		measured := drawMeasured(t)
		packed, others := pack(measured)
		back, err := Unpack(packed, others)
		if err != nil || !maps.Equal(back, measured) {
			t.Fatalf("%v came back as %v, %v", measured, back, err)
		}
		for name := range others {
			if _, ok := numbers[name]; ok {
				t.Fatalf("%s has a number and is kept by name", name)
			}
		}
		for _, known := range byNumber {
			want, there := measured[known.Name]
			if got, ok := Find(packed, known.Name); got != want || ok != there {
				t.Fatalf("%s: found %d, %t in %v", known.Name, got, ok, measured)
			}
		}
		if _, ok := Find(packed, "own/a"); ok {
			t.Fatal("found a name that has no number")
		}
	})
}

// TestSumsAreThoseOfNames adds the same jobs packed and by name, also when there are too
// many names, and when sums have been copied or shared out between two.
func TestSumsAreThoseOfNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sums Sums
		var want Set
		if rapid.Bool().Draw(t, "crowded") {
			for i := range MaxNames - 20 {
				crowd := map[string]int64{fmt.Sprint("z", i): 1}
				want.Add("completed", crowd)
				if err := sums.Add("completed", nil, crowd); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range rapid.IntRange(0, 12).Draw(t, "jobs") {
			measured := drawMeasured(t)
			state := rapid.SampledFrom([]string{"completed", "failed", "aborted"}).Draw(t, "state")
			want.Add(state, measured)
			packed, others := pack(measured)
			if rapid.Bool().Draw(t, "by name") {
				packed, others = nil, measured
			}
			if err := sums.Add(state, packed, others); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "copied") {
				before := sums
				sums = before.Clone()
				if err := before.Add(state, packed, others); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !reflect.DeepEqual(sums.Set, want) {
			t.Fatalf("packed: %+v\nby name: %+v", sums.Set, want)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	all := make(map[string]int64)
	for i, known := range byNumber {
		all[known.Name] = int64(1)<<i - int64(i)
	}
	packed, _ := pack(all)
	for _, seed := range [][]byte{nil, packed, packed[:len(packed)-1], {1, 10, 2, 1}, {1, 0x80, 0}, {0, 0}, {200, 1}, bytes.Repeat([]byte{0xff}, 12)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		values, err := Unpack(packed, nil)
		if checked := Check(packed); (checked == nil) != (err == nil) {
			t.Fatalf("Check says %v, Unpack %v", checked, err)
		}
		var sums Sums
		if added := sums.Add("completed", packed, nil); (added == nil) != (err == nil) {
			t.Fatalf("Add says %v, Unpack %v", added, err)
		}
		if err != nil {
			return
		}
		again, others := pack(values)
		if back, err := Unpack(again, others); err != nil || !maps.Equal(back, values) || len(again) > len(packed) {
			t.Fatalf("%x are %v, which came back as %v, %v from %x", packed, values, back, err, again)
		}
		for name, want := range values {
			if got, ok := Find(packed, name); got != want || !ok || sums.Of(name, "completed").Sum != want {
				t.Fatalf("%s: found %d, %t, summed up %+v, want %d", name, got, ok, sums.Of(name, "completed"), want)
			}
		}
	})
}

func BenchmarkSums(b *testing.B) {
	measured := make(map[string]int64)
	for i, known := range byNumber {
		measured[known.Name] = int64(1000 * i)
	}
	packed, _ := pack(measured)
	var s Sums
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Add("completed", packed, nil); err != nil {
			b.Fatal(err)
		}
	}
}
