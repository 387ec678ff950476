// Package screen shows progress to a person: as a live bar on a terminal, as plain lines
// elsewhere.
package screen

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/term"
)

// Screen is the output that shows progress.
type Screen struct {
	// Out is for output other than bars and lines.
	Out  io.Writer
	live bool

	mu  sync.Mutex
	now *Bar
}

// New returns a screen that writes to out, with live bars if out is a terminal.
func New(out io.Writer) *Screen {
	file, ok := out.(*os.File)
	return &Screen{Out: out, live: ok && term.IsTerminal(int(file.Fd()))}
}

// Live reports whether the output is a terminal, where bars are drawn.
func (s *Screen) Live() bool { return s.live }

// Say prints a line, above the bar if there is one. It may be called at any time; no line
// is lost.
func (s *Screen) Say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil && s.now.writer != nil {
		s.now.writer.Log("%s", line)
		return
	}
	fmt.Fprintln(s.Out, line)
}

// Bar shows how much of something is done. Close it before the next one begins.
type Bar struct {
	screen  *Screen
	title   string
	writer  progress.Writer
	tracker *progress.Tracker
	drawn   chan struct{}
	// total is the number of steps; done is how many were done when last shown; shown is the time
	// of the last plain line.
	total, done int64
	shown       time.Time
}

// plainPeriod is the least time between two plain lines of a bar, except before the last
// line.
const plainPeriod = time.Second

// barFrames is how often a bar is drawn.
const barFrames = 100 * time.Millisecond

// Bar begins a bar of total steps.
func (s *Screen) Bar(title string, total int64) *Bar {
	b := &Bar{screen: s, title: title, total: total}
	if s.live {
		b.tracker = &progress.Tracker{Message: title, Total: total}
		b.writer = progress.NewWriter()
		b.writer.SetOutputWriter(s.Out)
		b.writer.SetUpdateFrequency(barFrames)
		b.writer.SetTrackerLength(30)
		b.writer.SetMessageLength(72)
		b.writer.Style().Visibility.Speed = false
		b.writer.Style().Visibility.ETA = false
		b.writer.Style().Options.TimeInProgressPrecision = barFrames
		b.writer.Style().Options.TimeDonePrecision = barFrames
		// A wait that is given up does not mean that the awaited work failed.
		b.writer.Style().Options.ErrorString = "not over"
		b.writer.AppendTracker(b.tracker)
		b.drawn = make(chan struct{})
		go func() {
			defer close(b.drawn)
			b.writer.Render()
		}()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = b
	return b
}

// Update shows how many steps are done, and a few words about it. A nil bar shows nothing.
func (b *Bar) Update(done int64, words string) {
	if b == nil {
		return
	}
	if b.writer != nil {
		b.tracker.UpdateMessage(b.title + ": " + words)
		// Once a bar is full, the writer stops drawing it and the lines above it: only Close
		// fills the bar.
		b.done = done
		b.tracker.SetValue(min(done, max(b.total-1, 0)))
		return
	}
	if b.done == done && !b.shown.IsZero() {
		return
	}
	if now := time.Now(); done == b.total || now.Sub(b.shown) >= plainPeriod {
		b.shown, b.done = now, done
		b.screen.Say(b.title + ": " + words)
	}
}

// Pin shows lines above the bar, and reports whether the bar is drawn.
func (b *Bar) Pin(lines ...string) bool {
	if b.writer == nil {
		return false
	}
	b.writer.SetPinnedMessages(lines...)
	return true
}

// Close ends the bar and leaves its last state on the screen. It may be called again, and
// on a nil bar.
func (b *Bar) Close() {
	if b == nil {
		return
	}
	// From now on, lines are printed below the bar.
	b.screen.mu.Lock()
	defer b.screen.mu.Unlock()
	b.screen.now = nil
	if b.writer == nil {
		return
	}
	b.tracker.SetValue(b.done)
	if !b.tracker.IsDone() {
		b.tracker.MarkAsErrored()
	}
	// Stop draws the bar once more, but has no effect before Render has begun: repeat it.
	for again := time.NewTicker(barFrames); ; {
		b.writer.Stop()
		select {
		case <-b.drawn:
			again.Stop()
			return
		case <-again.C:
		}
	}
}
