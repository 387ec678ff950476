package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"weir/api/client"
	"weir/messages/apipb"
)

// leads is an answer that says who leads.
func leads(who string) view {
	return view{
		message: &apipb.TransferResponse{Leader: who},
		text:    func(time.Time) string { return who + " leads\n" },
	}
}

// TestRepeat shows answers that a cluster gives one after the other, until the user
// has had enough.
func TestRepeat(t *testing.T) {
	unreached := fmt.Errorf("list: %w", client.ErrUnreachable)
	refused := &client.Error{Code: "unknown_pool", Message: "no such pool"}
	type answer struct {
		view view
		err  error
	}
	empty := leads("")
	empty.empty = "nobody leads"
	changing := func(at string) view {
		v := leads(at)
		v.calm = &apipb.TransferResponse{}
		return v
	}
	tests := map[string]struct {
		once             bool
		live             bool
		format           format
		answers          []answer
		wantOut, wantErr string
		wantExit         int
	}{
		"without watch it is shown once":               {once: true, answers: []answer{{view: leads("r1")}, {view: leads("r2")}}, wantOut: "r1 leads\n"},
		"elsewhere than on a terminal changes only":    {answers: []answer{{view: leads("r1")}, {view: leads("r1")}, {view: leads("r2")}}, wantOut: "r1 leads\n\nr2 leads\n", wantExit: exitInterrupted},
		"what changes all the time is no change":       {answers: []answer{{view: changing("r1")}, {view: changing("r2")}}, wantOut: "r1 leads\n", wantExit: exitInterrupted},
		"nothing to show is told, not printed":         {answers: []answer{{view: empty}, {view: leads("r1")}}, wantOut: "r1 leads\n", wantErr: "nobody leads\n", wantExit: exitInterrupted},
		"a cluster that is not reached comes back":     {answers: []answer{{view: leads("r1")}, {err: unreached}, {err: unreached}, {view: leads("r2")}}, wantOut: "r1 leads\n\nr2 leads\n", wantErr: "weir: list: cluster unreachable\n", wantExit: exitInterrupted},
		"a cluster that never was reached is an error": {answers: []answer{{err: unreached}}, wantExit: exitNotReached},
		"a refusal ends it":                            {answers: []answer{{view: leads("r1")}, {err: refused}, {view: leads("r2")}}, wantOut: "r1 leads\n", wantExit: exitRefused},
		"a terminal is drawn anew each time": {live: true, answers: []answer{{view: leads("r1")}, {view: leads("r1")}}, wantExit: exitInterrupted,
			wantOut: clearScreen + cursorHome + "r1 leads" + clearLine + "\n" + clearBelow + cursorHome + "r1 leads" + clearLine + "\n" + clearBelow},
		"a terminal keeps the last answer": {live: true, answers: []answer{{view: leads("r1")}, {err: unreached}}, wantExit: exitInterrupted,
			wantOut: clearScreen + cursorHome + "r1 leads" + clearLine + "\n" + clearBelow +
				cursorHome + "r1 leads" + clearLine + "\n" + "list: cluster unreachable" + clearLine + "\n" + clearBelow},
		"each document of yaml begins with ---": {format: formatYAML, answers: []answer{{view: leads("r1")}, {view: leads("r2")}}, wantExit: exitInterrupted,
			wantOut: "leader: r1\n---\nleader: r2\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out, errs strings.Builder
			p := newPrinter(&out, &errs, formatTable)
			p.live, p.period = test.live, time.Microsecond
			if test.format != "" {
				p.format = test.format
			}
			err := explain(p.repeat(ctx, !test.once, func(context.Context) (view, error) {
				if len(test.answers) == 0 {
					cancel()
					return view{}, ctx.Err()
				}
				next := test.answers[0]
				test.answers = test.answers[1:]
				return next.view, next.err
			}))
			if (err == nil) != (test.wantExit == 0) || err != nil && exitCode(err) != test.wantExit {
				t.Errorf("got %v, want exit code %d", err, test.wantExit)
			}
			if out.String() != test.wantOut {
				t.Errorf("printed %q, want %q", out.String(), test.wantOut)
			}
			if errs.String() != test.wantErr {
				t.Errorf("told %q, want %q", errs.String(), test.wantErr)
			}
		})
	}
}

// TestRepeatTimeout ends a watch well whose time is over: it has shown what there
// was.
func TestRepeatTimeout(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	var out strings.Builder
	p := newPrinter(&out, &out, formatTable)
	if err := p.repeat(ctx, true, func(context.Context) (view, error) { return leads("r1"), nil }); err != nil {
		t.Errorf("got %v", err)
	}
}

