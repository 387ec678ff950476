package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// outputWindow bounds the output of a session that nobody has read yet: then its command waits.
	outputWindow = 256 << 10
	// inputWindow bounds the input that its command has not read yet.
	inputWindow = 64 << 10
	// lastWords is how long a stream may be silent after the end of the command before it is closed, and
	// lastBytes how much is read of it: what a pipe holds. Processes that the command left behind may hold it
	// open, and write to it.
	lastWords = 200 * time.Millisecond
	lastBytes = 64 << 10
	// mostReaders is how many requests for the output of a session may wait at once: one, and those whose caller has
	// given up.
	mostReaders = 4
)

// session is a command of a person beside a job's own, with what it reads and writes.
type session struct {
	key SessionKey
	// name is what the proxy knows it by: users may choose the same names for theirs.
	name string
	job  *Job
	// idle ends the session when nobody asks of it. The sessions own it.
	idle *time.Timer

	mu sync.Mutex
	// changed is closed, and made anew, at each change.
	changed chan struct{}
	// output is what was written from begin on, as runs of one stream each.
	output []byte
	begin  int64
	runs   []outputRun
	// input is what was given and not read, up to given. inputEnds says that there is no more.
	input     []byte
	given     int64
	inputEnds bool
	// reading counts the streams that have not come to their end, and readers the requests for their output that wait.
	reading, readers int
	end              *SessionEnd
	hungUp           bool

	// terminal is the master of its terminal; or the others are the ends of its pipes.
	terminal, stdin, stdout, stderr *os.File
}

// outputRun is output to one stream, up to an offset.
type outputRun struct {
	stderr bool
	end    int64
}

func newSession(key SessionKey, job *Job) *session {
	return &session{key: key, name: rand.Text(), job: job, changed: make(chan struct{})}
}

// open starts the command.
func (s *session) open(c Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hungUp {
		return fmt.Errorf("%w: it was ended before it began", ErrNoSession)
	}
	files, err := s.streams(c)
	defer func() {
		for _, file := range files {
			_ = file.Close() // the proxy has its own, and nothing was written here
		}
	}()
	if err == nil {
		err = handOver(files, s.job.user)
	}
	if err == nil && !understandsExec(s.job) {
		err = fmt.Errorf("%w: its proxy is too old, or has not answered yet: try again in a moment", ErrNotRunning)
	}
	if err == nil {
		s.resize(c.Size)
		err = s.job.tell(proxyproto.Message{Exec: &proxyproto.Exec{
			Session: s.name, Argv: c.Argv, Terminal: c.Terminal, Term: c.Term,
		}}, files...)
	}
	if err != nil {
		if s.stdin != nil {
			_ = s.stdin.Close() // nothing was written
		}
		return err
	}
	if c.Terminal {
		s.reading = 1
		go s.read(s.terminal, false)
	} else {
		s.reading = 2
		go s.read(s.stdout, false)
		go s.read(s.stderr, true)
	}
	go s.write()
	return nil
}

// streams opens the terminal or the pipes of the session, and returns the ends that are the command's. mu is held.
func (s *session) streams(c Command) (theirs []*os.File, err error) {
	if c.Terminal {
		var slave *os.File
		s.terminal, slave, err = openTerminal()
		if err != nil {
			return nil, fmt.Errorf("open a terminal: %w", err)
		}
		return []*os.File{slave}, nil
	}
	for _, pipe := range []struct {
		mine  **os.File
		reads bool
	}{{&s.stdin, true}, {&s.stdout, false}, {&s.stderr, false}} {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return theirs, err
		}
		their, my := ends[1], ends[0]
		if pipe.reads {
			their, my = my, their
		}
		theirs = append(theirs, os.NewFile(uintptr(their), "pipe"))
		// The command gets an end that waits; this one is left to the runtime to wait on.
		err := unix.SetNonblock(my, true)
		if *pipe.mine = os.NewFile(uintptr(my), "pipe"); err != nil {
			return theirs, err
		}
	}
	return theirs, nil
}

