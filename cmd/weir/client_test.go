package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

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

// TestOperationsWanted wants of the flags of weir op list the request that they mean, or an error that says what to write.
func TestOperationsWanted(t *testing.T) {
	now := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	for line, want := range map[string]string{
		"":                               `{"limit":100}`,
		"--failed":                       `{"limit":100, "failed_since":"1970-01-01T00:00:00Z"}`,
		"--failed --since 1h":            `{"limit":100, "failed_since":"2026-02-01T11:00:00Z"}`,
		"--since 7d":                     `{"limit":100, "started_since":"2026-01-25T12:00:00Z"}`,
		"--since 2h --started-before 1h": `{"limit":100, "started_since":"2026-02-01T10:00:00Z", "started_before":"2026-02-01T11:00:00Z"}`,
		"--finished-since 2026-01-31T08:00:00Z --finished-before 90s":                    `{"limit":100, "finished_since":"2026-01-31T08:00:00Z", "finished_before":"2026-02-01T11:58:30Z"}`,
		"--label team=ads --label urgent --label level!=2,3 --type service --title sort": `{"limit":100, "type":"service", "labels":["team=ads", "urgent", "level!=2,3"], "title":"sort"}`,
		"--since yesterday":              `error: --since "yesterday": must be how long ago, such as 90s, 1h or 7d, or a time such as 2026-01-31T08:00:00Z`,
		"--finished-before -1h":          `error: --finished-before "-1h": must be how long ago, such as 90s, 1h or 7d, or a time such as 2026-01-31T08:00:00Z`,
		"--since 1h --started-before 2h": `error: --since is not earlier than --started-before: no time is between them`,
		"--type batch":                   `error: --type "batch": must be one of vanilla, map, service, gang`,
		"--label =ads":                   `error: --label: label "=ads": write NAME=VALUE, NAME!=VALUE or NAME; a name has 1 to 64 letters, digits, '.', '_', '-' and '/'`,
	} {
		var wanted operationsWanted
		cmd := &cobra.Command{Use: "list"}
		wanted.register(cmd)
		if err := cmd.ParseFlags(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		req, err := wanted.request(now)
		wantRequest := &apipb.ListOperationsRequest{}
		if wantError, isError := strings.CutPrefix(want, "error: "); isError {
			if err == nil || err.Error() != wantError {
				t.Errorf("%s: %v, %v, want %s", line, req, err, wantError)
			}
			continue
		}
		if parse := protojson.Unmarshal([]byte(want), wantRequest); parse != nil || err != nil || !proto.Equal(req, wantRequest) {
			t.Errorf("%s: %v, %v, want %s (%v)", line, req, err, want, parse)
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
