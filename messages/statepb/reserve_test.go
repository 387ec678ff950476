package statepb

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

func TestReserve(t *testing.T) {
	learned := &JobReserve{User: 70, Proxy: 30, UserFactor: 0.7, ProxyFactor: 1, ProxyEstimate: 20}
	for story, test := range map[string]struct {
		of     *JobReserve
		memory int64
		want   *JobReserve
	}{
		"as much as was planned":                 {learned, 100, learned},
		"planned before more was learned":        {learned, 150, &JobReserve{User: 120, Proxy: 30, UserFactor: 0.7, ProxyFactor: 1, ProxyEstimate: 20}},
		"less than the proxy alone":              {learned, 15, &JobReserve{User: 0, Proxy: 30, UserFactor: 0.7, ProxyFactor: 1, ProxyEstimate: 20}},
		"nothing is known of what is for whom":   {nil, 100, nil},
		"the job that overdrafted is still told": {&JobReserve{User: 1, Predecessor: "j"}, 5, &JobReserve{User: 5, Predecessor: "j"}},
	} {
		t.Run(story, func(t *testing.T) {
			if got := test.of.Holding(test.memory); !proto.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if learned.Total() != 100 {
		t.Errorf("total %d, want 100", learned.Total())
	}
}

func TestResourcesOf(t *testing.T) {
	task := &Task{JobResources: &Resources{UserSlots: 1, CpuHundredths: 200, Gpu: 3, Memory: 400, Network: 5}}
	if got := task.ResourcesOf(0); got != task.GetJobResources() {
		t.Errorf("of what was learned: got %v", got)
	}
	if got, want := task.ResourcesOf(900), (&Resources{UserSlots: 1, CpuHundredths: 200, Gpu: 3, Memory: 900, Network: 5}); !proto.Equal(got, want) {
		t.Errorf("of a dedicated reserve: got %v, want %v", got, want)
	}
}
