package remote

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/messages/remotepb"
)

func TestDecode(t *testing.T) {
	pack := func(m proto.Message) *anypb.Any {
		payload, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		return payload
	}
	const limit = 100
	for name, tc := range map[string]struct {
		payload  *anypb.Any
		want     error
		wantText string
	}{
		"a known type":         {payload: pack(wrapperspb.String("x"))},
		"as large as allowed":  {payload: pack(wrapperspb.String(strings.Repeat("x", limit-2)))},
		"larger":               {payload: pack(wrapperspb.String(strings.Repeat("x", limit-1))), want: ErrTooLarge, wantText: "of 101 bytes, but this side accepts at most 100 (MaxMessageBytes)"},
		"an unknown type":      {payload: &anypb.Any{TypeUrl: "type.googleapis.com/weir.Future"}, want: ErrUnknownType, wantText: "weir.Future"},
		"no type":              {payload: &anypb.Any{}, want: ErrMalformed},
		"no payload":           {want: ErrMalformed},
		"bytes of no message":  {payload: &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.StringValue", Value: []byte{0xff}}, want: ErrMalformed},
		"what ends an actor":   {payload: pack(&actor.PoisonPill{}), want: ErrMalformed, wantText: "may not come from another machine"},
		"what fakes a failure": {payload: pack(&actor.DeadLetterResponse{}), want: ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			message, err := decode(tc.payload, limit)
			switch {
			case tc.want == nil && (err != nil || message == nil):
				t.Errorf("got %v, %v", message, err)
			case tc.want != nil && (!errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.wantText)):
				t.Errorf("error %v, want %v that says %q", err, tc.want, tc.wantText)
			}
		})
	}
}

// TestFailureKeepsItsKindOnTheWay sends each error through a Failure.
func TestFailureKeepsItsKindOnTheWay(t *testing.T) {
	for _, kind := range kinds {
		want, sent := kind.err, fmt.Errorf("%w: the facts", kind.err)
		got := errorOf(&remotepb.Failure{Code: kind.code, Detail: detailOf(sent)})
		if !errors.Is(got, want) || got.Error() != sent.Error() {
			t.Errorf("%q arrived as %q", sent, got)
		}
	}
	got := errorOf(&remotepb.Failure{Code: remotepb.Failure_CODE_REFUSED, Detail: detailOf(refusef("no %s", "way"))})
	if refused, ok := errors.AsType[*ErrRefused](got); !ok || refused.Reason != "no way" {
		t.Errorf("a refusal arrived as %q", got)
	}
}
