package statepb

import (
	"maps"
	"reflect"
	"testing"

	"weir/scheduling/statistics"
)

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
