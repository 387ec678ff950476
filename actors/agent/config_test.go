package agent

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

func TestStartRefuses(t *testing.T) {
	tests := map[string]struct {
		change func(c *Config)
		want   string
	}{
		"no name":               {func(c *Config) { c.Node = "" }, "node: is empty"},
		"no incarnation":        {func(c *Config) { c.Incarnation = 0 }, "incarnation: is 0"},
		"negative resources":    {func(c *Config) { c.Resources.Memory = -1 }, "resources: "},
		"no slots":              {func(c *Config) { c.Resources.UserSlots = 0 }, "user_slots is 0"},
		"no memory":             {func(c *Config) { c.Resources.Memory = 0 }, "must be more than 0"},
		"no folder":             {func(c *Config) { c.StateDir = "" }, "state folder: is empty"},
		"a file for a folder":   {func(c *Config) { c.StateDir = "/dev/null/x" }, "open state folder"},
		"no replica":            {func(c *Config) { c.Seeds = nil }, "no known replicas"},
		"a seed without port":   {func(c *Config) { c.Seeds = []Replica{{"r1", "host"}} }, "must be host:port"},
		"negative output":       {func(c *Config) { c.MaxOutput = -1 }, "output limit -1"},
		"a watermark above all": {func(c *Config) { c.MemoryWatermark = c.Resources.Memory }, "memory watermark 1073741824"},
		"a negative timeout":    {func(c *Config) { c.MemoryOverdraftTimeout = -1 }, "memory overdraft timeout -1ns"},
		"no room for files":     {func(c *Config) { c.FileCacheSize = 0 }, "file cache of 0 bytes"},
		"a user nobody knows":   {func(c *Config) { c.JobUser = "no-such-user" }, `job user "no-such-user"`},
		"no time to end":        {func(c *Config) { c.JobEndTimeout = 0 }, "job end timeout 0s"},
		"negative space":        {func(c *Config) { c.MinFree = -1 }, "minimum free space -1"},
		"no processes":          {func(c *Config) { c.MaxPids = 0 }, "process limit per job 0"},
		"no logger":             {func(c *Config) { c.Logger = nil }, "logger: is nil"},
		"a wait of nothing":     {func(c *Config) { c.Timing.SlowRetry = 0 }, "SlowRetry is 0s"},
		"waits in disorder":     {func(c *Config) { c.Timing.SeekMax = time.Millisecond }, "SeekMax is below SeekMin"},
		"reports in disorder":   {func(c *Config) { c.Timing.ReportMax = time.Millisecond }, "ReportMax is below"},
		"more grace than time":  {func(c *Config) { c.Timing.CloseGrace = time.Hour }, "CloseGrace is 1h"},
		"a damaged journal": {func(c *Config) {
			if err := os.WriteFile(folder{c.StateDir}.journalFile(), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "/journal: is damaged at offset 0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t.TempDir(), slog.DiscardHandler)
			test.change(&c)
			_, err := Start(quietSystem(), c, nil, nil)
			if err == nil || !strings.HasPrefix(err.Error(), "start agent: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error that says %q", err, test.want)
			}
		})
	}
}
