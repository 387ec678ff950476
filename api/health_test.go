package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore"
)

func TestStatusTellsWhatIsWrong(t *testing.T) {
	well := func() Health {
		return Health{
			Store: raftstore.Stats{Commit: 10000, Applied: 9990, LastContact: time.Second, Disk: raftstore.DiskStats{RecentWorst: 400 * time.Millisecond}},
			// They are fresh still when the replica is asked, however late that is.
			Leading: true, SharesFound: time.Now().Add(patience),
		}
	}
	tests := map[string]struct {
		change func(*Health)
		want   string
	}{
		"nothing":                  {func(*Health) {}, ""},
		"a replica that lags":      {func(h *Health) { h.Store.Applied = 100 }, "replica r1 lags: 9900 committed log entries"},
		"a leader that is silent":  {func(h *Health) { h.Store.LastContact = time.Minute }, "replica r1 has had no contact with a leader for 1m0s"},
		"a slow disk":              {func(h *Health) { h.Store.Disk.RecentWorst = 700 * time.Millisecond }, "replica r1 has a slow disk: a log write took 700ms"},
		"counters that do not add": {func(h *Health) { h.Store.Tally.Breaches = 2 }, "replica r1 found 2 operations with inconsistent job counters"},
		"a scheduler that hangs":   {func(h *Health) { h.SharesFound = time.Now().Add(-time.Minute) }, "replica r1 is the leader, but its scheduler has computed no fair shares for 1m"},
		"a follower's scheduler":   {func(h *Health) { h.Leading, h.SharesFound = false, time.Now().Add(-time.Minute) }, ""},
		"a certificate of weeks":   {func(h *Health) { h.Holds.Expires = time.Now().Add(12*24*time.Hour + time.Minute) }, "replica r1 has a certificate that expires in 12 days, on " + time.Now().Add(12*24*time.Hour+time.Minute).UTC().Format(time.DateOnly)},
		"a certificate of months":  {func(h *Health) { h.Holds.Expires = time.Now().Add(60 * 24 * time.Hour) }, ""},
		"a scheduler that begins":  {func(h *Health) { h.SharesFound = time.Time{} }, ""},
	}
	s := newSite(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			health := well()
			test.change(&health)
			s.health.Store(&health)
			var found []string
			for _, problem := range at(t, s.get("ClusterService/Status", "{}"), "problems").([]any) {
				if strings.HasPrefix(problem.(string), "replica r1 ") {
					found = append(found, problem.(string))
				}
			}
			if test.want == "" && len(found) > 0 || test.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0], test.want)) {
				t.Errorf("got %q, want %q", found, test.want)
			}
		})
	}
}

func TestStatusTellsOfNodes(t *testing.T) {
	s := newSite(t)
	register := func(id, version, caveat string) {
		s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
			Id: id, Incarnation: 1, Version: version, Caveat: caveat, Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1},
		}})
	}
	register("n1", "v2", "")
	register("n2", "v1", "")
	register("n3", "v2", "no control groups")
	problems := fmt.Sprint(at(t, s.get("ClusterService/Status", "{}"), "problems"))
	for _, want := range []string{"1 nodes run a version other than v2, such as n2: v1", "1 nodes lack features, such as n3: no control groups"} {
		if !strings.Contains(problems, want) {
			t.Errorf("got %s, want %q", problems, want)
		}
	}
}

// TestStatusTellsOfSharedUsers (T2), as long as everyone may submit.
func TestStatusTellsOfSharedUsers(t *testing.T) {
	s := newSite(t)
	for node, user := range map[string]string{"n1": "weir", "n2": "", "n3": "weir", "n4": "weir", "n5": "weir", "n6": "root"} {
		s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
			Id: node, Incarnation: 1, SharedUser: user, Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1},
		}})
	}
	problems := func() string { return fmt.Sprint(at(t, s.get("ClusterService/Status", "{}"), "problems")) }
	for _, want := range []string{"anyone may submit while agents n1, n3, n4 and 1 more run all jobs as user weir", "anyone may submit while agents n6 run all jobs as user root"} {
		if got := problems(); !strings.Contains(got, want) {
			t.Errorf("got %s, want %q", got, want)
		}
	}
	s.get("TreeService/Set", `{"options": {"acl": {"use": ["user:ann"]}}}`)
	if got := problems(); strings.Contains(got, "anyone may submit") {
		t.Errorf("got %s, though only ann may submit", got)
	}
}

