package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/bounds/boundstest"
)

func TestCallsGetLessTimeThanTheirClients(t *testing.T) {
	b := bounds{&server{cfg: Config{Limits: DefaultLimits()}}}
	const get, wait = apipbconnect.OperationServiceGetProcedure, apipbconnect.OperationServiceWaitProcedure
	for name, test := range map[string]struct {
		procedure string
		// client is the client's deadline from now; 0: none.
		client time.Duration
		// want is the call's; 0: none.
		want time.Duration
	}{
		"a call":                      {get, 0, 10 * time.Second},
		"a call of a patient client":  {get, time.Hour, 10 * time.Second},
		"a call with a deadline":      {get, 5 * time.Second, 4900 * time.Millisecond},
		"a call with a short one":     {get, 400 * time.Millisecond, 350 * time.Millisecond},
		"a wait":                      {wait, 0, 0},
		"a wait with a deadline":      {wait, time.Minute, time.Minute - 100*time.Millisecond},
		"a call that is late already": {get, -time.Second, -time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			ctx, cancel := context.Background(), func() {}
			if test.client != 0 {
				ctx, cancel = context.WithDeadline(ctx, begin.Add(test.client))
			}
			defer cancel()
			limited, stop := b.limit(ctx, test.procedure)
			defer stop()
			deadline, bounded := limited.Deadline()
			if bounded != (test.want != 0) {
				t.Fatalf("bounded %t", bounded)
			}
			// The clock runs on between the two looks at it, and what is kept for the
			// answer shrinks with it.
			if got := deadline.Sub(begin); bounded && (got < test.want-time.Millisecond || test.client != 0 && got > test.want+time.Since(begin)) {
				t.Errorf("the call gets %s, want %s", got, test.want)
			}
		})
	}
}

// TestTextsOfRequestsAreBounded fills in every text of every request of the API.
func TestTextsOfRequestsAreBounded(t *testing.T) {
	services := apipb.File_apipb_api_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for k := range methods.Len() {
			method := methods.Get(k)
			of, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
			if err != nil {
				t.Fatal(err)
			}
			procedure := "/" + string(services.Get(i).FullName()) + "/" + string(method.Name())
			boundstest.Oversized(of.New().Interface(), func(path string, msg proto.Message) {
				err := withinBounds(procedure, msg)
				field := path[strings.LastIndex(path, ".")+1:]
				if err == nil || !strings.Contains(err.Error(), string(method.Name())+": "+field+" has ") || connect.CodeOf(err) != connect.CodeInvalidArgument {
					t.Errorf("%s with a large %s: %v", procedure, path, err)
				}
			})
		}
	}
}

// TestOperationsAreListedInParts (T4) has more operations than an answer may have bytes, though fewer
// than its limit: the answer is incomplete, and the next one goes on where it ended.
func TestOperationsAreListedInParts(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.AnswerBytes = 2000 })
	for range 12 {
		s.get("OperationService/Start", startBody(1, fmt.Sprintf(`, "title": %q`, strings.Repeat("x", 250))))
	}
	listed := map[string]bool{}
	after, answers := "", 0
	for {
		answer := &apipb.ListOperationsResponse{}
		if err := protojson.Unmarshal([]byte(s.post("OperationService/List", fmt.Sprintf(`{"limit": 1000, "after": %q}`, after)).raw), answer); err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(answer); size > 2500 {
			t.Fatalf("an answer has %d bytes", size)
		}
		for _, op := range answer.GetOperations() {
			listed[op.GetId()], after = true, op.GetId()
		}
		if answers++; !answer.GetIncomplete() || answers > 20 {
			break
		}
	}
	if len(listed) != 12 || answers < 3 {
		t.Errorf("%d answers list %d operations", answers, len(listed))
	}
}
