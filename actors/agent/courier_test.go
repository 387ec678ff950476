package agent

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
)

func TestCourier(t *testing.T) {
	gone := errors.New("gone")
	found := func(id string) proto.Message {
		return &actorpb.ControllerFound{Controller: &actorpb.Replica{Id: id, Address: id + ":1"}}
	}
	refused := func(code string, retry int64) proto.Message { return &actorpb.Refused{Code: code, RetryMillis: retry} }
	type step struct {
		want      string
		reply     proto.Message
		err       error
		verdict   Verdict
		wantPause time.Duration
	}
	ms := time.Millisecond
	tests := map[string][]step{
		"the controller answers": {{want: "ask r1", reply: &actorpb.JobEndedAck{}, verdict: Answered}},
		"a busy controller is asked again when it says": {
			{want: "ask r1", reply: refused("overloaded", 500), wantPause: 500 * ms},
			{want: "ask r1", reply: refused("unavailable", 10), wantPause: 100 * ms},
			{want: "ask r1", reply: refused("unavailable", 999_999), wantPause: 2 * time.Second},
		},
		"a controller that is gone is looked for": {
			{want: "ask r1", err: gone, wantPause: 50 * ms},
			{want: "find r2", err: gone, wantPause: 100 * ms},
			{want: "find r3", reply: found("r1"), wantPause: 200 * ms},
			{want: "ask r1", err: gone, wantPause: 400 * ms},
			{want: "find r1", reply: found("r3")},
			{want: "ask r3", reply: &actorpb.JobSpec{}, verdict: Answered},
		},
		"a replica says who controls it": {
			{want: "ask r1", reply: found("r2")},
			{want: "ask r2", reply: found("r3"), wantPause: 50 * ms},
			{want: "ask r3", reply: found("r3"), wantPause: 100 * ms},
			{want: "ask r3", reply: &actorpb.JobSpec{}, verdict: Answered},
		},
		"nobody wants the job":                  {{want: "ask r1", reply: &actorpb.ControllerFound{}, verdict: Nobody}},
		"nobody wants it, says another":         {{want: "ask r1", err: gone, wantPause: 50 * ms}, {want: "find r2", reply: &actorpb.ControllerFound{}, verdict: Nobody}},
		"a controller that does not know":       {{want: "ask r1", reply: refused("not_found", 0), verdict: Answered}},
		"a replica that does not know":          {{want: "ask r1", err: gone, wantPause: 50 * ms}, {want: "find r2", reply: refused("not_found", 0), wantPause: 100 * ms}, {want: "find r3", err: gone, wantPause: 200 * ms}},
		"a redirect":                            {{want: "ask r1", reply: &actorpb.Redirect{}, wantPause: 50 * ms}, {want: "find r2", err: gone, wantPause: 100 * ms}},
		"an answer to another question":         {{want: "ask r1", err: gone, wantPause: 50 * ms}, {want: "find r2", reply: &actorpb.JobEndedAck{}, wantPause: 100 * ms}, {want: "find r3", err: gone, wantPause: 200 * ms}},
		"a controller that no address leads to": {{want: "ask r1", reply: &actorpb.ControllerFound{Controller: &actorpb.Replica{Id: "r9"}}, wantPause: 50 * ms}, {want: "find r2", err: gone, wantPause: 100 * ms}},
		"a refusal that time does not mend":     {{want: "ask r1", reply: refused("wrong_identity", 0), wantPause: 50 * ms}, {want: "find r2", err: gone, wantPause: 100 * ms}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			c := NewCourier(Replica{ID: "r1", Address: "r1:1"}, DefaultTiming(), never0)
			for i, step := range steps {
				to, find := c.Next(replicas("r1", "r2", "r3"))
				got := "ask " + to.ID
				if find {
					got = "find " + to.ID
				}
				if got != step.want {
					t.Fatalf("step %d: %s, want %s", i, got, step.want)
				}
				verdict, pause, cause := c.Heard(find, step.reply, step.err)
				if verdict != step.verdict || pause != step.wantPause || (verdict == Again && cause == nil && step.reply != nil) {
					t.Fatalf("step %d: verdict %v, pause %v, cause %v; want %v, %v", i, verdict, pause, cause, step.verdict, step.wantPause)
				}
			}
		})
	}
	c := NewCourier(Replica{ID: "r1", Address: "r1:1"}, DefaultTiming(), never0)
	if c.Lost() != 50*time.Millisecond {
		t.Error("no pause after the controller was lost")
	}
	if _, find := c.Next(replicas("r1")); !find {
		t.Error("a lost controller is asked")
	}
	if _, find := NewCourier(Replica{}, DefaultTiming(), never0).Next(replicas("r1")); !find {
		t.Error("a controller that nobody named is asked")
	}
}
