package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// goingNode is a replica that knows one node, whose jobs end one a look once it is drained.
type goingNode struct {
	apipbconnect.UnimplementedNodeServiceHandler
	node *apipb.Node
	// calls are those that change something.
	calls []string
	// drained is called, if it is there, at the first look after the node was drained.
	drained func()
}

func (n *goingNode) Get(context.Context, *connect.Request[apipb.GetNodeRequest]) (*connect.Response[apipb.GetNodeResponse], error) {
	if n.node.GetDrain() != nil && n.drained != nil {
		n.drained()
	}
	if n.node.GetDrain() != nil && n.node.GetJobs() > 0 {
		n.node.Jobs--
	}
	return connect.NewResponse(&apipb.GetNodeResponse{Node: n.node}), nil
}

func (n *goingNode) Drain(_ context.Context, req *connect.Request[apipb.DrainNodeRequest]) (*connect.Response[apipb.DrainNodeResponse], error) {
	n.calls = append(n.calls, "drain")
	if req.Msg.GetInterruptTimeoutMillis() > 0 {
		n.calls = append(n.calls, "kill")
	}
	n.node.Drain = &apipb.Drain{}
	return connect.NewResponse(&apipb.DrainNodeResponse{}), nil
}

// TestEmpty: a node that is online loses its jobs before it is removed by force, one that
// is offline is left as it is.
func TestEmpty(t *testing.T) {
	for name, tc := range map[string]struct {
		node      *apipb.Node
		cancelled bool
		wantCalls []string
		wantError string
	}{
		"online with jobs":    {node: &apipb.Node{Id: "n1", State: "online", Jobs: 2}, wantCalls: []string{"drain", "kill"}},
		"online and empty":    {node: &apipb.Node{Id: "n1", State: "online"}, wantCalls: []string{"drain", "kill"}},
		"drained, with a job": {node: &apipb.Node{Id: "n1", State: "online", Jobs: 1, Drain: &apipb.Drain{}}, wantCalls: []string{"drain", "kill"}},
		"offline with jobs":   {node: &apipb.Node{Id: "n1", State: "offline", Jobs: 2}},
		"the wait is ended":   {node: &apipb.Node{Id: "n1", State: "online", Jobs: 2}, cancelled: true, wantError: "drain node n1: context canceled"},
		"the wait is ended later": {node: &apipb.Node{Id: "n1", State: "online", Jobs: 1 << 20}, cancelled: true, wantCalls: []string{"drain", "kill"},
			wantError: "node n1 is drained, but some of its jobs have not ended: weir node remove n1 --force waits again"},
	} {
		t.Run(name, func(t *testing.T) {
			handler := &goingNode{node: tc.node}
			routes := http.NewServeMux()
			routes.Handle(apipbconnect.NewNodeServiceHandler(handler))
			server := httptest.NewServer(routes)
			defer server.Close()
			c, err := client.New(client.Config{
				Addresses: []string{server.Listener.Addr().String()}, HTTP: server.Client(), URL: func(address string) string { return "http://" + address },
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			switch {
			case tc.cancelled && tc.wantCalls == nil:
				cancel()
			case tc.cancelled:
				handler.drained = cancel
			}
			defer c.Close()
			var screen bytes.Buffer
			p := newPrinter(&screen, &screen, formatTable)
			p.period = time.Millisecond
			err = empty(ctx, &session{Client: c, printer: p}, "n1")
			if (err != nil) != (tc.wantError != "") || err != nil && !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("got error %v, want %q", err, tc.wantError)
			}
			if !slices.Equal(handler.calls, tc.wantCalls) {
				t.Errorf("called %v, want %v", handler.calls, tc.wantCalls)
			}
		})
	}
}
