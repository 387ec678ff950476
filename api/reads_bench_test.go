package api

import (
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
)

// BenchmarkReads prints for how long a read holds the state at once, at the most (of the call that held it
// least, as the machine may be busy), with 10,000 nodes, 1,000
// grants of nodes, and 100,000 operations, of which 20,000 run 40,000 jobs and have more to start, and one runs 50,000.
// Nothing is applied meanwhile.
func BenchmarkReads(b *testing.B) {
	const nodes, running, ended, wide = 10000, 20000, 80000, 50000
	s := newSite(b)
	index := uint64(1)
	apply := func(messages ...proto.Message) {
		for _, msg := range messages {
			index++
			if result, _ := state.ApplyBy(s.state, index, nil, msg); result.GetRefusal() != nil {
				b.Fatalf("%T: %v", msg, result.GetRefusal())
			}
		}
	}
	options, err := structpb.NewStruct(map[string]any{"max_operation_count": running + 1, "max_running_operation_count": running + 1,
		"max_operation_count_per_pool": running + 1, "max_running_operation_count_per_pool": running + 1})
	if err != nil {
		b.Fatal(err)
	}
	apply(&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "c1", Limits: state.WithGrants(&statepb.Limits{Operations: running + 2, ArchivedOperations: ended})},
		&commandpb.EditTree{Tree: "default", Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Change{Change: changesOf(options)}}}})
	for i := range 1000 {
		apply(&commandpb.EditNodeGrant{Grant: &statepb.NodeGrant{Pattern: fmt.Sprintf("n%03d?", i)}})
	}
	size := &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1 << 20}
	for i := range nodes {
		apply(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
			Id: fmt.Sprintf("n%04d", i), Incarnation: 1, Version: "v2", Resources: &statepb.Resources{UserSlots: 10, CpuHundredths: 1000, Memory: int64(1+i%7) << 30},
		}})
	}
	start := func(id string, jobs int32) {
		apply(&commandpb.StartOperation{OperationId: id, User: "ann", Time: timestamppb.New(begin), Spec: &statepb.OperationSpec{Type: "vanilla", Pool: "default", Tasks: []*statepb.TaskSpec{{
			Name: "t", JobCount: jobs, Argv: []string{"run"}, CpuLimitHundredths: 100, MemoryLimit: 1 << 20}}}})
	}
	for i := range ended {
		id := fmt.Sprint("ended", i)
		start(id, 4)
		apply(&commandpb.AbortOperation{OperationId: id, User: "ann"}, &commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "aborting", To: "aborted"})
	}
	// run starts an operation, and so many of its jobs: j<of>-0, j<of>-1 and so on.
	run := func(id, of string, all int32, granted, first int) {
		start(id, all)
		apply(
			&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "starting", To: "waiting_for_agent"},
			&commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{{OperationId: id, Replica: "r1", Epoch: 1}}},
			&commandpb.PrepareOperation{OperationId: id, Epoch: 1},
			&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "pending", To: "materializing", Trees: []string{"default"}},
			&commandpb.DefineTasks{OperationId: id, Epoch: 1, Tasks: []*commandpb.TaskDefinition{{
				Name: "t", JobCount: all, JobResources: size, Memory: &statepb.TaskMemory{Profile: "p", Reserve: &statepb.JobReserve{User: size.GetMemory()}}}}},
		)
		grants := &commandpb.StartAllocations{Term: 1}
		for j := range granted {
			grants.Grants = append(grants.Grants, &commandpb.Grant{JobId: fmt.Sprintf("j%s-%d", of, j), OperationId: id, Task: "t",
				Node: fmt.Sprintf("n%04d", (first+j)%nodes), NodeIncarnation: 1, Resources: size})
		}
		apply(grants)
	}
	for i := range running {
		run(fmt.Sprint("op", i), fmt.Sprint(i), 4, 2, 2*i)
	}
	run("wide", "wide", 2*wide, wide, 0)
	s.index = index
	for _, test := range []struct{ method, body string }{
		{"ClusterService/Status", "{}"}, {"ClusterService/Members", "{}"}, {"NodeService/List", "{}"}, {"NodeService/List", `{"limit": 1000}`}, {"NodeService/List", `{"cells": "cpu"}`}, {"NodeService/Get", `{"node": "n0000"}`},
		{"NodeService/Grants", "{}"}, {"OperationService/List", "{}"}, {"OperationService/List", `{"filter": "nosuch"}`}, {"OperationService/Get", `{"operation": "op7"}`},
		{"OperationService/Get", `{"operation": "ended7"}`}, {"JobService/List", `{"operation": "op7"}`}, {"JobService/List", `{"operation": "wide"}`}, {"JobService/Get", `{"job_id": "j7-1"}`}, {"PoolService/List", "{}"},
		{"PoolService/Get", `{"name": "default"}`}, {"TreeService/List", "{}"}, {"TreeService/WhatIf", `{}`}, {"AttributeService/Get", `{"path": "/"}`},
		{"AttributeService/Get", `{"path": "/scheduler/pool_trees/default/pools/default"}`}, {"AttributeService/Get", `{"path": "/scheduler/pool_trees/default"}`},
		{"AttributeService/Get", `{"path": "/scheduler/pool_trees/default/nodes"}`}, {"AttributeService/Get", `{"path": "/scheduler/pool_trees/default/operations"}`},
		{"MemoryService/Profiles", "{}"}, {"AccessService/WhoAmI", "{}"},
		{"ExplainService/Explain", `{"operation": "op7"}`}, {"ExplainService/Explain", `{"pool": "default"}`}, {"ExplainService/Explain", `{"job": "j7-1"}`},
	} {
		b.Run(test.method+test.body, func(b *testing.B) {
			least := int64(math.MaxInt64)
			for b.Loop() {
				s.longest.Store(0)
				r := s.post(test.method, test.body, roleHeader, "user/ann")
				if r.status != 200 && b.N == 1 {
					b.Logf("%d %s", r.status, r.raw)
				}
				least = min(least, s.longest.Load())
			}
			b.ReportMetric(float64(least)/float64(time.Millisecond), "ms-held")
		})
	}
}
