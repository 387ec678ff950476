package top

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"weir/api/client"
	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/eventpb"
	"weir/messages/explainpb"
)

// named is a replica that knows one operation, and counts how often it is asked for names.
type named struct {
	apipbconnect.UnimplementedOperationServiceHandler
	asked int
	fails bool
}

func (n *named) Names(_ context.Context, req *connect.Request[apipb.OperationNamesRequest]) (*connect.Response[apipb.OperationNamesResponse], error) {
	n.asked++
	if n.fails {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("it cannot say"))
	}
	answer := &apipb.OperationNamesResponse{}
	for _, asked := range req.Msg.GetIds() {
		if asked == id(1) {
			answer.Operations = append(answer.Operations, &apipb.OperationName{Id: asked, Title: "train resnet", User: "ann", Pool: "research"})
		}
	}
	return connect.NewResponse(answer), nil
}

type (
	namedNode struct {
		apipbconnect.UnimplementedNodeServiceHandler
	}
	namedEvents struct {
		apipbconnect.UnimplementedEventServiceHandler
	}
	namedExplain struct {
		apipbconnect.UnimplementedExplainServiceHandler
	}
)

func (namedNode) Get(context.Context, *connect.Request[apipb.GetNodeRequest]) (*connect.Response[apipb.GetNodeResponse], error) {
	return connect.NewResponse(&apipb.GetNodeResponse{Jobs: []*apipb.Job{{Id: id(101), OperationId: id(1)}, {Id: id(102), OperationId: id(2)}}}), nil
}

func (namedEvents) Read(_ context.Context, _ *connect.Request[apipb.ReadEventsRequest], to *connect.ServerStream[apipb.ReadEventsResponse]) error {
	return to.Send(&apipb.ReadEventsResponse{Events: []*eventpb.Event{{Index: 7, Operation: id(1), Job: id(101)}}})
}

func (namedExplain) Explain(context.Context, *connect.Request[apipb.ExplainRequest]) (*connect.Response[apipb.ExplainResponse], error) {
	return connect.NewResponse(&apipb.ExplainResponse{Explanations: []*explainpb.Explanation{{Text: "waits for jobs of operation " + id(1)}}}), nil
}

// TestNames (W3) shows what operations are called beside their jobs, in events and in reasons. Each is asked for
// once; if the cluster does not say, the ids are there, short.
func TestNames(t *testing.T) {
	operations := &named{}
	routes := http.NewServeMux()
	routes.Handle(apipbconnect.NewOperationServiceHandler(operations))
	routes.Handle(apipbconnect.NewNodeServiceHandler(namedNode{}))
	routes.Handle(apipbconnect.NewEventServiceHandler(namedEvents{}))
	routes.Handle(apipbconnect.NewExplainServiceHandler(namedExplain{}))
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{
		Addresses: []string{server.Listener.Addr().String()}, HTTP: server.Client(), URL: func(address string) string { return "http://" + address },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	texts := Texts{
		Event: func(e *eventpb.Event, _ *time.Location) string {
			return "job " + e.GetJob() + " of operation " + e.GetOperation()
		},
		Explain: func(all []*explainpb.Explanation, ids figures.IDs, _ time.Time) string {
			return ids.In(all[0].GetText())
		},
	}
	fetch := func(cluster Cluster, q Question) Answer {
		t.Helper()
		a, err := cluster.Fetch(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	cluster := NewCluster(c, texts)
	for range 2 {
		jobs := fetch(cluster, Question{About: aboutNodeJobs, Node: "n1"}).Jobs
		if j := jobs[0]; j.Called != "train resnet" || j.User != "ann" || j.Pool != "research" {
			t.Errorf("a job of an operation with a title: %+v", j)
		}
		if j := jobs[1]; j.Called != "" || j.User != "" {
			t.Errorf("a job of an operation that nobody knows: %+v", j)
		}
	}
	if operations.asked != 1 {
		t.Errorf("asked for names %d times, want once", operations.asked)
	}
	const called = `operation 00000001 "train resnet" of ann in pool research`
	if e := fetch(cluster, Question{About: aboutEvents}).Events[0]; e.Text != "job 00000101 of "+called || e.Called != "train resnet" {
		t.Errorf("an event: %+v", e)
	}
	if why := fetch(cluster, Question{About: aboutReasons, IDs: []string{id(3)}}).Reasons[id(3)]; why != "waits for jobs of "+called {
		t.Errorf("a reason: %q", why)
	}
	if why := string(fetch(cluster, Question{About: aboutWhy, Operation: id(3)}).Text); why != "waits for jobs of "+called {
		t.Errorf("an explanation: %q", why)
	}
	if operations.asked != 1 {
		t.Errorf("asked for names %d times, want once", operations.asked)
	}
	operations.fails = true
	silent := NewCluster(c, texts)
	if e := fetch(silent, Question{About: aboutEvents}).Events[0]; !strings.HasSuffix(e.Text, "of operation 00000001") || e.Called != "" {
		t.Errorf("an event without names: %+v", e)
	}
}

// TestPagesAreNamed (W3) names the pages of an operation by its title, however one comes there.
func TestPagesAreNamed(t *testing.T) {
	d := newDesk(t, Config{}, 100, 24)
	for _, keys := range []string{"2 e", "2 enter e", "3 enter e", "4 e"} {
		d.press(strings.Fields(keys)...)
		d.has("Events of operation “train resnet”")
		d.press("esc", "esc", "1")
	}
	d.press("3", "e")
	d.has("Events of node n1")
}
