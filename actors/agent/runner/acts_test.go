package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
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
	case "agent":
		return agent()
	case "plain-agent":
		return plainAgent()
	}
	fmt.Fprintln(os.Stderr, "no such act:", act)
	return 99
}

// acting is a job that plays act.
func acting(act string, arguments ...string) runner.JobSpec {
	return runner.JobSpec{
		Argv:        append([]string{self()}, arguments...),
		Environment: map[string]string{"WEIR_TEST_ACT": act},
	}
}

// self is the path of this test binary.
func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// hog touches the number of MiB in its first argument and then waits for ever.
// After as many MiB as its second argument says it pauses, so that it is seen.
func hog() int {
	size, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	pauseAt := -1
	if len(os.Args) > 2 {
		if pauseAt, err = strconv.Atoi(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 98
		}
	}
	for i := range size {
		if i == pauseAt {
			<-time.After(300 * time.Millisecond)
		}
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
	<-wait()
	return 0
}

// hogChild starts a hog, and outlives it.
func hogChild() int {
	child, err := os.StartProcess(self(), os.Args, &os.ProcAttr{
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

// setsid ignores SIGTERM, prints its pid and waits. With an argument it first
// starts another in a session of its own; told to leave it then exits at once.
func setsid() int {
	if len(os.Args) > 1 {
		child, err := os.StartProcess(self(), os.Args[:1], &os.ProcAttr{
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
		defer func() { _, _ = child.Wait() }()
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

// agent opens a runner, starts a job, prints the job's pid and waits to be
// killed. Arguments: root, proxy, node, mode of cgroups, lease, what the job does
// after it has printed its pid.
func agent() int {
	config := runner.DefaultConfig()
	config.Root, config.ProxyPath, config.NodeName = os.Args[1], os.Args[2], os.Args[3]
	config.Users.Root = true
	config.Logger = slog.New(slog.DiscardHandler)
	if os.Args[4] != "none" {
		config.Cgroups = runner.DetectCgroups("/", config.NodeName)
	}
	lease, err := time.ParseDuration(os.Args[5])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 95
	}
	opened, err := runner.Open(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 94
	}
	job, err := opened.Start(context.Background(), runner.JobSpec{ID: "job", Shell: "echo $$; " + os.Args[6], Lease: lease})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 93
	}
	for {
		if part, err := opened.ReadOutput("job", "stdout", 0, 100); err == nil && len(part.Data) > 0 {
			fmt.Printf("%s", part.Data)
			break
		}
		pause()
	}
	for range job.Events() {
	}
	<-wait()
	return 0
}

// plainAgent runs jobs and prints what becomes of them. Arguments: root, proxy.
func plainAgent() int {
	config := runner.DefaultConfig()
	config.Root, config.ProxyPath, config.NodeName = os.Args[1], os.Args[2], "plain"
	config.Logger = slog.New(slog.DiscardHandler)
	opened, err := runner.Open(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 94
	}
	fmt.Println("shortfall:", opened.Shortfall())
	for _, spec := range []runner.JobSpec{
		{ID: "none", Isolation: proxyproto.IsolationNone},
		{ID: "default", Isolation: proxyproto.IsolationDefault},
		{ID: "strict", Isolation: proxyproto.IsolationStrict},
		{ID: "tmpfs", Tmpfs: []proxyproto.Tmpfs{{Path: "ram", Size: 1 << 20}}},
		{ID: "itself", User: strconv.Itoa(os.Getuid()), Group: strconv.Itoa(os.Getgid())},
		{ID: "root", User: "root"},
	} {
		spec.Shell, spec.Lease = "grep -c 'NoNewPrivs:.1' /proc/self/status; exit 4", time.Minute
		job, err := opened.Start(context.Background(), spec)
		if err != nil {
			fmt.Println(err)
			continue
		}
		for range job.Events() {
		}
		part, err := opened.ReadOutput(spec.ID, "stdout", 0, 100)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Printf("%s: %s with %d, no new rights: %s\n", spec.ID, job.Result().Outcome, job.Result().ExitCode, bytes.TrimSpace(part.Data))
	}
	if err := opened.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 93
	}
	return 0
}