// TestStatusTellsOfWhoIsGone, but not of those who went on purpose.
func TestStatusTellsOfWhoIsGone(t *testing.T) {
	voter, drain := string(raftstore.Voter), &statepb.Drain{User: "ann"}
	for name, test := range map[string]struct {
		member *apipb.Member
		node   *statepb.Node
		want   string
	}{
		"a replica that is down":     {&apipb.Member{Id: "r2", Address: "h2:1", Suffrage: voter}, nil, "replica r2 at h2:1 is down: restart it"},
		"a replica that was removed": {&apipb.Member{Id: "r2", Address: "h2:1"}, nil, ""},
		"a node that is offline":     {nil, &statepb.Node{Id: "n1", State: statepb.NodeOffline}, "node n1 is offline: is its agent running and connected?"},
		"a node that was retired":    {nil, &statepb.Node{Id: "n1", State: statepb.NodeOffline, Drain: drain}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			st := &apipb.StatusResponse{Leader: "r1", Quorum: true, NodesOnline: 1}
			if test.member != nil {
				st.Members = []*apipb.Member{test.member}
			}
			var ofNodes nodeTroubles
			if test.node != nil && addNode(st, test.node, &ofNodes) {
				t.Fatal("an offline node is online")
			}
			if got := strings.Join(problems(st, ofNodes.offline, ofNodes.open), "; "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestRefusalsForOverloadAreTold(t *testing.T) {
	s := newSite(t)
	breaks := fmt.Errorf("leader r2: %w", raftstore.ErrOverloaded)
	s.breaks.Store(&breaks)
	refused := s.post("OperationService/Start", startBody(1, ""))
	if refused.status != http.StatusTooManyRequests || refused.header.Get(apipb.HeaderRetry) == "" {
		t.Errorf("got %d, retry hint %q", refused.status, refused.header.Get(apipb.HeaderRetry))
	}
	problems := fmt.Sprint(at(t, s.get("ClusterService/Status", "{}"), "problems"))
	if want := "replica r1 rejected 1 calls for overload in the last minute"; !strings.Contains(problems, want) {
		t.Errorf("got %s, want %q", problems, want)
	}
}

func TestRecentCountForgets(t *testing.T) {
	var c recentCount
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, after := range []time.Duration{0, 0, 30 * time.Second} {
		c.add(begin.Add(after))
	}
	for after, want := range map[time.Duration]int64{0: 3, 59 * time.Second: 3, 60 * time.Second: 1, 89 * time.Second: 1, 90 * time.Second: 0} {
		if got := c.since(begin.Add(after)); got != want {
			t.Errorf("after %v: got %d, want %d", after, got, want)
		}
	}
	c.add(begin.Add(60 * time.Second))
	if got := c.since(begin.Add(60 * time.Second)); got != 2 {
		t.Errorf("a second that comes round again: got %d, want 2", got)
	}
}

func TestEveryCallIsObserved(t *testing.T) {
	s := newSite(t)
	s.get("ClusterService/Status", "{}")
	s.post("OperationService/Get", `{"operation": "none"}`)
	s.post("ClusterService/Transfer", "{}", roleHeader, "user/ann")
	s.post("NoService/None", "{}", roleHeader, "agent/n1")
	for call, want := range map[[2]string]int{
		{"/weir.api.v1.ClusterService/Status", "ok"}:                  1,
		{"/weir.api.v1.OperationService/Get", "not_found"}:            1,
		{"/weir.api.v1.ClusterService/Transfer", "permission_denied"}: 1,
		{"unknown", "permission_denied"}:                              1,
	} {
		eventually(t, func() bool { return s.ended.of(call[0], call[1]) >= want })
		if got := s.ended.of(call[0], call[1]); got != want {
			t.Errorf("%v: got %d, want %d", call, got, want)
		}
	}
	// The answer may be here before its call is over.
	eventually(t, func() bool { return s.handler.Stats().Calls == 0 })
	if stats := s.handler.Stats(); stats.CallsLimit != s.limits.Calls {
		t.Errorf("got %+v, want a limit of %d", stats, s.limits.Calls)
	}
}

// A client that does not take its answer, or does not send its request, is cut off.
func TestSlowClientsAreCutOff(t *testing.T) {
	tests := map[string]struct {
		serve http.HandlerFunc
		body  string
	}{
		"does not read": {func(w http.ResponseWriter, _ *http.Request) {
			part := make([]byte, 1<<20)
			for {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		}, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"},
		"does not send": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
		}, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			done := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(done)
				h := newHurried(w, 50*time.Millisecond)
				r.Body = h.body(r.Body, time.Now())
				test.serve(h, r)
			}))
			defer server.Close()
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, test.body); err != nil {
				t.Fatal(err)
			}
			select {
			case <-done:
			case <-time.After(patience):
				t.Error("the call goes on for ever")
			}
		})
	}
}

