package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cluster/wire"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// said are flags and arguments that only the user, or the shell, knows: files, and what a
// replica that is not there yet is to be called.
var said = []string{"file", "secure-vault", "secret-key-file", "to", "data", "address", "id", "-f FILE", "REPLICA --address HOST:PORT", "-f FILE --data DIR --id REPLICA --address HOST:PORT"}

// TestWhatNamesThingsIsCompleted wants a completion of each flag of a verb that uses a
// cluster and takes text, and of each argument, unless only the user knows what it can be.
func TestWhatNamesThingsIsCompleted(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			_, completed := cmd.GetFlagCompletionFunc(flag.Name)
			text := slices.Contains([]string{"string", "stringSlice", "stringArray", "format"}, flag.Value.Type())
			_, folder := flag.Annotations[cobra.BashCompSubdirsInDir]
			if text && !completed && !folder && !slices.Contains(said, flag.Name) {
				t.Errorf("%s --%s is not completed", cmd.CommandPath(), flag.Name)
			}
		})
		_, names, takesSome := strings.Cut(cmd.Use, " ")
		if takesSome && cmd.ValidArgsFunction == nil && !slices.Contains(said, names) {
			t.Errorf("%s: argument %s is not completed", cmd.CommandPath(), names)
		}
		for _, below := range cmd.Commands() {
			check(below)
		}
	}
	for _, cmd := range newClientCommands() {
		check(cmd)
	}
}