// openTerminal opens a new terminal.
func openTerminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	raw, err := master.SyscallConn()
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	controlled := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err != nil {
			return
		}
		// By its number it is found whatever is mounted at /dev/pts.
		other, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno != 0 {
			err = errno
			return
		}
		slave = os.NewFile(other, "terminal")
	})
	if err = errors.Join(err, controlled); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}

// handOver gives files to the job's user, who may then open them by name too.
func handOver(files []*os.File, user *proxyproto.User) error {
	if user == nil {
		return nil
	}
	for _, file := range files {
		if err := file.Chown(int(user.UID), int(user.GID)); err != nil {
			return err
		}
	}
	return nil
}

// resize changes the size of the terminal. mu is held.
func (s *session) resize(size TerminalSize) {
	if s.terminal == nil || size == (TerminalSize{}) {
		return
	}
	raw, err := s.terminal.SyscallConn()
	if err != nil {
		return // It has just been closed.
	}
	_ = raw.Control(func(fd uintptr) {
		// A terminal that goes away needs no size.
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(size.Rows), Col: uint16(size.Columns)})
	})
}

// change wakes who waits. mu is held.
func (s *session) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits for a change; mu is held before and after.
func (s *session) await(ctx context.Context) error {
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read collects the output of one stream to its end.
func (s *session) read(from *os.File, stderr bool) {
	buffer := make([]byte, 32<<10)
	for left := lastBytes + len(buffer); left > 0; {
		n, err := from.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// The agent may have stood still until now: what is there is not late.
			n, err = readNow(from, buffer)
		}
		if !s.put(stderr, buffer[:n]) || err != nil {
			break
		}
		if s.limitSilence(from) {
			left -= n
		}
	}
	_ = from.Close() // nothing was written through it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading--
	s.change()
}

// readNow reads what is there, without waiting.
func readNow(from *os.File, buffer []byte) (n int, err error) {
	raw, err := from.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlled := raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), buffer) })
	if err = errors.Join(err, controlled); err == nil && n == 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

// limitSilence bounds how long the stream of a command is read if the command has ended, and says whether it has.
func (s *session) limitSilence(from *os.File) (ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		_ = from.SetReadDeadline(time.Now().Add(lastWords)) // it may be closed already
	}
	return s.end != nil
}

// put adds output once there is room, and returns false if nobody will read it.
func (s *session) put(stderr bool, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.output) > 0 && len(s.output)+len(data) > outputWindow && !s.hungUp {
		_ = s.await(context.Background()) // it waits until there is room
	}
	if s.hungUp {
		return false
	}
	if len(data) == 0 {
		return true
	}
	s.output = append(s.output, data...)
	end := s.begin + int64(len(s.output))
	if last := len(s.runs) - 1; last >= 0 && s.runs[last].stderr == stderr {
		s.runs[last].end = end
	} else {
		s.runs = append(s.runs, outputRun{stderr, end})
	}
	s.change()
	return true
}

// take returns output from offset on.
func (s *session) take(ctx context.Context, offset int64, limit int) (SessionOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if offset < s.begin || offset > s.begin+int64(len(s.output)) {
		return SessionOutput{}, fmt.Errorf("offset %d: only %d to %d are kept", offset, s.begin, s.begin+int64(len(s.output)))
	}
	s.forget(offset)
	if s.readers >= mostReaders {
		return SessionOutput{}, fmt.Errorf("%w: %d requests wait for the output of this one, the limit", ErrTooManySessions, s.readers)
	}
	s.readers++
	defer func() { s.readers-- }()
	for len(s.output) == 0 && !s.over() && s.begin == offset {
		if s.await(ctx) != nil {
			break
		}
	}
	out := SessionOutput{Next: offset}
	if s.begin != offset {
		return out, nil // another call has read on
	}
	for _, run := range s.runs {
		data := s.output[out.Next-s.begin : run.end-s.begin]
		data = data[:min(len(data), limit)]
		limit -= len(data)
		if len(data) > 0 {
			out.Pieces = append(out.Pieces, OutputPiece{run.stderr, append([]byte(nil), data...)})
		}
		out.Next += int64(len(data))
	}
	out.More = out.Next < s.begin+int64(len(s.output))
	if s.over() && !out.More {
		out.End = s.end
	}
	return out, nil
}