// Over HTTP/2 one stream that is not read holds up neither its call nor the others.
func TestSlowStreamIsCutOff(t *testing.T) {
	ended, read := make(chan error, 1), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 1<<20)
		_, _ = w.Write(part[:1])
		_ = http.NewResponseController(w).Flush()
		<-read // From now on nobody does.
		h := newHurried(w, 50*time.Millisecond)
		for {
			if _, err := h.Write(part); err != nil {
				ended <- err
				return
			}
			h.Flush()
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	readNoMore := sync.OnceFunc(func() { close(read) })
	defer readNoMore()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := bufio.NewReader(res.Body).ReadByte(); err != nil || res.ProtoMajor != 2 {
		t.Fatalf("HTTP/%d: %v", res.ProtoMajor, err)
	}
	readNoMore()
	select {
	case err := <-ended:
		if err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience):
		t.Error("the call goes on for ever")
	}
}

func TestBodyEndsAsItDid(t *testing.T) {
	h := newHurried(httptest.NewRecorder(), time.Second)
	var body io.Reader = h.body(io.NopCloser(strings.NewReader("abc")), time.Now())
	buffer := make([]byte, 8)
	n, err := body.Read(buffer)
	last, end := body.Read(buffer)
	if !slices.Equal(buffer[:n], []byte("abc")) || err != nil || last != 0 || end != io.EOF {
		t.Errorf("got %q %v, then %d %v", buffer[:n], err, last, end)
	}
}

