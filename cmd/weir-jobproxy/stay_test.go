package main

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// TestPlain says which jobs a proxy can have had when it runs another.
func TestPlain(t *testing.T) {
	plainly := func() *proxyproto.Spec {
		return &proxyproto.Spec{Isolation: proxyproto.IsolationDefault, Separate: true}
	}
	tests := map[string]struct {
		change func(*proxyproto.Spec)
		want   bool
	}{
		"separate":           {func(*proxyproto.Spec) {}, true},
		"strict":             {func(s *proxyproto.Spec) { s.Isolation, s.Separate = proxyproto.IsolationStrict, false }, true},
		"among others":       {func(s *proxyproto.Spec) { s.Separate = false }, false},
		"with secrets":       {func(s *proxyproto.Spec) { s.HasSecrets = true }, false},
		"with input":         {func(s *proxyproto.Spec) { s.Feed = &proxyproto.Feed{} }, false},
		"with files to keep": {func(s *proxyproto.Spec) { s.Outputs = []proxyproto.KeptFile{{}} }, false},
		"with tmpfs":         {func(s *proxyproto.Spec) { s.Tmpfs = []proxyproto.Tmpfs{{}} }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec := plainly()
			if test.change(spec); plain(spec) != test.want {
				t.Errorf("want %t", test.want)
			}
		})
	}
}

// TestUsageSince leaves out what was used before.
func TestUsageSince(t *testing.T) {
	before := unix.Rusage{Utime: unix.Timeval{Sec: 1, Usec: 900_000}, Stime: unix.Timeval{Usec: 7}, Inblock: 1, Oublock: 2, Majflt: 3, Nvcsw: 4, Nivcsw: 5}
	after := unix.Rusage{Utime: unix.Timeval{Sec: 3, Usec: 100_000}, Stime: unix.Timeval{Usec: 9}, Inblock: 11, Oublock: 22, Majflt: 33, Nvcsw: 44, Nivcsw: 55}
	want := unix.Rusage{Utime: unix.Timeval{Sec: 1, Usec: 200_000}, Stime: unix.Timeval{Usec: 2}, Inblock: 10, Oublock: 20, Majflt: 30, Nvcsw: 40, Nivcsw: 50}
	if got := since(after, before); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestProxyHasOneJob at a time, and exits after one that is not plain though it was asked to stay.
func TestProxyHasOneJob(t *testing.T) {
	p := startProxy(t, "while [ ! -e go ]; do sleep 0.01; done", time.Hour)
	a := p.connect(t)
	if !a.hear(t, "hello").Hello.Stays {
		t.Error("it does not say that it can run another job")
	}
	a.say(t, `{"run":{"folder":"/nowhere"}}`)
	if m := a.hear(t, "error").Error; m.Message != "run" {
		t.Errorf("error %+v", m)
	}
	a.say(t, `{"stop":{"reason":"enough","grace_millis":0}}`)
	a.hear(t, "exited")
	a.say(t, `{"release":{"stay":true}}`)
	<-p.ended
}
