package client_test

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// fakeMemory has profiles that are forgotten by a call whose answer is lost.
type fakeMemory struct {
	apipbconnect.UnimplementedMemoryServiceHandler
	left   map[string]bool
	forget func(keys []string) error
}

func (r fakeMemory) Profiles(_ context.Context, req *connect.Request[apipb.MemoryProfilesRequest]) (*connect.Response[apipb.MemoryProfilesResponse], error) {
	if key := req.Msg.GetKey(); key != "" && !r.left[key] {
		return nil, refuse(connect.CodeNotFound, "unknown_profile", "there is no profile "+key)
	}
	return connect.NewResponse(&apipb.MemoryProfilesResponse{Total: int32(len(r.left))}), nil
}

func (r fakeMemory) Forget(_ context.Context, req *connect.Request[apipb.ForgetMemoryProfilesRequest]) (*connect.Response[apipb.ForgetMemoryProfilesResponse], error) {
	if err := r.forget(req.Msg.GetKeys()); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apipb.ForgetMemoryProfilesResponse{Forgotten: int32(len(req.Msg.GetKeys()))}), nil
}

func TestALostAnswerOfForgetting(t *testing.T) {
	for name, test := range map[string]struct {
		done, all bool
		want      int
		wantCode  string
	}{
		"the first try has done it":     {done: true, want: 2},
		"there was no such profile":     {wantCode: "unknown_profile"},
		"the first try forgot all":      {done: true, all: true},
		"all are there: it is an error": {all: true, wantCode: "unknown_profile"},
	} {
		t.Run(name, func(t *testing.T) {
			lost, left := true, map[string]bool{"a": true, "b": true}
			memory := fakeMemory{left: left, forget: func([]string) error {
				if lost {
					if lost = false; test.done {
						clear(left)
					}
					return unavailable("")
				}
				return refuse(connect.CodeNotFound, "unknown_profile", "there is no profile a")
			}}
			c := open(t, nil, serve(t, &fakeReplica{memory: memory}).address)
			forget := func() (int, error) { return c.ForgetMemoryProfiles(t.Context(), "a", "b") }
			if test.all {
				forget = func() (int, error) { return c.ForgetAllMemoryProfiles(t.Context()) }
			}
			got, err := forget()
			if got != test.want || client.CodeOf(err) != test.wantCode {
				t.Errorf("forgotten %d and %v, want %d and code %q", got, err, test.want, test.wantCode)
			}
		})
	}
}
