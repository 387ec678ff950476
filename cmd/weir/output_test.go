package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
)

func TestEncode(t *testing.T) {
	message := &apipb.ListNodesResponse{Nodes: []*apipb.Node{{Id: "n1", Jobs: 3, Tags: []string{"yes"}}}}
	tests := map[format]string{
		formatJSON: `{
  "nodes": [
    {
      "id": "n1",
      "state": "",
      "resources": null,
      "usage": null,
      "tags": [
        "yes"
      ],
      "jobs": "3",
      "version": "",
      "host": "",
      "caveat": "",
      "registered_time": null,
      "last_heartbeat": null,
      "memory_used": "0",
      "drain": null,
      "tree": "",
      "memory_limits": "0",
      "file_cache": null
    }
  ],
  "next": "",
  "left_out": 0,
  "refused": [],
  "sums": null,
  "cells": null
}
`,
		formatYAML: `nodes:
- id: n1
  state: ""
  resources: null
  usage: null
  tags:
  - "yes"
  jobs: "3"
  version: ""
  host: ""
  caveat: ""
  registered_time: null
  last_heartbeat: null
  memory_used: "0"
  drain: null
  tree: ""
  memory_limits: "0"
  file_cache: null
next: ""
left_out: 0
refused: []
sums: null
cells: null
`,
	}
	for f, want := range tests {
		t.Run(string(f), func(t *testing.T) {
			got, err := encode(message, f)
			if err != nil || string(got) != want {
				t.Errorf("got %s and %v, want %s", got, err, want)
			}
		})
	}
}

// TestErrorTextIsForPeople says sizes as people read them, and nothing twice.
func TestErrorTextIsForPeople(t *testing.T) {
	for name, test := range map[string]struct {
		of   *apipb.Error
		want string
	}{
		"bytes have a unit": {
			&apipb.Error{Message: "Memory limit exceeded", Attributes: map[string]string{"limit": "67108864", "usage": "67112960", "biggest_processes": "tail (pid 7, 67207168 bytes)"}},
			"Memory limit exceeded\n  biggest_processes: tail (pid 7, 67207168 bytes)\n  limit: 67108864 (64 MiB)\n  usage: 67112960 (64 MiB)\n",
		},
		"a limit that is no number is left alone": {&apipb.Error{Message: "late", Attributes: map[string]string{"limit": "10m"}}, "late\n  limit: 10m\n"},
		"an attribute that repeats the message":   {&apipb.Error{Message: "full", Attributes: map[string]string{"output_fault": "full", "node": "n1"}}, "full\n  node: n1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := errorText(test.of, ""); got != test.want {
				t.Errorf("it says\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestErrorTextIsWhole draws errors of any text: no line of it acts on a terminal,
// and every error has its line.
func TestErrorTextIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &apipb.Error{Message: rapid.String().Draw(t, "message"), Attributes: rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "attributes")}
		outer := &apipb.Error{Message: "outer", Inner: []*apipb.Error{e, proto.CloneOf(e)}}
		for _, r := range errorText(outer, "") {
			if r != '\n' && printable(string(r)) != string(r) {
				t.Fatalf("%q is in %q", r, errorText(outer, ""))
			}
		}
	})
}

