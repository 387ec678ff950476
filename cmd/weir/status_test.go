package main

import (
	"errors"
	"slices"
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
		{Err: errors.New("refused")},
	}
	best, err := bestStatus(answers)
	if err != nil {
		t.Fatal(err)
	}
	got := withOthers(best, answers).GetProblems()
	want := []string{
		"no node is online", "replica r3 is down", "replica r2 has a slow disk",
		"replica r4 is 8990 log entries behind r1: it catches up, or its disk or network is too slow",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(best.GetProblems()) != 2 {
		t.Error("what the replica said was changed")
	}
}
