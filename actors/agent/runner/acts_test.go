package runner_test

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"weir/actors/agent/runner"
)

// play is the job that this test binary becomes when it is started with
// WEIR_TEST_ACT. It returns the exit code.
func play(act string) int {
	switch act {
	case "hog":
		return hog()
	case "setsid":
		return setsid()
	case "hog-child":
		return hogChild()
	}
	fmt.Fprintln(os.Stderr, "no such act:", act)
	return 99
}

// acting is a job that plays act.
func acting(act string, arguments ...string) runner.JobSpec {
	return runner.JobSpec{
		Argv:        append([]string{"/proc/self/exe"}, arguments...),
		Environment: map[string]string{"WEIR_TEST_ACT": act},
	}
}

// hog touches the number of MiB in its argument and then waits for ever.
func hog() int {
	size, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	for i := range size {
		block, err := syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 97
		}
		for at := 0; at < len(block); at += 4096 {
			block[at] = byte(i) + 1
		}
	}
	fmt.Println("full")
	select {
	case <-wait():
	}
	return 0
}

// hogChild starts a hog, and outlives it.
func hogChild() int {
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Env:   []string{"WEIR_TEST_ACT=hog"},
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err == nil {
		_, err = child.Wait()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	<-wait()
	return 0
}

// setsid leaves its parent's session, ignores SIGTERM, says so and waits.
func setsid() int {
	if len(os.Args) > 1 {
		child, err := os.StartProcess("/proc/self/exe", os.Args[:1], &os.ProcAttr{
			Env:   os.Environ(),
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 96
		}
		if os.Args[1] == "leave" {
			return 0
		}
		_, _ = child.Wait()
	}
	signal.Ignore(syscall.SIGTERM)
	fmt.Println(os.Getpid())
	<-wait()
	return 0
}

// wait never ends; the runtime must not take it for a deadlock.
func wait() <-chan os.Signal {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR2)
	return never
}
