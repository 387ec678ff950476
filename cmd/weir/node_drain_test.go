package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// TestDrainLeft tells the ends of a wait for an empty node apart.
func TestDrainLeft(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for name, test := range map[string]struct {
		ctx      context.Context
		wantCode int
		want     string
	}{
		"by Ctrl-C":  {cancelled, exitInterrupted, "interrupted: node n1 stays drained, with 3 jobs left"},
		"by timeout": {late, exitTimedOut, "not empty within --timeout: node n1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := drainLeft(test.ctx, "n1", 3)
			var exit *exitError
			if !errors.As(err, &exit) || exit.code != test.wantCode || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want code %d and %q", err, test.wantCode, test.want)
			}
			for _, advice := range []string{"weir node drain n1 --wait", "weir node undrain n1"} {
				if !strings.Contains(err.Error(), advice) {
					t.Errorf("got %v, want the advice %q", err, advice)
				}
			}
		})
	}
}

// fullNode is a replica that knows one node, drained, with jobs that do not end.
type fullNode struct {
	apipbconnect.UnimplementedNodeServiceHandler
	asked func()
}

func (n fullNode) Get(context.Context, *connect.Request[apipb.GetNodeRequest]) (*connect.Response[apipb.GetNodeResponse], error) {
	n.asked()
	return connect.NewResponse(&apipb.GetNodeResponse{Node: &apipb.Node{Id: "n1", Jobs: 3, Drain: &apipb.Drain{}}}), nil
}

// TestAwaitEmptyKnowsWhatIsLeft says how many jobs are left, whether it was shown or not.
func TestAwaitEmptyKnowsWhatIsLeft(t *testing.T) {
	for name, quiet := range map[string]bool{"shown": false, "quiet": true} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			routes := http.NewServeMux()
			routes.Handle(apipbconnect.NewNodeServiceHandler(fullNode{asked: func() {
				if asked++; asked == 3 {
					cancel()
				}
			}}))
			server := httptest.NewServer(routes)
			defer server.Close()
			address := server.Listener.Addr().String()
			c, err := client.New(client.Config{
				Addresses: []string{address}, HTTP: server.Client(), URL: func(address string) string { return "http://" + address },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var screen bytes.Buffer
			p := newPrinter(&screen, &screen, formatTable)
			p.period = time.Millisecond
			err = awaitEmpty(ctx, &session{Client: c, printer: p}, "n1", quiet)
			if err == nil || !strings.Contains(err.Error(), "interrupted: node n1 stays drained, with 3 jobs left") {
				t.Errorf("got %v", err)
			}
			if (screen.Len() == 0) != quiet {
				t.Errorf("quiet %t, shown: %q", quiet, screen.String())
			}
		})
	}
}

func TestDrainLine(t *testing.T) {
	for name, test := range map[string]struct {
		node *apipb.Node
		want string
	}{
		"online":  {&apipb.Node{Id: "n1", State: "online"}, "node n1 is undrained"},
		"offline": {&apipb.Node{Id: "n1", State: "offline"}, "node n1 is undrained; it is offline now"},
		"drained": {&apipb.Node{Id: "n1", State: "online", Drain: &apipb.Drain{User: "ann"}}, "node n1 is drained: empty, by ann "},
	} {
		t.Run(name, func(t *testing.T) {
			if got := drainLine(test.node, time.Now()); !strings.HasPrefix(got, test.want) || test.node.GetDrain() == nil && got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
