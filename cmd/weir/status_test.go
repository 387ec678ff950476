package main

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"

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
	answers[0].Status.Members = []*apipb.Member{{Id: "r3", Address: "host3:7701"}, {Id: "r5", Address: "host5:7701", Alive: true}}
	best, err := bestStatus(answers)
	if err != nil {
		t.Fatal(err)
	}
	got := withOthers(best, answers).GetProblems()
	want := []string{
		"no node is online", "replica r3 is down", "replica r2 has a slow disk",
		"replica r4 is 8990 log entries behind r1: it catches up, or its disk or network is too slow",
		"replica r5 at host5:7701 does not answer from here: connection refused",
		"host6:7701 does not answer from here: no answer in time",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
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
	before := shown("replica r1 has not heard from a leader for 9s")
	if !before.sameAs(shown("replica r1 has not heard from a leader for 12s")) {
		t.Error("a longer time is shown as news")
	}
	if before.sameAs(shown("replica r1 has a slow disk")) {
		t.Error("another problem is no news")
	}
}
