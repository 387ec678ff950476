package spec

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"weir/messages/statepb"
)

func TestReadiness(t *testing.T) {
	usual := func(r *statepb.Readiness) *statepb.Readiness {
		r.Period, r.Timeout, r.Failures = durationpb.New(time.Second), durationpb.New(time.Second), 3
		return r
	}
	for name, test := range map[string]struct {
		lines []string
		want  *statepb.Readiness
	}{
		"nothing is said":                      {nil, nil},
		"it answers under a path":              {[]string{"port_count: 1", "readiness: {http: /ready}"}, usual(&statepb.Readiness{HttpPath: "/ready"})},
		"it takes connections at another port": {[]string{"port_count: 2", "readiness: {tcp: true, port: 1}"}, usual(&statepb.Readiness{Tcp: true, Port: 1})},
		"a program of its own finds out":       {[]string{"readiness: {exec: [./check, -v]}"}, usual(&statepb.Readiness{Exec: []string{"./check", "-v"}})},
		"it says so itself":                    {[]string{"readiness: {socket: true}"}, &statepb.Readiness{Socket: true}},
		"it is asked in its own time": {[]string{"port_count: 1", "readiness: {tcp: true, period: 250ms, timeout: 2s, failures: 1}"},
			&statepb.Readiness{Tcp: true, Period: durationpb.New(250 * time.Millisecond), Timeout: durationpb.New(2 * time.Second), Failures: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := checked(Read([]byte(task(test.lines...))))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, parsed.Spec.GetTasks()[0].GetReadiness(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadinessFaults(t *testing.T) {
	checkFaults(t, map[string]faultCase{
		"no way to find out":         {task("readiness: {period: 1s}"), []string{`line 5, column 16: tasks.t.readiness: it has 0 of http, tcp, exec, socket: write exactly one of them, such as http: /ready`}},
		"two ways":                   {task("readiness: {tcp: true, socket: true}"), []string{`line 5, column 16: tasks.t.readiness: it has 2 of http, tcp, exec, socket: write exactly one of them, such as http: /ready`}},
		"an unknown way":             {task("readiness: {socket: true, grpc: x}"), []string{`line 5, column 31: tasks.t.readiness.grpc: unknown option: use one of http, tcp, exec, socket, port, period, timeout, failures`}},
		"a way that is switched off": {task("readiness: {socket: false}"), []string{`line 5, column 25: tasks.t.readiness.socket: it is false: leave it out, and write one of http, tcp, exec, socket`}},
		"no port to ask":             {task("readiness: {tcp: true}"), []string{`line 5, column 16: tasks.t.readiness.port: the task has no ports: add port_count, and have it listen at $WEIR_HOST:$WEIR_PORT_0`}},
		"a port that it has not":     {task("port_count: 1", "readiness: {tcp: true, port: 1}"), []string{`line 6, column 34: tasks.t.readiness.port: 1 is beyond the task's port_count, 1: ports are counted from 0`}},
		"a port for a program":       {task("port_count: 1", "readiness: {exec: [x], port: 0}"), []string{`line 6, column 34: tasks.t.readiness.port: port applies only to an http or tcp check, and neither is set: remove port`}},
		"a period for its own word":  {task("readiness: {socket: true, period: 1s}"), []string{`line 5, column 39: tasks.t.readiness.period: it says how an instance is checked, but with socket the instance reports its own state: leave it out`}},
		"too often":                  {task("port_count: 1", "readiness: {tcp: true, period: 1ms}"), []string{`line 6, column 36: tasks.t.readiness.period: 1ms is too short: the minimum is 100ms`}},
		"no path":                    {task("port_count: 1", "readiness: {http: ready}"), []string{`line 6, column 23: tasks.t.readiness.http: "ready" is not a valid path: write one that begins with / and has no spaces, such as /ready`}},
		"no program":                 {task("readiness: {exec: []}"), []string{`line 5, column 23: tasks.t.readiness.exec: it is empty: write a list, the program and its arguments`}},
	})
}

func TestSpread(t *testing.T) {
	for name, test := range map[string]struct {
		lines []string
		want  bool
	}{
		"a batch does not":            {nil, false},
		"a service with ports does":   {[]string{"port_count: 1"}, true},
		"and one that is to be ready": {[]string{"readiness: {socket: true}"}, true},
		"but not a gang":              {[]string{"port_count: 1", "gang_options: {size: 1}"}, false},
		"whatever is said":            {[]string{"spread: true"}, true},
		"or that it does not":         {[]string{"port_count: 1", "spread: false"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := checked(Read([]byte(task(test.lines...))))
			if err != nil {
				t.Fatal(err)
			}
			if got := parsed.Spec.GetTasks()[0].GetSpread(); got != test.want {
				t.Errorf("it spreads: %t, want %t", got, test.want)
			}
		})
	}
	checkFaults(t, map[string]faultCase{
		"a gang that is to": {task("gang_options: {size: 1}", "spread: true"), []string{`line 6, column 13: tasks.t.spread: jobs with gang_options start on any nodes that have room for all of them: leave it out`}},
	})
}

func TestHandOver(t *testing.T) {
	service := []string{"restart_completed_jobs: true", "interruption_signal: TERM"}
	for name, test := range map[string]struct {
		lines                    []string
		wantSurge, wantAvailable int32
	}{
		"a job is no service":                    {nil, 0, 0},
		"nobody can tell whether it is ready":    {service, 0, 0},
		"one is replaced at a time":              {append(service, "readiness: {socket: true}"), 1, 0},
		"as is said":                             {append(service, "max_surge: 3", "min_available: 1"), 3, 1},
		"none is, if that is said":               {append(service, "readiness: {socket: true}", "max_surge: 0"), 0, 0},
		"jobs that do not come back can be many": {[]string{"interruption_signal: TERM", "min_available: 1"}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := checked(Read([]byte(task(test.lines...))))
			if err != nil {
				t.Fatal(err)
			}
			if got := parsed.Spec.GetTasks()[0]; got.GetMaxSurge() != test.wantSurge || got.GetMinAvailable() != test.wantAvailable {
				t.Errorf("max_surge %d, min_available %d, want %d and %d", got.GetMaxSurge(), got.GetMinAvailable(), test.wantSurge, test.wantAvailable)
			}
		})
	}
	checkFaults(t, map[string]faultCase{
		"a surge of what is not started again": {task("interruption_signal: TERM", "max_surge: 1"), []string{`line 6, column 16: tasks.t.max_surge: it has no effect without restart_completed_jobs: true and an interruption_signal: add them, or leave it out`}},
		"jobs that cannot be told":             {task("min_available: 1"), []string{`line 5, column 20: tasks.t.min_available: it has no effect without an interruption_signal: add one, or leave it out`}},
		"more than there are":                  {task("interruption_signal: TERM", "min_available: 2"), []string{`line 6, column 20: tasks.t.min_available: 2 is more than job_count, 1: that many instances can never be ready`}},
	})
}
