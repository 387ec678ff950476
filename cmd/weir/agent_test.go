package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"weir/actors/agent"
	"weir/actors/agent/filecache"
	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
)

func TestAgentConfig(t *testing.T) {
	tests := map[string]struct {
		args     []string
		wantFree int64
		// wantWatermark is 0 where it does not matter.
		wantWatermark int64
		wantPorts     agent.Ports
		wantHost      string
		wantError     string
	}{
		"what is usual":          {wantFree: 64 << 20},
		"ports at an address":    {args: []string{"--ports", "21000-21999", "--host", "10.0.0.7"}, wantFree: 64 << 20, wantPorts: agent.Ports{First: 21000, Count: 1000}, wantHost: "10.0.0.7"},
		"ports of the system":    {args: []string{"--ports", "1-2"}, wantError: "--ports: ports 1-2"},
		"ports of no form":       {args: []string{"--ports", "some"}, wantError: `--ports: ports "some"`},
		"a disk that may fill":   {args: []string{"--min-free", "0"}},
		"a lot of space":         {args: []string{"--min-free", "2GiB"}, wantFree: 2 << 30},
		"a size of no form":      {args: []string{"--min-free", "much"}, wantError: `--min-free "much"`},
		"less than nothing":      {args: []string{"--min-free", "-1"}, wantError: `--min-free "-1" is too little: the minimum is 0B`},
		"output of no size":      {args: []string{"--max-output", "much"}, wantError: `--max-output "much"`},
		"a cache of no size":     {args: []string{"--file-cache-size", "some"}, wantError: `--file-cache-size "some"`},
		"a cache of nothing":     {args: []string{"--file-cache-size", "0"}, wantError: `--file-cache-size "0" is too little: the minimum is 1B`},
		"a user nobody knows":    {args: []string{"--job-user", "no-such-user"}, wantError: `job user "no-such-user"`},
		"a large node":           {args: []string{"--memory", "100GiB"}, wantFree: 64 << 20, wantWatermark: 32 << 20},
		"a small node":           {args: []string{"--memory", "160MiB"}, wantFree: 64 << 20, wantWatermark: 10 << 20},
		"a watermark":            {args: []string{"--memory-watermark", "7MiB"}, wantFree: 64 << 20, wantWatermark: 7 << 20},
		"a watermark of no size": {args: []string{"--memory-watermark", "some"}, wantError: `--memory-watermark "some"`},
		"a watermark above all":  {args: []string{"--memory", "1GiB", "--memory-watermark", "1GiB"}, wantError: "memory watermark 1073741824"},
		"a timeout < 0":          {args: []string{"--memory-overdraft-timeout", "-1s"}, wantError: "memory overdraft timeout -1s"},
		"no time to end":         {args: []string{"--job-end-timeout", "0"}, wantError: "job end timeout 0s"},
		"a share of a core < 0":  {args: []string{"--cpu", "-1"}, wantError: "--cpu"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f, flags := new(agentFlags), pflag.NewFlagSet("agent", pflag.ContinueOnError)
			f.register(flags)
			if err := flags.Parse(append([]string{"--name", "n1", "--replicas", "r1=h:1", "--data", t.TempDir()}, test.args...)); err != nil {
				t.Fatal(err)
			}
			cfg, err := f.agentConfig(slog.New(slog.DiscardHandler))
			var coded *exitError
			switch {
			case test.wantError != "":
				if !errors.As(err, &coded) || coded.code != exitUsage || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("got %v, want a usage error that says %q", err, test.wantError)
				}
			case err != nil || cfg.MinFree != test.wantFree:
				t.Errorf("minimum free space %d, %v; want %d", cfg.MinFree, err, test.wantFree)
			case test.wantWatermark != 0 && cfg.MemoryWatermark != test.wantWatermark:
				t.Errorf("watermark %d, want %d", cfg.MemoryWatermark, test.wantWatermark)
			case cfg.Ports != test.wantPorts || cfg.Host == "" || test.wantHost != "" && cfg.Host != test.wantHost:
				t.Errorf("ports %v, host %q; want %v, %q", cfg.Ports, cfg.Host, test.wantPorts, test.wantHost)
			}
		})
	}
}

