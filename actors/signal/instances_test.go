package signal

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

func placed(job string, cookie int32, stop *statepb.StopOrder) Placed {
	return Placed{Stop: stop, Allocation: &statepb.Allocation{
		JobId: job, OperationId: "op", Task: "serve", Cookie: cookie, Node: "n1", Ports: []int32{21000 + cookie}, StartTime: timestamppb.New(noon),
	}}
}

func heard(job string, cookie int32, gone bool) *actorpb.InterruptionSignal {
	return &actorpb.InterruptionSignal{
		OperationId: "op", JobId: job, Task: "serve", Cookie: cookie, Node: "n1", Ports: []int32{21000 + cookie}, StartTime: timestamppb.New(noon),
		Reason: "user_request", Deadline: timestamppb.New(noon.Add(time.Minute)), Gone: gone,
	}
}

// says has job a say a word.
func says(word string) map[string]*actorpb.InstanceWord {
	return map[string]*actorpb.InstanceWord{"a": {JobId: "a", OperationId: "op", Word: word, Reason: "503"}}
}

func readyText(in *actorpb.Instance) string {
	switch {
	case in.GetReady():
		return ", ready"
	case in.GetUnready() != "":
		return ", not ready: " + in.GetUnready()
	}
	return ""
}

func TestInstances(t *testing.T) {
	order := &statepb.StopOrder{Reason: "preemption", Interruption: "preemption", GraceMillis: 30_000, Time: timestamppb.New(noon)}
	tests := map[string]struct {
		placed []Placed
		heard  []*actorpb.InterruptionSignal
		words  map[string]*actorpb.InstanceWord
		// unheard: node n1 is.
		unheard bool
		want    []string
	}{
		"an operation without jobs":                    {},
		"jobs are sorted by cookie":                    {placed: []Placed{placed("b", 1, nil), placed("a", 0, nil)}, want: []string{"a 0 h1:[21000] live, ready", "b 1 h1:[21001] live, ready"}},
		"a job that was told to go":                    {placed: []Placed{placed("a", 0, order)}, want: []string{"a 0 h1:[21000] draining preemption +30s"}},
		"a job that is said to go before it is told":   {placed: []Placed{placed("a", 0, nil)}, heard: []*actorpb.InterruptionSignal{heard("a", 0, false)}, want: []string{"a 0 h1:[21000] draining user_request +1m0s"}},
		"what is committed counts more than advice":    {placed: []Placed{placed("a", 0, order)}, heard: []*actorpb.InterruptionSignal{heard("a", 0, false)}, want: []string{"a 0 h1:[21000] draining preemption +30s"}},
		"a job that has gone and is in the state":      {placed: []Placed{placed("a", 0, order)}, heard: []*actorpb.InterruptionSignal{heard("a", 0, true)}, want: []string{"a 0 h1:[21000] gone"}},
		"a job that has gone":                          {heard: []*actorpb.InterruptionSignal{heard("a", 0, true)}, want: []string{"a 0 h1:[21000] gone"}},
		"the word that a job has gone was lost":        {heard: []*actorpb.InterruptionSignal{heard("a", 0, false)}, want: []string{"a 0 h1:[21000] gone"}},
		"a job has gone and its cookie runs elsewhere": {placed: []Placed{placed("z", 0, nil)}, heard: []*actorpb.InterruptionSignal{heard("a", 0, true)}, want: []string{"a 0 h1:[21000] gone", "z 0 h1:[21000] live, ready"}},
		"a job of a task with readiness, not heard of": {placed: []Placed{{Allocation: placed("a", 0, nil).Allocation, Readiness: true}}, want: []string{"a 0 h1:[21000] live"}},
		"and when it is said to be ready":              {placed: []Placed{{Allocation: placed("a", 0, nil).Allocation, Readiness: true}}, words: says("ready"), want: []string{"a 0 h1:[21000] live, ready"}},
		"a job that says it is not ready":              {placed: []Placed{placed("a", 0, nil)}, words: says("not_ready"), want: []string{"a 0 h1:[21000] live, not ready: 503"}},
		"a job that says it is about to leave":         {placed: []Placed{placed("a", 0, nil)}, words: says("draining"), want: []string{"a 0 h1:[21000] draining own_word"}},
		"an order counts more than its word":           {placed: []Placed{placed("a", 0, order)}, words: says("ready"), want: []string{"a 0 h1:[21000] draining preemption +30s"}},
		"its node is not heard":                        {placed: []Placed{placed("a", 0, nil)}, words: says("ready"), unheard: true, want: []string{"a 0 h1:[21000] live, not ready: its node is not heard"}},
		"its node is not heard, and it leaves":         {placed: []Placed{placed("a", 0, order)}, unheard: true, want: []string{"a 0 h1:[21000] draining preemption +30s"}},
	}
	versions := map[string]string{}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			known := Known{Operation: "op", Placed: test.placed, Heard: test.heard, Words: test.words, Unheard: func(node string) bool { return test.unheard || node == "n2" }, HostOf: func(node string) string { return strings.Replace(node, "n", "h", 1) }}
			got := known.Instances()
			var lines []string
			for _, in := range got.GetInstances() {
				line := fmt.Sprintf("%s %d %s:%v %s%s", in.GetJobId(), in.GetCookie(), in.GetHost(), in.GetPorts(), in.GetState(), readyText(in))
				if in.GetReason() != "" {
					line += " " + in.GetReason()
				}
				if in.GetDeadline() != nil {
					line += fmt.Sprint(" +", in.GetDeadline().AsTime().Sub(noon))
				}
				lines = append(lines, line)
			}
			if !slices.Equal(lines, test.want) {
				t.Errorf("got %q, want %q", lines, test.want)
			}
			slices.Reverse(test.placed)
			again := known.Instances()
			if got.GetVersion() == "" || again.GetVersion() != got.GetVersion() {
				t.Errorf("versions %q and %q of the same", got.GetVersion(), again.GetVersion())
			}
			if shown := versions[got.GetVersion()]; shown != "" && shown != fmt.Sprint(lines) {
				t.Errorf("%q have the version of %q", lines, shown)
			}
			versions[got.GetVersion()] = fmt.Sprint(lines)
		})
	}
	if (Known{Operation: "op", Over: true}).Instances().GetVersion() == (Known{Operation: "op"}).Instances().GetVersion() {
		t.Error("the end of an operation is no news")
	}
}

func TestTableByOperation(t *testing.T) {
	now := noon
	signals := NewSignals(time.Minute, 2, func() time.Time { return now })
	for _, job := range []string{"a", "b", "c"} {
		signals.Add(heard(job, 0, false))
	}
	if got := signals.OfOperation("op"); len(got) != 2 {
		t.Errorf("%d signals of the operation, want the 2 that are kept", len(got))
	}
	now = noon.Add(time.Hour)
	if got := signals.Expire(); len(got) != 2 || got[0].GetOperationId() != "op" {
		t.Errorf("forgot %v, want the signals of op", got)
	}
	if got := signals.OfOperation("op"); len(got) != 0 {
		t.Errorf("after an hour: %v", got)
	}
}
