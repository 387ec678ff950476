package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pipeSize is how much data may be buffered on its way to or from a job, in bytes.
const pipeSize = 256 << 10

// inputPipe is a job's standard input. Data that the job has not read can be taken back, because
// the proxy keeps a read end too. So a write never fails, even if the job has closed its input: it
// blocks until it is woken.
type inputPipe struct {
	// job is the read end for the job; whoever passes it to the job closes it. Reads from it block.
	// taking is the proxy's own read end; reads from it do not block.
	job    *os.File
	taking int
	size   int

	mutex  sync.Mutex
	writer *os.File
}

// newInputPipe returns a pipe of this size, or of the size that the system allows.
func newInputPipe(size int) (*inputPipe, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("open the job's input: %w", err)
	}
	p := &inputPipe{job: os.NewFile(uintptr(ends[0]), "input"), taking: -1}
	p.size = enlarge(ends[1], size)
	// An end that is reopened has flags of its own.
	taking, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", ends[0]), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		p.taking = taking
		err = p.openWriter()
	}
	if err = errors.Join(err, unix.Close(ends[1])); err != nil {
		return nil, errors.Join(fmt.Errorf("open the job's input: %w", err), p.job.Close(), p.close())
	}
	return p, nil
}

// enlarge sets the size of a pipe, if the system allows it, and returns the size that it has.
func enlarge(end, size int) int {
	// The kernel denies this to users who have many pipes.
	_, _ = unix.FcntlInt(uintptr(end), unix.F_SETPIPE_SZ, size)
	holds, err := unix.FcntlInt(uintptr(end), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		return size
	}
	return holds
}

// write writes data until it is woken, and returns how many bytes were written.
func (p *inputPipe) write(data []byte) int {
	p.mutex.Lock()
	writer := p.writer
	p.mutex.Unlock()
	if writer == nil || len(data) == 0 {
		return 0
	}
	n, err := writer.Write(data)
	complain(err, os.ErrDeadlineExceeded)
	return n
}

// wake calls the function `end`. It makes the current write return, and all later writes until
// sleep is called.
func (p *inputPipe) wake(end context.CancelFunc) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	end()
	if p.writer != nil {
		complain(p.writer.SetWriteDeadline(time.Unix(1, 0)))
	}
}

// sleep lets writes block again, unless ctx is done.
func (p *inputPipe) sleep(ctx context.Context) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.writer != nil && ctx.Err() == nil {
		complain(p.writer.SetWriteDeadline(time.Time{}))
	}
}

// takeBack takes out all data that the job has not read. It does so in one read: the job cannot
// read in between, and data that is written back afterwards stays in order.
func (p *inputPipe) takeBack() []byte {
	buffer := make([]byte, p.size)
	n, err := again(func() (int, error) { return unix.Read(p.taking, buffer) })
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		complain(fmt.Errorf("take back input: %w", err))
	}
	return buffer[:max(n, 0)]
}

// closeWriter lets the job see the end of its input.
func (p *inputPipe) closeWriter() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.writer != nil {
		complain(p.writer.Close())
		p.writer = nil
	}
}

// openWriter reopens the input of a job that has not seen its end yet.
func (p *inputPipe) openWriter() error {
	writer, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", p.taking), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.writer = writer
	return nil
}

// close closes all ends except the job's.
func (p *inputPipe) close() error {
	p.closeWriter()
	if p.taking >= 0 {
		return unix.Close(p.taking)
	}
	return nil
}