// TestColors: a state has a color on a terminal, unless the user or the terminal does not want it; --color decides
// before all.
func TestColors(t *testing.T) {
	_, terminal := openTerminal(t)
	defer terminal.Close()
	for name, test := range map[string]struct {
		set  coloring
		out  io.Writer
		env  map[string]string
		want bool
	}{
		"a terminal":                 {colorAuto, terminal, nil, true},
		"a file":                     {colorAuto, &strings.Builder{}, nil, false},
		"NO_COLOR":                   {colorAuto, terminal, map[string]string{"NO_COLOR": "1"}, false},
		"a terminal without colors":  {colorAuto, terminal, map[string]string{"TERM": "dumb"}, false},
		"a file, and always":         {colorAlways, &strings.Builder{}, map[string]string{"NO_COLOR": "1"}, true},
		"a terminal, but never":      {colorNever, terminal, nil, false},
		"an empty NO_COLOR does not": {colorAuto, terminal, map[string]string{"NO_COLOR": ""}, true},
	} {
		if got := test.set.holds(test.out, func(name string) string { return test.env[name] }); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	page := &apipb.ListOperationsResponse{Operations: []*apipb.Operation{
		{Id: "o1", State: "failed", Title: "failed"}, {Id: "o2", State: "running"}, {Id: "o3", State: "completed"},
	}}
	for color, want := range map[bool]string{true: "\x1b[31mfailed\x1b[0m", false: "failed"} {
		var out strings.Builder
		p := newPrinter(&out, &out, formatTable)
		p.color = color
		if err := p.show(operationsView(page, &apipb.ListOperationsRequest{}, p.ids())); err != nil {
			t.Fatal(err)
		}
		row := strings.Split(out.String(), "\n")[1]
		// The title is what a user wrote: it has no color.
		if !strings.HasPrefix(row, "o1         "+want+" ") || strings.Count(row, "\x1b") != strings.Count(want, "\x1b") {
			t.Errorf("colors %t: %q", color, row)
		}
	}
	if err := new(coloring).Set("yes"); err == nil {
		t.Error("--color yes is accepted")
	}
}

// TestListsFitOneHundredColumns: of an operation with long names, start and title begin within 100 columns.
func TestListsFitOneHundredColumns(t *testing.T) {
	page := &apipb.ListOperationsResponse{Operations: []*apipb.Operation{{
		Id: "01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b", State: "running", User: "ann.smith", Pool: "ads-production", Title: "sort the day by key",
		StartTime: timestamppb.New(textTime.Add(-26 * time.Hour)), Progress: &apipb.TaskProgress{Total: 10000, Completed: 9000, Running: 100, Failed: 12},
	}}}
	row := strings.Split(figures.Plain(operationsText(page, figures.IDs{}, textTime, 0)), "\n")[1]
	if shown := clip(row, 100); !strings.Contains(shown, "1d2h ago") || !strings.Contains(shown, "sort the day") {
		t.Errorf("%q", shown)
	}
}

// TestNarrowScreens has lists leave out what matters least until the rest fits, and only the end of the last column is
// beyond the edge.
func TestNarrowScreens(t *testing.T) {
	ago := timestamppb.New(textTime.Add(-26 * time.Hour))
	operations := &apipb.ListOperationsResponse{Operations: []*apipb.Operation{{
		Id: "01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b", State: "running", User: "ann.smith", Pool: "ads-production", Title: "sort the day by key",
		StartTime: ago, Progress: &apipb.TaskProgress{Total: 10000, Completed: 9000, Running: 100, Failed: 12},
	}}}
	jobs := &apipb.ListJobsResponse{Total: 1, Jobs: []*apipb.Job{{
		Id: "01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b", Task: "partition", Cookie: 9999, Node: "rack7-host-0042", State: "running", StartTime: ago,
		Statistics: &apipb.JobStatistics{MaxMemory: 3 << 30}, Resources: &apipb.Resources{Memory: 4 << 30},
	}}}
	nodes := []*apipb.Node{{
		Id: "rack7-host-0042", State: "online", Jobs: 42, Tags: []string{"ssd", "gpu-a100"}, Host: "10.20.30.40", LastHeartbeat: ago,
		Resources: &apipb.Resources{UserSlots: 128, Cpu: 128, Memory: 512 << 30, Gpu: 8}, Usage: &apipb.Resources{UserSlots: 42, Cpu: 120.5, Memory: 300 << 30, Gpu: 8},
	}}
	half := 0.5
	pools := []*apipb.Pool{{Name: "ads-production", Parent: "<Root>", FairShare: &half, UsageShare: &half, DemandShare: &half, StrongGuaranteeShare: &half, DominantResource: "user_slots",
		SchedulingStatus: "below_fair_share", RunningOperationCount: 12, EffectiveMaxRunningOperationCount: 100, OperationCount: 30, EffectiveMaxOperationCount: 1000}}
	instances := &apipb.WatchInstancesResponse{Instances: []*apipb.Instance{{JobId: "01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b", Task: "serve", Cookie: 12, State: "live", Ready: true, Host: "10.20.30.40", Ports: []int32{21000}, Node: "rack7-host-0042", StartTime: ago}}}
	for name, test := range map[string]struct {
		draw func(screen int) string
		want map[int]string
	}{
		"operations": {func(n int) string { return operationsText(operations, figures.IDs{}, textTime, n) }, map[int]string{
			0: "operation state jobs running failed pool user started title", 80: "operation state jobs pool user title", 60: "operation state pool title",
		}},
		"jobs": {func(n int) string { return jobsText(jobs, &apipb.ListJobsRequest{}, figures.IDs{}, textTime, n) }, map[int]string{
			0: "job task cookie attempt node state started took memory", 80: "job task cookie attempt node state started took", 60: "job task cookie node state",
		}},
		"nodes": {func(n int) string { return nodesText(nodes, textTime, n) }, map[int]string{
			0: "node state jobs slots cpu memory gpu tags heartbeat host", 80: "node state jobs cpu memory heartbeat", 60: "node state jobs cpu memory",
		}},
		"pools": {func(n int) string { return poolsText(pools, textTime, n) }, map[int]string{
			0: "pool weight guarantee fair share usage demand dominant running operations status", 80: "pool fair share usage demand running operations status", 60: "pool fair share usage demand status",
		}},
		"the tree": {func(n int) string {
			return poolTreeText(&apipb.ListPoolsResponse{Tree: "default", Pools: pools}, textTime, n)
		}, map[int]string{
			80: "pool guarantee fair share usage demand status", 60: "pool fair share usage status",
		}},
		"instances": {func(n int) string { return instancesText(instances, figures.IDs{}, textTime, n) }, map[int]string{
			80: "task cookie job state address node", 60: "task cookie job state address",
		}},
	} {
		for screen, want := range test.want {
			lines := strings.Split(figures.Plain(test.draw(screen)), "\n")
			if name == "the tree" {
				lines = lines[1:]
			}
			if got := strings.ToLower(strings.Join(strings.Fields(lines[0]), " ")); got != want {
				t.Errorf("%s on %d columns: %q, want %q:\n%s", name, screen, got, want, strings.Join(lines, "\n"))
			}
		}
	}
}
