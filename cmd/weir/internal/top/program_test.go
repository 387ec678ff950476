package top

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/top/screentest"
)

// patience is how long a screen may take on a busy machine.
const patience = time.Minute

// answering is a Cluster that answers by a function.
type answering func(q Question) (Answer, error)

func (f answering) Fetch(_ context.Context, q Question) (Answer, error) { return f(q) }
func (answering) Do(context.Context, Change) error                      { return nil }

// TestTerminalIsRestored (W3) ends the view in each way: the terminal has the modes and the screen that it
// had before.
func TestTerminalIsRestored(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	for name, test := range map[string]struct {
		end     func(t *testing.T, s *screentest.Terminal, stop func())
		panics  bool
		wantErr error
	}{
		"quit":      {end: func(t *testing.T, s *screentest.Terminal, _ func()) { s.Type(t, "q") }},
		"Ctrl-C":    {end: func(t *testing.T, s *screentest.Terminal, _ func()) { s.Type(t, "\x03") }},
		"a signal":  {end: func(_ *testing.T, _ *screentest.Terminal, stop func()) { stop() }, wantErr: context.Canceled},
		"a mistake": {end: func(t *testing.T, s *screentest.Terminal, _ func()) { s.Type(t, "3") }, panics: true, wantErr: tea.ErrProgramPanic},
	} {
		t.Run(name, func(t *testing.T) {
			s := screentest.Open(t, 100, 24)
			if _, err := s.Device.WriteString("before\r\n"); err != nil {
				t.Fatal(err)
			}
			before := s.Modes(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() {
				ended <- Run(ctx, answering(func(q Question) (Answer, error) {
					if test.panics && q.About == aboutNodes {
						panic("a mistake")
					}
					return contended(q)
				}), Config{Interval: time.Second}, s.Device, s.Device)
			}()
			s.Until(t, patience, "research", "starving")
			s.Resize(t, 60, 20)
			s.Type(t, "?")
			s.Until(t, patience, "Bars show")
			s.Type(t, "?")
			test.end(t, s, stop)
			select {
			case err := <-ended:
				if !errors.Is(err, test.wantErr) {
					t.Errorf("ended with %v, want %v", err, test.wantErr)
				}
			case <-time.After(patience):
				t.Fatalf("does not end:\n%s", s.Screen())
			}
			if after := s.Modes(t); after != before {
				t.Errorf("modes of the terminal: %+v, before %+v", after, before)
			}
			if screen := s.Until(t, patience, "before"); strings.Contains(screen, "starving") {
				t.Errorf("the view is left on the screen:\n%s", screen)
			}
		})
	}
}

// TestNoColour (W3) shows that NO_COLOR keeps colours away, and that otherwise there are some.
func TestNoColour(t *testing.T) {
	for value, want := range map[string]bool{"": true, "1": false} {
		t.Run("NO_COLOR="+value, func(t *testing.T) {
			t.Setenv("TERM", "xterm-256color")
			t.Setenv("NO_COLOR", value)
			s := screentest.Open(t, 100, 24)
			ended := make(chan error, 1)
			go func() { ended <- Run(t.Context(), answering(contended), Config{}, s.Device, s.Device) }()
			s.Until(t, patience, "starving", "node n3 is offline")
			if got := s.Coloured(); got != want {
				t.Errorf("colours: %v, want %v:\n%s", got, want, s.Screen())
			}
			s.Type(t, "q")
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUnsuitedTerminals (W3) refuses terminals that cannot be drawn on and bad intervals, and names what
// does instead.
func TestUnsuitedTerminals(t *testing.T) {
	for name, test := range map[string]struct {
		term    string
		args    []string
		wantErr string
	}{
		"dumb":              {"dumb", nil, `TERM is "dumb": use weir pool list`},
		"no name":           {"", nil, `TERM is "": use weir pool list`},
		"a pipe":            {"xterm", nil, "standard input and output: use weir pool list"},
		"too often":         {"xterm", []string{"--interval", "100ms"}, "--interval 100ms: must be at least 500ms"},
		"an unknown option": {"xterm", []string{"--fast"}, "unknown flag: --fast"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", test.term)
			cmd := NewCommand(func(*cobra.Command, func(context.Context, Cluster) error) error { return nil }, func(err error) error { return err })
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetIn(strings.NewReader(""))
			cmd.SetArgs(append([]string{}, test.args...))
			if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got %v, want …%s…", err, test.wantErr)
			}
		})
	}
}
