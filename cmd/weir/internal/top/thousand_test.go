package top

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// A cluster of 1,000 nodes, and how many of them a replica lists in one answer here.
const (
	thousandNodes = 1000
	thousandPart  = 400
)

// A replica of that cluster, as far as the list of its nodes needs one.
type (
	thousandList struct {
		apipbconnect.UnimplementedNodeServiceHandler
	}
	thousandCluster struct {
		apipbconnect.UnimplementedClusterServiceHandler
	}
	thousandAccess struct {
		apipbconnect.UnimplementedAccessServiceHandler
	}
)

// thousandNode is node i. Every hundredth node is offline, the next one is drained.
func thousandNode(i int) *apipb.Node {
	n := &apipb.Node{Id: fmt.Sprintf("simulated-%04d", i), State: "online", Tree: "default", Host: fmt.Sprintf("10.0.%d.%d", i/250, i%250), Version: "0.1.0", Jobs: int64(i % 17),
		Resources: &apipb.Resources{Cpu: 64, Memory: 256 << 30, UserSlots: 64}, Usage: &apipb.Resources{Cpu: float64(i * 7 % 65), Memory: int64(i%256) << 30, UserSlots: int64(i % 17)},
		MemoryUsed: int64(i%200) << 30, LastHeartbeat: timestamppb.New(noon)}
	switch i % 100 {
	case 42:
		n.State = "offline"
	case 43:
		n.Drain = &apipb.Drain{User: "ops", Reason: "disk swap"}
	}
	return n
}

// List answers in parts.
func (thousandList) List(_ context.Context, req *connect.Request[apipb.ListNodesRequest]) (*connect.Response[apipb.ListNodesResponse], error) {
	first := 0
	if after := req.Msg.GetAfter(); after != "" {
		_, _ = fmt.Sscanf(after, "simulated-%d", &first)
		first++
	}
	part := &apipb.ListNodesResponse{}
	for i := first; i < min(first+thousandPart, thousandNodes); i++ {
		part.Nodes = append(part.Nodes, thousandNode(i))
	}
	if left := thousandNodes - first - len(part.GetNodes()); left > 0 {
		part.Next, part.LeftOut = part.GetNodes()[len(part.GetNodes())-1].GetId(), int32(left)
	}
	return connect.NewResponse(part), nil
}

// Get answers with a node and its jobs.
func (thousandList) Get(_ context.Context, req *connect.Request[apipb.GetNodeRequest]) (*connect.Response[apipb.GetNodeResponse], error) {
	var i int
	if _, err := fmt.Sscanf(req.Msg.GetNode(), "simulated-%d", &i); err != nil {
		return nil, connect.NewError(connect.CodeNotFound, err)
	}
	answer := &apipb.GetNodeResponse{Node: thousandNode(i)}
	for cookie := range answer.GetNode().GetJobs() {
		answer.Jobs = append(answer.Jobs, &apipb.Job{Id: id(1000 + int(cookie)), OperationId: id(1), Task: "main", Cookie: int32(cookie), Node: req.Msg.GetNode(), State: "running", StartTime: timestamppb.New(noon)})
	}
	return connect.NewResponse(answer), nil
}

func (thousandCluster) Status(context.Context, *connect.Request[apipb.StatusRequest]) (*connect.Response[apipb.StatusResponse], error) {
	return connect.NewResponse(&apipb.StatusResponse{ClusterId: "berlin", Leader: "r1", NodesOnline: 990, NodesOffline: 10}), nil
}

func (thousandAccess) WhoAmI(context.Context, *connect.Request[apipb.WhoAmIRequest]) (*connect.Response[apipb.WhoAmIResponse], error) {
	return connect.NewResponse(&apipb.WhoAmIResponse{User: "ann", Role: "user"}), nil
}

// newThousand is a desk before 1,000 nodes, which are asked for by the public API.
func newThousand(t testing.TB, w, h int) *desk {
	t.Helper()
	routes := http.NewServeMux()
	routes.Handle(apipbconnect.NewNodeServiceHandler(thousandList{}))
	routes.Handle(apipbconnect.NewClusterServiceHandler(thousandCluster{}))
	routes.Handle(apipbconnect.NewAccessServiceHandler(thousandAccess{}))
	cluster := reaching(t, routes)
	d := newDesk(t, Config{}, w, h)
	d.cluster = func(q Question) (Answer, error) {
		switch q.About {
		case aboutNodes, aboutNodeJobs, aboutCluster:
			return cluster.Fetch(t.Context(), q)
		default:
			return contended(q)
		}
	}
	d.after(3 * time.Second)
	return d
}

