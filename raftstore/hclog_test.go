package raftstore

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestRaftLogGoesToSlog(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	log := newRaftLogger(slog.New(handler))
	tests := map[string]struct {
		write func()
		want  string
	}{
		"info is raft's own":     {func() { log.Info("election won", "term", 3) }, "level=DEBUG msg=\"election won\" part=raft term=3"},
		"warnings stay":          {func() { log.Warn("slow") }, "level=WARN msg=slow part=raft"},
		"elections are everyday": {func() { log.Warn("heartbeat timeout reached, starting election") }, "level=INFO msg=\"heartbeat timeout reached, starting election\" part=raft"},
		"so is catching up":      {func() { log.Warn("failed to get previous log", "error", "log not found") }, "level=INFO msg=\"failed to get previous log\" part=raft error=\"log not found\""},
		"so are late votes":      {func() { log.Warn("rejecting vote request since our last term is greater", "candidate", "r2") }, "level=INFO msg=\"rejecting vote request since our last term is greater\" part=raft candidate=r2"},
		"errors stay":            {func() { log.Error("bad", "err", "x") }, "level=ERROR msg=bad part=raft err=x"},
		"trace is below debug":   {func() { log.Trace("detail") }, ""},
		"formats are filled in":  {func() { log.Debug("m", "at", hclog.Fmt("%d-%d", 1, 2)) }, "level=DEBUG msg=m part=raft at=1-2"},
		"attributes stay":        {func() { log.With("peer", "r2").Debug("m") }, "level=DEBUG msg=m part=raft peer=r2"},
		"the standard logger":    {func() { log.StandardLogger(nil).Print("plain") }, "level=DEBUG msg=plain part=raft"},
		"its writer":             {func() { _, _ = log.StandardWriter(&hclog.StandardLoggerOptions{}).Write([]byte("plain")) }, "level=DEBUG msg=plain part=raft"},
		"a format of no strings": {func() { log.Debug("m", "at", hclog.Format{7}) }, "level=DEBUG msg=m part=raft at=7"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out.Reset()
			test.write()
			if got := strings.TrimSpace(out.String()); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	named := log.Named("x").With("a", 1)
	if named.Name() != "raft.x" || len(named.ImpliedArgs()) != 2 {
		t.Errorf("got name %s, args %v", named.Name(), named.ImpliedArgs())
	}
}
