package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/client"
	"weir/messages/apipb"
)

func TestStatusGathersWhatReplicasSayOfThemselves(t *testing.T) {
	answer := func(replica string, index uint64, problems ...string) client.ReplicaStatus {
		return client.ReplicaStatus{Status: &apipb.StatusResponse{
			Replica: replica, Leader: "r1", Quorum: replica == "r1", Term: 2, AppliedIndex: index, Problems: problems,
		}}
	}
	answers := []client.ReplicaStatus{
		answer("r1", 9000, "no node is online", "replica r3 is down"),
		answer("r2", 8999, "no node is online", "replica r2 has a slow disk", "leader r1 does not answer"),
		answer("r4", 10, "replica r2 is down"),
		{Address: "host3:7701", Err: errors.New("refused")},
		{Address: "host5:7701", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}},
		{Address: "host6:7701", Err: context.DeadlineExceeded},
	}
	answers[0].Status.Members = []*apipb.Member{{Id: "r1", Alive: true}, {Id: "r2", Alive: true}, {Id: "r3", Address: "host3:7701", Suffrage: "voter"}, {Id: "r5", Address: "host5:7701", Alive: true}}
	best, err := bestStatus(answers)
	if err != nil {
		t.Fatal(err)
	}
	all := withOthers(best, answers)
	got := all.GetProblems()
	want := []string{
		"no node is online", "replica r3 is down", "replica r2 has a slow disk",
		"replica r4 is 8990 log entries behind r1: it is catching up, or its disk or network is too slow",
		"replica r5 at host5:7701 is unreachable from here: connection refused",
		"host6:7701 is unreachable from here: no answer in time",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if text := statusText(all, time.Now()); !strings.Contains(text, "LOG INDEX") || !strings.Contains(text, "8999") {
		t.Errorf("how far the others are in the log is missing in\n%s", text)
	}
	if len(best.GetProblems()) != 2 {
		t.Error("what the replica said was changed")
	}
}

// TestStatusIsCalm does not show a status again for what grows by itself.
func TestStatusIsCalm(t *testing.T) {
	shown := func(problem string) view {
		return statusView(&apipb.StatusResponse{Leader: "r1", Problems: []string{problem}})
	}
	before := shown("replica r1 has had no contact with a leader for 9s")
	if !before.sameAs(shown("replica r1 has had no contact with a leader for 12s")) {
		t.Error("a longer time is shown as news")
	}
	if before.sameAs(shown("replica r1 has a slow disk")) {
		t.Error("another problem is no news")
	}
}

// TestStatusTellsWhenStatesWereChecked shows the last comparison of states, and is calm about the next.
func TestStatusTellsWhenStatesWereChecked(t *testing.T) {
	now := time.Now()
	st := &apipb.StatusResponse{Leader: "r1", CheckedIndex: 900, CheckedTime: timestamppb.New(now.Add(-12 * time.Second)), HashedIndex: 900, StateHash: []byte{1}}
	if text := statusText(st, now); !strings.Contains(text, "states checked") || !strings.Contains(text, "index 900, 12s ago") {
		t.Errorf("status:\n%s", text)
	}
	later := proto.CloneOf(st)
	later.CheckedIndex, later.CheckedTime, later.HashedIndex, later.StateHash = 950, timestamppb.New(now), 950, []byte{2}
	if !statusView(st).sameAs(statusView(later)) {
		t.Error("the next comparison is shown as news")
	}
	if text := statusText(&apipb.StatusResponse{Leader: "r1"}, now); strings.Contains(text, "states checked") {
		t.Errorf("status without a comparison:\n%s", text)
	}
}