// TestFinish leaves all of the last answer on a terminal, and prints nothing twice elsewhere.
func TestFinish(t *testing.T) {
	for name, test := range map[string]struct {
		live   bool
		format format
		want   string
	}{
		"on a terminal":         {true, formatTable, cursorHome + "r1 leads" + clearLine + "\n" + clearBelow},
		"documents on a screen": {true, formatYAML, ""},
		"elsewhere":             {false, formatTable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs strings.Builder
			p := newPrinter(&out, &errs, test.format)
			p.live = test.live
			f := p.frames()
			if err := f.finish(); err != nil || out.String() != "" {
				t.Fatalf("nothing was drawn: printed %q, %v", out.String(), err)
			}
			if err := f.draw(leads("r1"), nil); err != nil {
				t.Fatal(err)
			}
			out.Reset()
			if err := f.finish(); err != nil || out.String() != test.want {
				t.Errorf("printed %q, %v, want %q", out.String(), err, test.want)
			}
		})
	}
}

// TestWatched shows the values of a watch as they come, until it ends or the user ends it.
func TestWatched(t *testing.T) {
	refused := &client.Error{Code: "unknown_operation", Message: "gone"}
	for name, test := range map[string]struct {
		live, interrupted bool
		failed            error
		wantOut           string
		wantExit          int
	}{
		"until it ends":     {wantOut: "r1 leads\n\nr2 leads\n"},
		"until it fails":    {failed: refused, wantOut: "r1 leads\n\nr2 leads\n", wantExit: exitRefused},
		"until Ctrl-C":      {interrupted: true, failed: context.Canceled, wantOut: "r1 leads\n\nr2 leads\n", wantExit: exitInterrupted},
		"on a terminal":     {live: true, wantOut: clearScreen + cursorHome + "r1 leads" + clearLine + "\n" + clearBelow},
		"and interrupted":   {live: true, interrupted: true, failed: context.Canceled, wantOut: clearScreen, wantExit: exitInterrupted},
		"and it is no more": {live: true, failed: refused, wantOut: clearScreen, wantExit: exitRefused},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out strings.Builder
			p := newPrinter(&out, &out, formatTable)
			p.live, p.period = test.live, time.Microsecond
			values := func(context.Context, string) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					if !yield("r1", nil) || !yield("r2", nil) {
						return
					}
					if test.interrupted {
						cancel()
					}
					if test.failed != nil {
						yield("", test.failed)
					}
				}
			}
			err := explain(watched(ctx, &session{printer: p}, values, "o1", leads))
			if (err == nil) != (test.wantExit == 0) || err != nil && exitCode(err) != test.wantExit {
				t.Errorf("got %v, want exit code %d", err, test.wantExit)
			}
			got := out.String()
			drawn := test.live && strings.HasPrefix(got, test.wantOut) && strings.Contains(got, "r2 leads")
			if got != test.wantOut && !drawn {
				t.Errorf("printed %q, want %q", got, test.wantOut)
			}
		})
	}
}

func TestRepeatBrokenPipe(t *testing.T) {
	p := newPrinter(brokenPipe{}, brokenPipe{}, formatTable)
	err := p.repeat(t.Context(), true, func(context.Context) (view, error) { return leads("r1"), nil })
	if !errors.Is(err, errBrokenPipe) {
		t.Errorf("got %v, want %v", err, errBrokenPipe)
	}
}

var errBrokenPipe = errors.New("broken pipe")

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errBrokenPipe }

func TestFrame(t *testing.T) {
	tests := map[string]struct {
		text          string
		width, height int
		want          []string
	}{
		"all of it":               {"a\nb\n", 10, 10, []string{"a", "b"}},
		"lines that are too long": {"abcdef\n", 4, 10, []string{"abc…"}},
		"too many lines":          {"a\nb\nc\nd\n", 40, 4, []string{"a", "b", "… and 2 more lines"}},
		"just as many as fit":     {"a\nb\nc\n", 40, 4, []string{"a", "b", "c"}},
		"a size that is unknown":  {"a\nb\nc\nd\n", 0, 0, []string{"a", "b", "c", "d"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := cursorHome + strings.Join(test.want, clearLine+"\n") + clearLine + "\n" + clearBelow
			if got := frame(test.text, test.width, test.height, true); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
