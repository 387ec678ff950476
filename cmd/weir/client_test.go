package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/messages/apipb"
)

// TestClientVerbsAreDocumented wants of every verb what its help needs, and that it
// checks its arguments.
func TestClientVerbsAreDocumented(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			if cmd.Short == "" || cmd.Example == "" || cmd.Args == nil || cmd.RunE == nil {
				t.Errorf("Short %q, Example %q, Args %t, RunE %t", cmd.Short, cmd.Example, cmd.Args != nil, cmd.RunE != nil)
			}
		})
		for _, below := range cmd.Commands() {
			check(below)
		}
	}
	for _, cmd := range newClientCommands() {
		check(cmd)
	}
}

// TestArgumentsAreThoseOfTheUsageLine for verbs that check none of their own.
func TestArgumentsAreThoseOfTheUsageLine(t *testing.T) {
	for use, lines := range map[string]map[string]string{
		"list":                              {"": "", "a": `unexpected argument "a"`},
		"get POOL":                          {"": "POOL is missing", "a": "", "a b": `unexpected argument "b"`, "''": "POOL is empty"},
		"get [TREE]":                        {"": "", "a": "", "a b": `unexpected argument "b"`, "''": "TREE is empty"},
		"move POOL PARENT":                  {"a": "PARENT is missing", "a b": ""},
		"heal [FOLDER]...":                  {"": "", "a": "", "a b c": "", "a ''": "FOLDER is empty"},
		"set POOL OPTION=VALUE...":          {"": "POOL is missing", "a=1": `POOL is missing before "a=1"`, "a": "", "a b=1 c=2": ""},
		"create POOL [OPTION=VALUE...]":     {"a": "", "a b=1": ""},
		"add REPLICA --address HOST:PORT":   {"": "REPLICA is missing", "r4": "", "r4 r5": `unexpected argument "r5"`},
		"start -f FILE":                     {"": "", "a": `unexpected argument "a"`},
		"restore -f FILE --data DIR --id R": {"": "", "a": `unexpected argument "a"`},
	} {
		cmd := &cobra.Command{Use: use, Run: func(*cobra.Command, []string) {}}
		checkArguments(cmd)
		for line, want := range lines {
			args := strings.Fields(line)
			for i := range args {
				args[i] = strings.Trim(args[i], "'")
			}
			err := cmd.Args(cmd, args)
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || exitCode(err) != exitUsage) {
				t.Errorf("weir %s with %q: got %v, want %q", use, line, err, want)
			}
		}
	}
}

// TestBestStatus chooses among answers of replicas.
func TestBestStatus(t *testing.T) {
	leader := &apipb.StatusResponse{Replica: "leader", Leader: "r1", Quorum: true, Term: 3, AppliedIndex: 10}
	behind := &apipb.StatusResponse{Replica: "behind", Leader: "r1", Quorum: true, Term: 3, AppliedIndex: 9}
	lost := &apipb.StatusResponse{Replica: "lost", Leader: "r2", Term: 9, AppliedIndex: 99}
	electing := &apipb.StatusResponse{Replica: "electing", Quorum: true, Term: 9, AppliedIndex: 99}
	silent := errors.New("no answer")
	tests := map[string]struct {
		answers []client.ReplicaStatus
		want    string
	}{
		"one that has seen most":       {[]client.ReplicaStatus{{Status: behind}, {Status: leader}}, "leader"},
		"one that a majority follows":  {[]client.ReplicaStatus{{Status: lost}, {Status: behind}}, "behind"},
		"one that knows who leads":     {[]client.ReplicaStatus{{Status: electing}, {Status: behind}}, "behind"},
		"one that answers at all":      {[]client.ReplicaStatus{{Err: silent}, {Status: lost}}, "lost"},
		"the later term among the cut": {[]client.ReplicaStatus{{Status: lost}, {Status: &apipb.StatusResponse{Term: 8}}}, "lost"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := bestStatus(test.answers)
			if err != nil || got.GetReplica() != test.want {
				t.Errorf("got %v and %v, want %s", got, err, test.want)
			}
		})
	}
	if _, err := bestStatus([]client.ReplicaStatus{{Address: "host1:7701", Err: silent}}); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("nobody answers: got %v", err)
	}
}

// TestStillTryingIsSaid unless the user wants quiet and no terminal shows it.
func TestStillTryingIsSaid(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"by default":          {nil, "cluster unreachable: r1: no leader; retrying\n"},
		"not when it's quiet": {[]string{"--quiet"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			cmd := &cobra.Command{Use: "x"}
			cmd.Flags().Bool("quiet", false, "")
			cmd.SetErr(&said)
			if err := cmd.ParseFlags(test.args); err != nil {
				t.Fatal(err)
			}
			if say := stillTrying(cmd); say != nil {
				say("r1: no leader")
			}
			if said.String() != test.want {
				t.Errorf("said %q, want %q", said.String(), test.want)
			}
		})
	}
}
