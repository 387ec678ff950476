package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"weir/actors/agent"
	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
)

func TestAgentConfig(t *testing.T) {
	tests := map[string]struct {
		args      []string
		wantFree  int64
		wantPorts agent.Ports
		wantHost  string
		wantError string
	}{
		"what is usual":         {wantFree: 64 << 20},
		"ports at an address":   {args: []string{"--ports", "21000-21999", "--host", "10.0.0.7"}, wantFree: 64 << 20, wantPorts: agent.Ports{First: 21000, Count: 1000}, wantHost: "10.0.0.7"},
		"ports of the system":   {args: []string{"--ports", "1-2"}, wantError: "--ports: ports 1-2"},
		"ports of no form":      {args: []string{"--ports", "some"}, wantError: `--ports: ports "some"`},
		"a disk that may fill":  {args: []string{"--min-free", "0"}},
		"a lot of space":        {args: []string{"--min-free", "2GiB"}, wantFree: 2 << 30},
		"a size of no form":     {args: []string{"--min-free", "much"}, wantError: `--min-free "much"`},
		"less than nothing":     {args: []string{"--min-free", "-1"}, wantError: "least free space -1"},
		"output of no size":     {args: []string{"--max-output", "much"}, wantError: `--max-output "much"`},
		"a share of a core < 0": {args: []string{"--cpu", "-1"}, wantError: "--cpu"},
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
				t.Errorf("least free space %d, %v; want %d", cfg.MinFree, err, test.wantFree)
			case cfg.Ports != test.wantPorts || cfg.Host == "" || test.wantHost != "" && cfg.Host != test.wantHost:
				t.Errorf("ports %v, host %q; want %v, %q", cfg.Ports, cfg.Host, test.wantPorts, test.wantHost)
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
		"anything else":              {errors.New("no"), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := codedJournal(errors.Join(errors.New("the agent broke"), fmt.Errorf("open journal: %w", test.err), nil))
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
	if codedJournal(nil) != nil {
		t.Error("no error has become one")
	}
}