func TestProblemsOfDrainedNodes(t *testing.T) {
	drained := func(states ...string) (nodes []*statepb.Node) {
		for _, state := range states {
			nodes = append(nodes, &statepb.Node{State: state, Drain: &statepb.Drain{User: "ann"}})
		}
		return nodes
	}
	open := &statepb.Node{State: statepb.NodeOnline}
	all := []string{"every online node is drained, and 3 jobs are waiting: see weir node undrain"}
	for name, test := range map[string]struct {
		nodes   []*statepb.Node
		pending int64
		want    []string
	}{
		"all":                     {drained("online", "online"), 3, all},
		"all, and nobody waits":   {drained("online", "online"), 0, nil},
		"one of two":              {append(drained("online"), open), 3, nil},
		"one, and one is offline": {append(drained("online", "offline"), open), 3, nil},
	} {
		st := &apipb.StatusResponse{Leader: "r1", Quorum: true, JobsPending: test.pending}
		var ofNodes nodeTroubles
		for _, n := range test.nodes {
			addNode(st, n, &ofNodes)
		}
		got := problems(st, ofNodes.offline, ofNodes.open)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestProblemsOfOperationsThatWait(t *testing.T) {
	for n, want := range map[int64][]string{
		0: nil,
		1: {"1 operation is waiting for the running limit of its pool: see weir op list --state pending"},
		2: {"2 operations are waiting for the running limit of their pool: see weir op list --state pending"},
	} {
		got := problems(&apipb.StatusResponse{Leader: "r1", Quorum: true, NodesOnline: 1, OperationsPending: n}, nil, 1)
		if !slices.Equal(got, want) {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestProblemsOfNodes(t *testing.T) {
	for name, test := range map[string]struct {
		online  int64
		offline []string
		want    []string
	}{
		"all online":  {online: 2},
		"none":        {want: []string{"no node is online: jobs wait until an agent registers"}},
		"one offline": {online: 2, offline: []string{"n1"}, want: []string{"node n1 is offline: is its agent running and connected?"}},
		"some offline": {
			online: 1, offline: []string{"n1", "n2"},
			want: []string{"2 of 3 nodes are offline (n1, n2): see weir node list --state offline"},
		},
		"many offline": {offline: []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7"}, want: []string{
			"no node is online: jobs wait until an agent registers",
			"7 of 7 nodes are offline (n1, n2, n3, n4, n5 and 2 more): see weir node list --state offline",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := problems(&apipb.StatusResponse{Leader: "r1", Quorum: true, NodesOnline: test.online}, test.offline, test.online)
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestStatusTellsWhatIsHeld (T6): what the replica holds of the cluster's certificates, and what agents have told
// it as their leader, unless they hold the same, with
// those that are not connected; never without certificates. A certificate of an agent that expires soon is a problem.
func TestStatusTellsWhatIsHeld(t *testing.T) {
	s := newSite(t)
	for _, id := range []string{"n1", "n2", "n3", "n4"} {
		s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
			Id: id, Incarnation: 1, Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1},
		}})
	}
	s.must(&commandpb.SetNodeOffline{Term: 1, Node: "n3", Incarnation: 1})
	held := func(health Health) string {
		t.Helper()
		s.health.Store(&health)
		shown := []string{}
		list, _ := s.get("ClusterService/Status", "{}")["credentials"].([]any)
		for _, c := range list {
			one := c.(map[string]any)
			shown = append(shown, fmt.Sprint(one["role"], " ", one["name"], " ", one["issuer"], " ", one["roots"], " ", one["gossip_keys"]))
		}
		return strings.Join(shown, "\n")
	}
	health := Health{
		Leading: true, Holds: identity.Standing{Issuer: "a1", Roots: []string{"a1", "b2"}, GossipKeys: []string{"k1", "k2"}, Expires: time.Now().Add(time.Hour)},
		Agents: map[string]*actorpb.HeldCredentials{"n1": {Issuer: "a1", Roots: []string{"a1"}}, "n4": {Issuer: "a1", Roots: []string{"a1", "b2"}, ExpireTime: timestamppb.New(time.Now().Add(time.Hour))}, "n3": {Issuer: "a1"}, "n9": {Issuer: "a1"}},
	}
	if got, want := held(health), "replica r1 a1 [a1 b2] [k1 k2]\nagent n1 a1 [a1] []\nagent n2  [] []\nagent n3  [] []"; got != want {
		t.Errorf("a leader tells\n%s\nwant\n%s", got, want)
	}
	if problems := fmt.Sprint(s.get("ClusterService/Status", "{}")["problems"]); !strings.Contains(problems, "1 nodes have agents whose certificate expires soon, such as n4: on ") {
		t.Errorf("problems %s", problems)
	}
	few := s.get("ClusterService/Status", `{"agents": 1}`)
	if list := few["credentials"].([]any); len(list) != 2 {
		t.Errorf("a leader that is to tell of one agent tells of %v", list)
	}
	want(t, few, 2.0, "agents_left_out")
	health.Leading = false
	if got, want := held(health), "replica r1 a1 [a1 b2] [k1 k2]"; got != want {
		t.Errorf("a follower tells\n%s\nwant\n%s", got, want)
	}
	if got := held(Health{Leading: true}); got != "" {
		t.Errorf("without certificates it tells\n%s", got)
	}
}
