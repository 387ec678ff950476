package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestDrainLeft tells the ends of a wait for an empty node apart.
func TestDrainLeft(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for name, test := range map[string]struct {
		ctx      context.Context
		wantCode int
		want     string
	}{
		"by Ctrl-C":  {cancelled, exitInterrupted, "interrupted: node n1 stays drained, with 3 jobs left"},
		"by timeout": {late, exitFailure, "not empty within --timeout: node n1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := drainLeft(test.ctx, "n1", 3)
			var exit *exitError
			if !errors.As(err, &exit) || exit.code != test.wantCode || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want code %d and %q", err, test.wantCode, test.want)
			}
			for _, advice := range []string{"weir node drain n1 --wait", "weir node undrain n1"} {
				if !strings.Contains(err.Error(), advice) {
					t.Errorf("got %v, want the advice %q", err, advice)
				}
			}
		})
	}
}