// TestAgentJobUsers (T2) gives agents the flags that say as whom jobs run, as root and as another user.
func TestAgentJobUsers(t *testing.T) {
	const root, other = 0, 65534
	tests := map[string]struct {
		// euid is whose test it is: those of others are left out.
		euid      int
		args      []string
		wantUIDs  string
		wantRoot  bool
		wantError string
	}{
		"what is usual":               {euid: root, wantUIDs: "200000-265535"},
		"other ids":                   {euid: root, args: []string{"--job-uids", "300000-301999"}, wantUIDs: "300000-301999"},
		"root jobs":                   {euid: root, args: []string{"--allow-root-jobs"}, wantUIDs: "200000-265535", wantRoot: true},
		"too few ids":                 {euid: root, args: []string{"--job-uids", "300000-300998"}, wantError: `--job-uids: "300000-300998": must be FIRST-LAST, such as 200000-265535, with at least 1000 ids above 0`},
		"one id":                      {euid: root, args: []string{"--job-uids", "300000"}, wantError: `--job-uids: "300000": must be FIRST-LAST`},
		"root among them":             {euid: root, args: []string{"--job-uids", "0-5000"}, wantError: `--job-uids: "0-5000": must be FIRST-LAST`},
		"the last before the first":   {euid: root, args: []string{"--job-uids", "5000-1"}, wantError: "--job-uids"},
		"an account of the machine":   {euid: root, args: []string{"--job-uids", "65000-66000"}, wantError: "job uids: ids 65000-66000 are taken: account nobody of this machine is among them; choose other ids with --job-uids"},
		"both ways":                   {euid: root, args: []string{"--job-uids", "300000-301999", "--job-user", "nobody"}, wantError: "--job-uids and --job-user: set one of them"},
		"ids without root":            {euid: other, args: []string{"--job-uids", "300000-301999"}, wantError: "--job-uids, --allow-root-jobs: the agent is not root"},
		"root jobs without root":      {euid: other, args: []string{"--allow-root-jobs"}, wantError: "--job-uids, --allow-root-jobs: the agent is not root"},
		"without root, what is usual": {euid: other},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.euid == root != (os.Geteuid() == 0) {
				t.Skip("it is for another user")
			}
			f, flags := new(agentFlags), pflag.NewFlagSet("agent", pflag.ContinueOnError)
			f.register(flags)
			if err := flags.Parse(append([]string{"--name", "n1", "--replicas", "r1=h:1", "--data", t.TempDir()}, test.args...)); err != nil {
				t.Fatal(err)
			}
			cfg, err := f.agentConfig(slog.New(slog.DiscardHandler))
			var coded *exitError
			switch {
			case test.wantError != "":
				if !errors.As(err, &coded) || coded.code != exitUsage || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("got %v, want a usage error that says %q", err, test.wantError)
				}
			case err != nil || cfg.AllowRootJobs != test.wantRoot || test.wantUIDs != "" && cfg.JobUIDs.String() != test.wantUIDs:
				t.Errorf("jobs run as %v, as root %t, %v; want %s, %t", cfg.JobUIDs, cfg.AllowRootJobs, err, test.wantUIDs, test.wantRoot)
			}
		})
	}
}

func TestAgentExitCodes(t *testing.T) {
	tests := map[string]struct {
		err  error
		want int
	}{
		"a disk that failed":         {journal.ErrDisk, exitDisk},
		"a disk that is full":        {journal.ErrFull, exitDisk},
		"a damaged journal":          {journal.ErrDamaged, exitDamaged},
		"the journal of another one": {journal.ErrForeign, exitForeignData},
		"a folder that is in use":    {runner.ErrInUse, exitForeignData},
		"a cache that is in use":     {filecache.ErrInUse, exitForeignData},
		"anything else":              {errors.New("no"), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := coded(errors.Join(errors.New("agent failed"), fmt.Errorf("open journal: %w", test.err), nil))
			var coded *exitError
			got := 0
			if errors.As(err, &coded) {
				got = coded.code
			}
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %v with code %d, want code %d", err, got, test.want)
			}
		})
	}
	if coded(nil) != nil {
		t.Error("no error has become one")
	}
}
