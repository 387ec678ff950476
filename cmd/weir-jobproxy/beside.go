package main

import "sync"

// beside is the processes that are started beside the job's root process: probes, and commands of people.
type beside struct {
	// mu is held while one starts, so that its end is not handled before its pid is known.
	mu     sync.Mutex
	closed bool
	// running has the channels that receive the ends, by pid.
	running map[int]chan ending
}

// start starts a process with the function `fork`. It returns errNoJob if the job has ended.
func (b *beside) start(fork func() (child, error)) (started child, ended chan ending, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return child{}, nil, errNoJob
	}
	// The thread joins groups and namespaces, so it must end afterwards.
	onOwnThread(func() { started, err = fork() })
	if err != nil {
		return child{}, nil, err
	}
	if b.running == nil {
		b.running = map[int]chan ending{}
	}
	ended = make(chan ending, 1)
	b.running[started.pid] = ended
	return started, ended, nil
}

// heard handles the end of a process other than the root process.
func (b *beside) heard(pid int, e ending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ended := b.running[pid]; ended != nil {
		delete(b.running, pid)
		ended <- e
	}
}

// whileRunning calls the function `act` if the process has not been waited for, so that its pid is still its own.
func (b *beside) whileRunning(pid int, act func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running[pid] != nil {
		act()
	}
}

// unused reports whether nothing was started, or is to be.
func (b *beside) unused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed && b.running == nil
}

// close rejects all further processes. Running ones end with the job.
func (b *beside) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
