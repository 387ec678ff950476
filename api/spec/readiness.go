package spec

import (
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"weir/messages/statepb"
	"weir/scheduling/option"
)

// Options that say how it is found whether an instance takes requests (J.3.2).
const (
	fieldReadiness = "readiness"
	fieldHTTP      = "http"
	fieldTCP       = "tcp"
	fieldExec      = "exec"
	fieldSocket    = "socket"
	fieldPort      = "port"
	fieldPeriod    = "period"
	fieldTimeout   = "timeout"
	fieldFailures  = "failures"
)

// How often an instance is asked when nothing is said, and the bounds of that.
const (
	DefaultProbePeriod   = time.Second
	DefaultProbeTimeout  = time.Second
	DefaultProbeFailures = 3
	MinProbePeriod       = 100 * time.Millisecond
	MaxProbePeriod       = time.Hour
	MaxProbeFailures     = 1000
)

// readinessKinds are the ways to find out, of which one is chosen.
var readinessKinds = []string{fieldHTTP, fieldTCP, fieldExec, fieldSocket}

// readiness returns how the instances of a task are found to be ready; nil: they are when
// they run.
func (o options) readiness(task *statepb.TaskSpec) *statepb.Readiness {
	v := o.get(fieldReadiness, object)
	if v == nil {
		return nil
	}
	own := o.c.options(join(o.path, fieldReadiness), v, append(slices.Clone(readinessKinds), fieldPort, fieldPeriod, fieldTimeout, fieldFailures))
	r := &statepb.Readiness{}
	var chosen []string
	for _, kind := range readinessKinds {
		if own.set[kind] != nil {
			chosen = append(chosen, kind)
		}
	}
	if len(chosen) != 1 {
		o.fault(fieldReadiness, "it has %d of %s: write one of them, such as http: /ready", len(chosen), strings.Join(readinessKinds, ", "))
		return nil
	}
	switch chosen[0] {
	case fieldHTTP:
		r.HttpPath = own.httpPath()
	case fieldTCP:
		r.Tcp = own.chosen(fieldTCP)
	case fieldExec:
		r.Exec = own.program(fieldExec)
	case fieldSocket:
		r.Socket = own.chosen(fieldSocket)
	}
	own.probing(r, task.GetPortCount())
	return r
}

// probing takes where and how often an instance is asked. What has no effect is a fault.
func (o options) probing(r *statepb.Readiness, ports int32) {
	asksPort := o.set[fieldHTTP] != nil || o.set[fieldTCP] != nil
	r.Port = int32(o.integer(fieldPort, 0, 0, MaxPorts-1))
	switch {
	case o.set[fieldPort] != nil && !asksPort:
		o.fault(fieldPort, "it says which port %s or %s asks, and there is neither: leave it out", fieldHTTP, fieldTCP)
	case asksPort && ports == 0:
		o.fault(fieldPort, "the task has no ports: add port_count, and have it listen at $WEIR_HOST:$WEIR_PORT_0")
	case asksPort && r.GetPort() >= ports:
		o.fault(fieldPort, "%d is beyond the task's port_count, %d: ports are counted from 0", r.GetPort(), ports)
	}
	if o.set[fieldSocket] != nil {
		for _, name := range []string{fieldPeriod, fieldTimeout, fieldFailures} {
			if o.set[name] != nil {
				o.fault(name, "it says how an instance is asked, and with %s it says by itself: leave it out", fieldSocket)
			}
		}
		return
	}
	r.Period = o.span(fieldPeriod, DefaultProbePeriod)
	r.Timeout = o.span(fieldTimeout, DefaultProbeTimeout)
	r.Failures = int32(o.integer(fieldFailures, DefaultProbeFailures, 1, MaxProbeFailures))
}

// span returns a time between two probes, or that one may take; missing when it is not set.
func (o options) span(name string, missing time.Duration) *durationpb.Duration {
	if d := o.durationWithin(name, MinProbePeriod, MaxProbePeriod); d != nil {
		return d
	}
	return durationpb.New(missing)
}

// chosen returns a way that has nothing to say but that it is the one.
func (o options) chosen(name string) bool {
	v := o.get(name, boolean)
	if v != nil && !v.truth {
		o.fault(name, "it is false: leave it out, and write one of %s", strings.Join(readinessKinds, ", "))
	}
	return v != nil && v.truth
}

func (o options) httpPath() string {
	s := o.text(fieldHTTP, MaxPathBytes)
	if o.set[fieldHTTP].kind != text {
		return ""
	}
	if !path.IsAbs(s) || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		o.fault(fieldHTTP, "%q is no path to ask for: write one that begins with / and has no spaces, such as /ready", clip(s))
		return ""
	}
	return s
}

// program returns a program and its arguments.
func (o options) program(name string) []string {
	v := o.get(name, list)
	switch {
	case v == nil:
		return nil
	case len(v.items) == 0 || len(v.items) > MaxArguments:
		o.fault(name, "it has %d parts: write a program and its arguments, %d at most", len(v.items), MaxArguments)
		return nil
	}
	return o.argv(name, v.items)
}

func formatReadiness(out map[string]any, r *statepb.Readiness) {
	if r == nil {
		return
	}
	own := map[string]any{}
	switch {
	case r.GetHttpPath() != "":
		own[fieldHTTP], own[fieldPort] = r.GetHttpPath(), r.GetPort()
	case r.GetTcp():
		own[fieldTCP], own[fieldPort] = true, r.GetPort()
	case len(r.GetExec()) > 0:
		own[fieldExec] = anyList(r.GetExec())
	case r.GetSocket():
		own[fieldSocket] = true
	}
	if !r.GetSocket() {
		own[fieldPeriod], own[fieldTimeout] = option.FormatDuration(r.GetPeriod().AsDuration()), option.FormatDuration(r.GetTimeout().AsDuration())
		own[fieldFailures] = r.GetFailures()
	}
	out[fieldReadiness] = own
}

func anyList(words []string) []any {
	list := make([]any, len(words))
	for i, w := range words {
		list[i] = w
	}
	return list
}
