package statepb

import (
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/scheduling/statistics"
)

// TestSumsTakeNoMoreThanTheySay (T4) adds any values: what the sums take as records is at most what they say
// that they take, which is not much more than needed.
func TestSumsTakeNoMoreThanTheySay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "user_job/max_memory", "time/total", strings.Repeat("n", 200)}
		values := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, 1, math.MaxInt64, math.MinInt64}), rapid.Int64Range(-100, 100))
		var sums statistics.Sums
		for range rapid.IntRange(0, 300).Draw(t, "jobs") {
			measured := map[string]int64{rapid.SampledFrom(names).Draw(t, "name"): values.Draw(t, "value")}
			var packed statistics.Values
			for name, value := range measured {
				packed.Put(name, value)
			}
			bytes, others := packed.Pack()
			add, most := sums.Add, int64(math.MaxInt64)
			if rapid.IntRange(0, 20).Draw(t, "room") == 0 {
				add, most = sums.AddWithoutRoom, sums.Bytes()
			}
			if err := add(rapid.SampledFrom([]string{"completed", "failed"}).Draw(t, "state"), bytes, others); err != nil {
				t.Fatal(err)
			}
			if sums.Bytes() > most {
				t.Fatalf("without room %d bytes became %d", most, sums.Bytes())
			}
			if rapid.IntRange(0, 9).Draw(t, "copied") == 0 {
				sums = sums.Clone()
			}
		}
		fresh := statistics.NewSums(sums.Clone().Set)
		size := int64(proto.Size(&Task{Statistics: NewAggregates(sums.Set)}))
		if size > sums.Bytes() || 4*size < sums.Bytes() || sums.Bytes() != fresh.Bytes() {
			t.Fatalf("takes %d bytes, says %d, a new one %d", size, sums.Bytes(), fresh.Bytes())
		}
	})
}

func TestAggregatesComeBack(t *testing.T) {
	var set statistics.Set
	set.Add("completed", map[string]int64{"user_job/max_memory": 1 << 30, "time/total": 12})
	set.Add("completed", map[string]int64{"user_job/max_memory": 3 << 28})
	set.Add("failed", map[string]int64{"time/total": -1})
	records := NewAggregates(set)
	records[0], records[1] = records[1], records[0]
	if got := Aggregates(records); !reflect.DeepEqual(got, set) {
		t.Errorf("got %+v, want %+v", got, set)
	}
}

func TestMeasuredInBothForms(t *testing.T) {
	want := map[string]int64{"time/total": 12, "user_job/max_memory": 7, "own": -1}
	var values statistics.Values
	for name, amount := range want {
		values.Put(name, amount)
	}
	packed, others := values.Pack()
	for story, s := range map[string]*JobStatistics{"packed": {Packed: packed, Values: others}, "by name": {Values: want}} {
		t.Run(story, func(t *testing.T) {
			if got := s.Measured(); !maps.Equal(got, want) {
				t.Errorf("got %v", got)
			}
			for name, amount := range want {
				if got := s.Value(name); got != amount {
					t.Errorf("%s: got %d, want %d", name, got, amount)
				}
			}
			s.Measured()["own"] = 5
			if got := s.Value("own"); got != -1 || s.Value("time/exec") != 0 {
				t.Errorf("a reader has changed the record: %d", got)
			}
		})
	}
	for story, s := range map[string]*JobStatistics{"nothing": nil, "empty": {}, "damaged": {Packed: []byte{0}, Values: want}} {
		if got := s.Measured(); got != nil {
			t.Errorf("%s: got %v", story, got)
		}
	}
}