// TestSuggestions are what the cluster has, with what it is behind a tab.
func TestSuggestions(t *testing.T) {
	address := answering(t)
	for line, want := range map[string]string{
		"op get":                     "*nightly\trunning sort of bob,op1\trunning sort of bob,op2\tcompleted of ann",
		"op abort":                   "*nightly\trunning sort of bob,op1\trunning sort of bob",
		"op statistics op1 --task":   "map\t1/2, merge\t0/1",
		"op statistics --task":       "",
		"job list op1 --task":        "map\t1/2, merge\t0/1",
		"job get":                    "op1-waits\twaiting of task map on n1,op1-done\tcompleted of task map on n1,op2-waits\twaiting of task map on n1,op2-done\tcompleted of task map on n1",
		"job abort":                  "op1-waits\twaiting of task map on n1",
		"job stderr":                 "op1-waits\twaiting of task map on n1,op1-done\tcompleted of task map on n1,op2-waits\twaiting of task map on n1,op2-done\tcompleted of task map on n1",
		"op list --user":             "ann,bob",
		"op list --label":            "day=1,team=ads",
		"op list --type":             "vanilla,map,service,gang",
		"op list --pool":             "ads,gpus",
		"explain pool":               "ads,gpus",
		"pool get --tree gpu":        "gpus",
		"pool list --tree":           "default,gpu",
		"group add":                  "ads",
		"pool acl ads --allow":       "group:ads=read,group:ads=use,group:ads=manage,group:ads=administer",
		"op get op1":                 "",
		"job get op1-done --timeout": "",
		"whatif --remove-operation":  "*nightly\trunning sort of bob,op1\trunning sort of bob",
	} {
		t.Run(line, func(t *testing.T) {
			got := ""
			// A machine that is busy for too long leaves one without suggestions.
			for range 5 {
				if got = suggestions(t, address, line); got != "" {
					break
				}
			}
			if got != strings.ReplaceAll(want, ", ", ",") {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// suggestions are what the shell is told to complete a line by, with a comma between them.
func suggestions(t *testing.T, address, line string) string {
	t.Helper()
	var said strings.Builder
	root := newRootCommand()
	args := append([]string{cobra.ShellCompRequestCmd}, strings.Fields(line)...)
	args = slices.Insert(args, 2, "--insecure-plaintext", "--addresses", address)
	root.SetArgs(append(args, ""))
	root.SetOut(&said)
	root.SetErr(&strings.Builder{})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	return strings.Join(lines[:len(lines)-1], ",")
}

// answering opens an API with some operations, jobs, pools and trees, until the test ends.
func answering(t *testing.T) (address string) {
	t.Helper()
	mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: wire.Insecure{}})
	if err != nil {
		t.Fatal(err)
	}
	routes := http.NewServeMux()
	routes.Handle(apipbconnect.NewOperationServiceHandler(someOperations{}))
	routes.Handle(apipbconnect.NewJobServiceHandler(someJobs{}))
	routes.Handle(apipbconnect.NewPoolServiceHandler(somePools{}))
	routes.Handle(apipbconnect.NewTreeServiceHandler(someTrees{}))
	routes.Handle(apipbconnect.NewAccessServiceHandler(someGroups{}))
	server := &http.Server{Handler: routes}
	mux.ConfigureServer(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(mux.HTTP()) })
	t.Cleanup(func() {
		_ = server.Close()
		_ = mux.Close()
		serving.Wait()
	})
	return mux.Addr().String()
}

type someOperations struct {
	apipbconnect.UnimplementedOperationServiceHandler
}

func (someOperations) List(_ context.Context, req *connect.Request[apipb.ListOperationsRequest]) (*connect.Response[apipb.ListOperationsResponse], error) {
	all := []*apipb.Operation{{Id: "op1", Alias: "*nightly", State: "running", Title: "sort", User: "bob", Labels: map[string]string{"team": "ads", "day": "1"}}}
	if !req.Msg.GetInProgress() {
		all = append(all, &apipb.Operation{Id: "op2", State: "completed", User: "ann"})
	}
	return connect.NewResponse(&apipb.ListOperationsResponse{Operations: all}), nil
}

func (someOperations) Get(_ context.Context, req *connect.Request[apipb.GetOperationRequest]) (*connect.Response[apipb.GetOperationResponse], error) {
	if req.Msg.GetOperation() != "op1" {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("no such operation"))
	}
	return connect.NewResponse(&apipb.GetOperationResponse{Operation: &apipb.Operation{
		Id: "op1", Tasks: []*apipb.TaskProgress{{Name: "map", Completed: 1, Total: 2}, {Name: "merge", Total: 1}},
	}}), nil
}

type someGroups struct {
	apipbconnect.UnimplementedAccessServiceHandler
}

func (someGroups) Groups(context.Context, *connect.Request[apipb.GroupsRequest]) (*connect.Response[apipb.GroupsResponse], error) {
	return connect.NewResponse(&apipb.GroupsResponse{Groups: []*apipb.Group{{Name: "ads"}}}), nil
}

type someJobs struct {
	apipbconnect.UnimplementedJobServiceHandler
}

func (someJobs) List(_ context.Context, req *connect.Request[apipb.ListJobsRequest]) (*connect.Response[apipb.ListJobsResponse], error) {
	op := req.Msg.GetOperation()
	return connect.NewResponse(&apipb.ListJobsResponse{Total: 2, Jobs: []*apipb.Job{
		{Id: op + "-waits", Task: "map", Node: "n1", State: "waiting"},
		{Id: op + "-done", Task: "map", Node: "n1", State: "completed", FinishTime: timestamppb.Now()},
	}}), nil
}

type somePools struct {
	apipbconnect.UnimplementedPoolServiceHandler
}

func (somePools) List(_ context.Context, req *connect.Request[apipb.ListPoolsRequest]) (*connect.Response[apipb.ListPoolsResponse], error) {
	name := "ads"
	if req.Msg.GetTree() == "gpu" {
		name = "gpus"
	}
	return connect.NewResponse(&apipb.ListPoolsResponse{Pools: []*apipb.Pool{{Name: name}}}), nil
}

type someTrees struct {
	apipbconnect.UnimplementedTreeServiceHandler
}

func (someTrees) List(context.Context, *connect.Request[apipb.ListTreesRequest]) (*connect.Response[apipb.ListTreesResponse], error) {
	return connect.NewResponse(&apipb.ListTreesResponse{Trees: []*apipb.Tree{{Name: "default"}, {Name: "gpu"}}}), nil
}

// TestWholeIDsAreCompleted: an id is suggested as lists show it, or as the user has begun to write it.
func TestWholeIDsAreCompleted(t *testing.T) {
	const id = "01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b"
	for begun, want := range map[string]string{"": "5f1d2e4b", "5f1d": "5f1d2e4b", "01902": id, id: id} {
		if got := (&session{begun: begun}).offered(id); got != want {
			t.Errorf("after %q: %q, want %q", begun, got, want)
		}
	}
}