// forget drops output before an offset. mu is held.
func (s *session) forget(offset int64) {
	if offset == s.begin {
		return
	}
	s.output = append([]byte(nil), s.output[offset-s.begin:]...)
	s.begin = offset
	for len(s.runs) > 0 && s.runs[0].end <= offset {
		s.runs = s.runs[1:]
	}
	s.change()
}

// over says that the command has ended and nothing more comes. mu is held.
func (s *session) over() bool { return s.hungUp || s.end != nil && s.reading == 0 }

// give takes input, as far as there is room.
func (s *session) give(in SessionInput) (next int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resize(in.Size)
	if in.Offset > s.given {
		return 0, fmt.Errorf("input at %d, after %d: a part is missing", in.Offset, s.given)
	}
	fresh := in.Data[min(s.given-in.Offset, int64(len(in.Data))):]
	if s.inputEnds || s.end != nil {
		// Nobody reads it any more.
		return in.Offset + int64(len(in.Data)), nil
	}
	room := max(0, min(inputWindow-len(s.input), len(fresh)))
	s.input = append(s.input, fresh[:room]...)
	s.given += int64(room)
	s.inputEnds = in.End && room == len(fresh)
	if room > 0 || s.inputEnds {
		s.change()
	}
	return s.given, nil
}

// endOfInput is what a terminal takes for the end of the input.
const endOfInput = "\x04"

// write passes input on to the command, until it or the input ends.
func (s *session) write() {
	to := s.stdin
	if to == nil {
		to = s.terminal
	}
	for {
		s.mu.Lock()
		for len(s.input) == 0 && !s.inputEnds && s.end == nil && !s.hungUp {
			_ = s.await(context.Background()) // it waits until there is something to do
		}
		data, over := s.input, s.end != nil || s.hungUp
		s.input = nil
		s.mu.Unlock()
		switch {
		case !over && len(data) > 0:
			if _, err := to.Write(data); err == nil {
				continue
			}
			// The command has closed it: whatever comes is for nobody.
			s.mu.Lock()
			s.inputEnds = true
			s.mu.Unlock()
		case !over && to != s.stdin:
			_, _ = to.WriteString(endOfInput) // the command may have gone
		}
		if to == s.stdin {
			_ = to.Close() // what was written has been answered for
		}
		return
	}
}

// finish notes how the command has ended.
func (s *session) finish(end SessionEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return
	}
	s.end = &end
	for _, from := range []*os.File{s.terminal, s.stdout, s.stderr} {
		if from != nil {
			_ = from.SetReadDeadline(time.Now().Add(lastWords)) // it may be closed already
		}
	}
	s.closeInput()
	s.change()
}

// hangUp ends the command, and lets nobody wait any more.
func (s *session) hangUp() {
	s.mu.Lock()
	ended := s.end != nil
	if s.hungUp = true; !ended {
		s.end = &SessionEnd{Error: "the session was ended"}
	}
	for _, file := range []*os.File{s.terminal, s.stdout, s.stderr} {
		if file != nil {
			_ = file.Close() // nobody reads it, nor types
		}
	}
	s.closeInput()
	s.change()
	s.mu.Unlock()
	if !ended {
		// A proxy that is not there kills it by itself.
		_ = s.job.tell(proxyproto.Message{HangUp: &proxyproto.HangUp{Session: s.name}})
	}
}

// closeInput ends a write that waits. mu is held.
func (s *session) closeInput() {
	for _, to := range []*os.File{s.terminal, s.stdin} {
		if to != nil {
			_ = to.SetWriteDeadline(time.Now()) // it may be closed already
		}
	}
}
