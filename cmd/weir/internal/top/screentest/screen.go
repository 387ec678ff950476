// Package screentest runs programs on a terminal of their own, for tests: it types keys, and reads what is
// on the screen.
package screentest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"

	"weir/cmd/poll"
)

// glance is how often Until looks.
const glance = 20 * time.Millisecond

// Terminal is a terminal of some size. What is written to it changes its screen.
type Terminal struct {
	// Device is the end that a program uses.
	Device   *os.File
	keyboard *os.File
	// Closed when what is written is no longer drawn, and when nothing is answered any more.
	drawn, answered chan struct{}

	mu     sync.Mutex
	screen *vt.Emulator
}

// Open returns a terminal, which the end of the test closes.
func Open(t testing.TB, width, height int) *Terminal {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	if err != nil {
		t.Fatal(err)
	}
	device, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &Terminal{Device: device, keyboard: keyboard, drawn: make(chan struct{}), answered: make(chan struct{}), screen: vt.NewEmulator(width, height)}
	s.Resize(t, width, height)
	go s.draw()
	go s.answer()
	t.Cleanup(func() {
		_ = device.Close()
		_ = keyboard.Close()
		if pipe, ok := s.screen.InputPipe().(io.Closer); ok {
			_ = pipe.Close()
		}
		<-s.drawn
		<-s.answered
		_ = s.screen.Close()
	})
	return s
}

// Resize gives the terminal another size.
func (s *Terminal) Resize(t testing.TB, width, height int) {
	t.Helper()
	s.mu.Lock()
	s.screen.Resize(width, height)
	s.mu.Unlock()
	if err := unix.IoctlSetWinsize(int(s.keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)}); err != nil {
		t.Fatal(err)
	}
}

// Start starts a program on the terminal, in a session of its own.
func (s *Terminal) Start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Device, s.Device, s.Device
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// draw brings what is written onto the screen, until the terminal is closed.
func (s *Terminal) draw() {
	defer close(s.drawn)
	for buffer := make([]byte, 4096); ; {
		n, err := s.keyboard.Read(buffer)
		if err != nil {
			return
		}
		s.mu.Lock()
		_, _ = s.screen.Write(buffer[:n])
		s.mu.Unlock()
	}
}

// answer types what the terminal answers to questions about itself.
func (s *Terminal) answer() {
	defer close(s.answered)
	for buffer := make([]byte, 256); ; {
		n, err := s.screen.Read(buffer)
		if err != nil {
			return
		}
		if _, err := s.keyboard.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// Type presses keys.
func (s *Terminal) Type(t testing.TB, keys string) {
	t.Helper()
	if _, err := s.keyboard.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// Screen returns the lines on the screen.
func (s *Terminal) Screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.String()
}

// Modes are the settings of the terminal that a program changes.
func (s *Terminal) Modes(t testing.TB) unix.Termios {
	t.Helper()
	modes, err := unix.IoctlGetTermios(int(s.Device.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *modes
}

// Until waits until the screen shows all of some texts, and returns it.
func (s *Terminal) Until(t testing.TB, patience time.Duration, texts ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	screen := ""
	err := poll.Every(ctx, glance, func() (bool, error) {
		screen = s.Screen()
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(screen, text) }), nil
	})
	if err != nil {
		t.Fatalf("the screen does not show %q: %v\n%s", texts, err, screen)
	}
	return screen
}

// Coloured reports whether anything on the screen has a colour.
func (s *Terminal) Coloured() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for y := range s.screen.Height() {
		for x := range s.screen.Width() {
			if c := s.screen.CellAt(x, y); c != nil && (c.Style.Fg != nil || c.Style.Bg != nil) {
				return true
			}
		}
	}
	return false
}