// TestStatusTellsThePace that is in force.
func TestStatusTellsThePace(t *testing.T) {
	st := &apipb.StatusResponse{Leader: "r1", Pace: &apipb.Pace{HeartbeatMillis: 2500, LeaseMillis: 12500}}
	if text := statusText(st, time.Now()); !strings.Contains(text, "each 2.5s, lease 12.5s") {
		t.Errorf("status:\n%s", text)
	}
	if text := statusText(&apipb.StatusResponse{Leader: "r1"}, time.Now()); strings.Contains(text, "heartbeats") {
		t.Errorf("status before the first pace:\n%s", text)
	}
}

// TestStatusIsSilentAboutTheRemoved lists no address as a problem at which a replica was
// that is no member any more.
func TestStatusIsSilentAboutTheRemoved(t *testing.T) {
	member := func(id, suffrage string) *apipb.Member { return &apipb.Member{Id: id, Suffrage: suffrage, Alive: true} }
	answer := func(replica string) client.ReplicaStatus {
		return client.ReplicaStatus{Status: &apipb.StatusResponse{Replica: replica, Leader: "r1", Quorum: true}}
	}
	dead := client.ReplicaStatus{Address: "old:7701", Err: errors.New("refused")}
	for name, test := range map[string]struct {
		members []*apipb.Member
		answers []client.ReplicaStatus
		want    int
	}{
		"all members answer":         {[]*apipb.Member{member("r1", "voter"), member("r3", "nonvoter")}, []client.ReplicaStatus{answer("r1"), dead, answer("r3")}, 0},
		"it is still known, as none": {[]*apipb.Member{member("r1", "voter"), member("r2", "")}, []client.ReplicaStatus{answer("r1"), dead}, 0},
		"one member does not answer": {[]*apipb.Member{member("r1", "voter"), member("r3", "voter")}, []client.ReplicaStatus{answer("r1"), dead}, 1},
		"nobody knows the members":   {nil, []client.ReplicaStatus{answer("r1"), dead}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			best := answer("r1").Status
			best.Members = test.members
			if got := withOthers(best, test.answers).GetProblems(); len(got) != test.want {
				t.Errorf("got %q, want %d problems", got, test.want)
			}
		})
	}
}

// TestStatusNamesFewDrainedNodes also counts those that the status leaves out.
func TestStatusNamesFewDrainedNodes(t *testing.T) {
	st := &apipb.StatusResponse{Leader: "r1", Quorum: true, DrainingLeftOut: 100}
	for i := range 7 {
		st.Draining = append(st.Draining, &apipb.Node{Id: fmt.Sprintf("n%d", i), State: "online", Drain: &apipb.Drain{User: "ann"}})
	}
	text := statusText(st, time.Now())
	if want := "and 102 more: see weir node list"; !strings.Contains(text, want) || !strings.Contains(text, "n4: ") || strings.Contains(text, "n5: ") {
		t.Errorf("%s, want %q", text, want)
	}
}

// TestDrainedOffline is what a node is called that was taken out of service.
func TestDrainedOffline(t *testing.T) {
	retired := &apipb.Node{Id: "n1", State: "offline", Drain: &apipb.Drain{User: "ann"}}
	if got := nodeState(retired); got != "drained, offline" {
		t.Errorf("the list says %q", got)
	}
	text := statusText(&apipb.StatusResponse{Leader: "r1", Quorum: true, Draining: []*apipb.Node{retired}}, time.Now())
	if !strings.Contains(text, "drained, offline  n1: empty") {
		t.Errorf("the status says %s", text)
	}
}

// TestTopIsForPeople (W3) refuses other formats than the screen, and says what has them.
func TestTopIsForPeople(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"top", "-o", "json"}, "--output json: weir top is for people: use weir status"},
		{[]string{"top", "--timeout", "-1s"}, "--timeout -1s: must not be negative"},
	} {
		root := newRootCommand()
		root.SetArgs(test.args)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) || exitCode(err) != exitUsage {
			t.Errorf("weir %s: %v, want %q and exit code %d", strings.Join(test.args, " "), err, test.want, exitUsage)
		}
	}
}
