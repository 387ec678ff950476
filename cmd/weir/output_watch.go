package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"weir/api/client"
)

// What terminals do when they are sent these (ECMA-48).
const (
	clearScreen = "\x1b[2J"
	cursorHome  = "\x1b[H"
	// clearLine and clearBelow clear from the cursor on.
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// repeat shows what read returns. With watch it goes on until ctx is done: on a
// terminal the answer is drawn anew every period, elsewhere it is printed whenever
// it has changed. A cluster that is not reached for a while does not end a watch
// that has begun.
func (p *printer) repeat(ctx context.Context, watch bool, read func(context.Context) (view, error)) error {
	frames := p.frames()
	err := every(ctx, p.period, func() (bool, error) {
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

// every takes a step at once and then every period, until one is the last or fails, or ctx is over.
func every(ctx context.Context, period time.Duration, step func() (last bool, err error)) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		if last, err := step(); last || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// frames is an answer that is shown again and again.
type frames struct {
	*printer
	begun   bool
	last    view
	trouble string
}

func (p *printer) frames() *frames { return &frames{printer: p} }

// draw shows an answer, and beside it why there is no newer one.
func (f *frames) draw(v view, trouble error) error {
	said := ""
	if trouble != nil {
		said = trouble.Error()
	}
	defer func() { f.begun, f.last, f.trouble = true, v, said }()
	if f.live && f.format == formatTable {
		width, height := screenSize(f.out)
		return f.write(frame(f.text(v)+said, width, height, f.begun))
	}
	if said != "" && said != f.trouble {
		f.note("weir: %s", said)
	}
	if f.begun && v.sameAs(f.last) {
		return nil
	}
	if f.printed && f.format == formatTable && v.empty == "" {
		if err := f.write("\n"); err != nil {
			return err
		}
	}
	return f.show(v)
}

// text returns what is drawn of an answer.
func (f *frames) text(v view) string {
	if v.empty != "" {
		return v.empty + "\n"
	}
	return v.text(time.Now())
}

// finish leaves the last answer on a terminal as a whole: nothing will be drawn over it,
// so it may be longer and wider than the screen.
func (f *frames) finish() error {
	if !f.begun || !f.live || f.format != formatTable {
		return nil
	}
	return f.write(frame(f.text(f.last), 0, 0, true))
}

// end returns how a watch ends that nothing has ended but the user, or the time
// that was given.
func (f *frames) end(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return &exitError{code: exitInterrupted}
}

// frame returns what draws text over the frame before it: line by line, without
// clearing the screen first, so that nothing flickers. What does not fit is left
// out.
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

// screenSize returns the size of the terminal w, 0 where it is not known.
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
