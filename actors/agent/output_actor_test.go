package agent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/agent/runner"
	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
)

func TestAgentReadsOutput(t *testing.T) {
	inWorld(t, func(w *world) {
		replica := identity.Identity{Role: identity.Replica, Name: "r1"}
		read := func(from identity.Identity, msg proto.Message) proto.Message {
			answer, err := w.system.Root.RequestFuture(w.agent.PID(), &remote.Inbound{From: from, Message: msg}, time.Minute).Result()
			if err != nil {
				t.Fatal(err)
			}
			return answer.(proto.Message)
		}
		tests := map[string]struct {
			from identity.Identity
			msg  proto.Message
			want string
		}{
			"the end of a stream":      {replica, &actorpb.ReadOutput{Node: "n1", JobId: "j", Stream: "stderr", Offset: 2}, "om 4 4 true"},
			"output that is not kept":  {replica, &actorpb.ReadOutput{Node: "n1", JobId: "gone", Stream: "stderr"}, "not_found"},
			"a stream that is not one": {replica, &actorpb.ReadOutput{Node: "n1", JobId: "j", Stream: "stdin"}, "bad_request"},
			"another node":             {replica, &actorpb.ReadOutput{Node: "n2", JobId: "j", Stream: "stderr"}, "not_found"},
			"another message":          {replica, &actorpb.Propose{}, "bad_request"},
			"another agent":            {identity.Identity{Role: identity.Agent, Name: "n2"}, &actorpb.ReadOutput{Node: "n1", JobId: "j", Stream: "stderr"}, "wrong_identity"},
		}
		for name, test := range tests {
			got := ""
			switch m := read(test.from, test.msg).(type) {
			case *actorpb.OutputPart:
				got = fmt.Sprintf("%s %d %d %v", m.GetData(), m.GetNextOffset(), m.GetTotal(), m.GetEnd())
			case *actorpb.Refused:
				got = m.GetCode()
			}
			if got != test.want {
				t.Errorf("%s: got %q, want %q", name, got, test.want)
			}
		}
		w.advance(time.Millisecond)
	})
}

// TestRefusedCommands: a command that may be started a moment later is not called a mistake.
func TestRefusedCommands(t *testing.T) {
	for err, want := range map[error]string{
		runner.ErrNoSession:       actorpb.CodeNotFound,
		runner.ErrTooManySessions: actorpb.CodeTooMany,
		runner.ErrNotRunning:      actorpb.CodeUnavailable,
		runner.ErrUnreachable:     actorpb.CodeUnavailable,
		errors.New("a gap"):       actorpb.CodeBadRequest,
	} {
		if got := execRefused(fmt.Errorf("job j: %w", err)); got.GetCode() != want || got.GetReason() != "job j: "+err.Error() {
			t.Errorf("%v: %v, want %s", err, got, want)
		}
	}
}
