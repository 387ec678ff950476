package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"weir/api/client"
	"weir/cmd/poll"
)

// Control sequences of terminals (ECMA-48).
const (
	clearScreen = "\x1b[2J"
	cursorHome  = "\x1b[H"
	// clearLine clears the rest of the line from the cursor; clearBelow clears the rest of the
	// screen.
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// repeat shows what `read` returns. If `watch` is set, it reads and shows that again until ctx is
// done: a terminal is redrawn every period, other output is printed when the answer has changed.
// Once a watch has begun, it goes on while the cluster is unreachable.
func (p *printer) repeat(ctx context.Context, watch bool, read func(context.Context) (view, error)) error {
	frames := p.frames()
	err := poll.Every(ctx, p.period, func() (bool, error) {
		now, err := read(ctx)
		switch {
		case err != nil && frames.begun && ctx.Err() == nil && errors.Is(err, client.ErrUnreachable):
			return false, frames.draw(frames.last, err)
		case err != nil:
			return true, err
		case !watch:
			return true, p.show(now)
		}
		return false, frames.draw(now, nil)
	})
	if frames.begun && ctx.Err() != nil {
		return frames.end(ctx)
	}
	return err
}

// frames shows an answer repeatedly.
type frames struct {
	*printer
	begun   bool
	last    view
	trouble string
}

func (p *printer) frames() *frames { return &frames{printer: p} }

// draw shows an answer; trouble is the reason why there is no newer one.
func (f *frames) draw(v view, trouble error) error {
	said := ""
	if trouble != nil {
		said = trouble.Error()
	}
	defer func() { f.begun, f.last, f.trouble = true, v, said }()
	if f.live && f.format.forPeople() {
		width, height := screenSize(f.out)
		return f.write(frame(f.text(v, width)+said, width, height, f.begun))
	}
	if said != "" && said != f.trouble {
		f.note("weir: %s", said)
	}
	if f.begun && v.sameAs(f.last) {
		return nil
	}
	if f.printed && f.format.forPeople() && v.empty == "" {
		if err := f.write("\n"); err != nil {
			return err
		}
	}
	return f.show(v)
}

// text returns the text to draw for an answer on a screen of so many columns; 0: of any number.
func (f *frames) text(v view, screen int) string {
	if v.empty != "" {
		return v.empty + "\n"
	}
	if f.format == formatWide {
		screen = 0
	}
	return f.printer.draw(v, screen)
}

// finish draws the last answer in full on a terminal: nothing is drawn over it, so it may
// exceed the screen.
func (f *frames) finish() error {
	if !f.begun || !f.live || !f.format.forPeople() {
		return nil
	}
	return f.write(frame(f.text(f.last, 0), 0, 0, true))
}

// end returns the error of a watch that the user has ended; nil if --timeout has.
func (f *frames) end(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return &exitError{code: exitInterrupted}
}

// frame returns the output that draws `text` over the previous frame: line by line, without
// clearing the screen first, so that nothing flickers. Lines that do not fit are left out.
func frame(text string, width, height int, again bool) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if left := len(lines) - height + 1; left > 0 && height > 1 {
		lines = append(lines[:height-2], fmt.Sprintf("… and %d more lines", left+1))
	}
	var b strings.Builder
	if !again {
		b.WriteString(clearScreen)
	}
	b.WriteString(cursorHome)
	for _, line := range lines {
		b.WriteString(clip(line, width) + clearLine + "\n")
	}
	b.WriteString(clearBelow)
	return b.String()
}

// screenSize returns the size of the terminal w; 0 if it is not known.
func screenSize(w io.Writer) (width, height int) {
	file, ok := w.(*os.File)
	if !ok {
		return 0, 0
	}
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}
