package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/apipb"
)

// TestServices (W1): of each service that the caller may read, how many instances are wanted, run, are ready and
// have to leave, the most urgent first; operations whose jobs nobody can reach are none.
func TestServices(t *testing.T) {
	s, other := rightsSite(t)
	start := func(title, task string) string {
		body := fmt.Sprintf(`{"spec": {"pool": "ads", "title": %q, "tasks": {"t": {"job_count": 5, "command": ["x"], "memory_limit": "1MiB", %s}}}}`, title, task)
		return at(t, s.get("OperationService/Start", body, roleHeader, "user/ann"), "operation_id").(string)
	}
	ports, probed := start("with ports", `"port_count": 1`), start("probed", `"readiness": {"socket": true}`)
	for _, id := range []string{ports, probed} {
		s.leadsTo(id, 5)
	}
	instance := func(job, task, state string, ready bool, left time.Duration) *actorpb.Instance {
		in := &actorpb.Instance{JobId: job, Task: task, State: state, Ready: ready}
		if left > 0 {
			in.Deadline = timestamppb.New(begin.Add(left))
		}
		return in
	}
	s.see(&actorpb.Instances{Version: "1", Instances: []*actorpb.Instance{
		instance("j1", "t", actorpb.InstanceLive, true, 0), instance("j2", "t", actorpb.InstanceLive, false, 0),
		instance("j3", "t", actorpb.InstanceDraining, false, 0), instance("j4", "t", actorpb.InstanceDraining, false, time.Minute),
		instance("j5", "t", actorpb.InstanceDraining, false, time.Second), instance("j6", "t", actorpb.InstanceGone, false, 0),
		instance("w1", "warm", actorpb.InstanceLive, true, 0),
	}})
	got := s.get("OperationService/Services", `{}`, roleHeader, "user/reader")
	want(t, got, probed, "services", 0, "operation", "id")
	want(t, got, ports, "services", 1, "operation", "id")
	if all := at(t, got, "services").([]any); len(all) != 2 {
		t.Fatalf("%d services, one may be %s, whose jobs nobody can reach", len(all), other)
	}
	for figure, value := range map[string]string{"wanted": "5", "running": "5", "ready": "1", "draining": "3"} {
		want(t, got, value, "services", 1, figure)
	}
	for i, job := range []string{"j5", "j4", "j3"} {
		want(t, got, job, "services", 1, "leaving", i, "job_id")
	}
	for subject, n := range map[string]int{"user/stranger": 0, "user/submitter": 0, "user/ann": 2, "operator/oda": 2} {
		if got := s.get("OperationService/Services", `{}`, roleHeader, subject); strings.Count(fmt.Sprint(got), "with ports") > 0 != (n > 0) {
			t.Errorf("%s sees %v, want %d services", subject, got, n)
		}
	}
	for body, id := range map[string]string{
		`{"limit": 1}`: probed, `{"limit": 1, "after": "` + probed + `"}`: ports, `{"filter": "with"}`: ports, `{"pool": "ads", "user": "ann", "filter": "probed"}`: probed,
	} {
		got := s.get("OperationService/Services", body, roleHeader, "user/ann")
		want(t, got, id, "services", 0, "operation", "id")
		if all := at(t, got, "services").([]any); len(all) != 1 {
			t.Errorf("%s: %d services", body, len(all))
		}
	}
	want(t, s.get("OperationService/Services", `{"limit": 1}`, roleHeader, "user/ann"), true, "incomplete")
	if got := s.get("OperationService/Services", `{"pool": "ads-prod"}`, roleHeader, "user/ann"); fmt.Sprint(got["services"]) != "[]" {
		t.Errorf("services of another pool: %v", got)
	}
	for body, status := range map[string]int{`{"limit": -1}`: 400, `{"after": "nobody"}`: 404} {
		if got := s.post("OperationService/Services", body); got.status != status || got.header.Get(apipb.HeaderCode) == "" {
			t.Errorf("%s: %d %s, want %d", body, got.status, got.raw, status)
		}
	}
}