// reaching is a Cluster that asks these routes.
func reaching(t testing.TB, routes http.Handler) Cluster {
	t.Helper()
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{
		Addresses: []string{server.Listener.Addr().String()}, HTTP: server.Client(), URL: func(address string) string { return "http://" + address },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return NewCluster(c, Texts{})
}

// thousandJobs has an operation of 300,000 jobs.
type thousandJobs struct {
	apipbconnect.UnimplementedJobServiceHandler
}

func (thousandJobs) List(_ context.Context, req *connect.Request[apipb.ListJobsRequest]) (*connect.Response[apipb.ListJobsResponse], error) {
	return connect.NewResponse(&apipb.ListJobsResponse{Total: 300_000, Jobs: make([]*apipb.Job, req.Msg.GetLimit())}), nil
}

// TestManyJobs wants the list of an operation's jobs to end where nobody would read on, and to say how many more there are.
func TestManyJobs(t *testing.T) {
	routes := http.NewServeMux()
	routes.Handle(apipbconnect.NewJobServiceHandler(thousandJobs{}))
	cluster := reaching(t, routes)
	for q := (Question{About: aboutJobs, Operation: "o"}); ; {
		a, err := cluster.Fetch(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if q.Offset = a.Offset; a.More {
			continue
		}
		if a.Offset != jobsListed || !strings.Contains(a.Note, "and 295,000 more jobs") {
			t.Errorf("the list ends after %d jobs with %q", a.Offset, a.Note)
		}
		return
	}
}

// TestThousandNodes (W3) lists, filters, sorts and opens nodes of a cluster that has 1,000 of them, as the
// API tells of them. The desk checks that each screen has its size.
func TestThousandNodes(t *testing.T) {
	for _, size := range [][2]int{{60, 12}, {100, 24}, {200, 60}} {
		t.Run(fmt.Sprint(size[0], " columns"), func(t *testing.T) {
			d := newThousand(t, size[0], size[1])
			d.press("3")
			d.has("nodes 990/1,000", "Nodes · 1,000", "▸ simulated-0000")
			d.lacks("simulated-0999")
			d.press("end")
			d.has("▸ simulated-0999")
			d.press("home", "pgdown")
			d.lacks("simulated-0000")
			d.press(strings.Split("/offline", "")...)
			d.has("10 of 1,000 match /offline", "simulated-0942")
			if size[1] > 20 {
				// There is room for all of them, wherever the list was scrolled to.
				d.has("simulated-0042")
			}
			d.press("enter", "home")
			d.has("▸ simulated-0042")
			d.press("end")
			d.has("▸ simulated-0942")
			d.press("esc")
			d.has("Nodes · 1,000")
			// By name, by state, by jobs: those with the most come first, and among them by name.
			d.press("s", "s", "s", "home")
			d.has("▸ simulated-0016")
			d.press("S", "home")
			d.has("▸ simulated-0000")
			d.press(strings.Split("/0999", "")...)
			d.press("enter", "enter")
			d.has("Jobs on node simulated-0999 · 13", "main")
			d.press("esc")
			d.has("1 of 1,000 match /0999", "▸ simulated-0999")
			d.after(time.Minute)
			d.has("▸ simulated-0999")
			d.lacks("No answer", "STALE")
		})
	}
}

// BenchmarkThousandNodes (W3) is an update of the list of 1,000 nodes: the answers of the API, decoded and
// drawn, and the replica that encodes them, which here is the same process. It prints the processor time of
// one, and what part of a processor that takes at the default interval.
func BenchmarkThousandNodes(b *testing.B) {
	d := newThousand(b, 200, 60)
	d.press("3")
	page := d.model.top().number()
	began := processorTime(b)
	for b.Loop() {
		d.send(d.answer(Question{About: aboutCluster}))
		d.send(d.answer(Question{About: aboutNodes, page: page}))
		_ = d.model.View()
	}
	each := (processorTime(b) - began) / time.Duration(b.N)
	b.ReportMetric(float64(each.Microseconds()), "cpu-µs/update")
	b.ReportMetric(100*each.Seconds()/d.model.cfg.Interval.Seconds(), "%cpu")
}

// processorTime is what this process has used of processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
