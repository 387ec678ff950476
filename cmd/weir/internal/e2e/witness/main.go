// Command witness is the program that the jobs of the tests run. It records that it ran, or
// misbehaves as its arguments say.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// patience is the longest time that a witness waits, so that none outlives a test that failed.
const patience = 5 * time.Minute

// parts are what a witness can do.
var parts = map[string]func(args []string) error{
	"answer": answer,
	"run":    run,
	"deaf":   deaf,
	"breed":  breed,
	"child":  child,
	"flood":  flood,
	"hog":    hog,
	"leave":  leave,
	"pace":   pace,
	"serve":  serve,
	"use":    use,
}

func main() {
	if len(os.Args) < 2 || parts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "witness: which part?")
		os.Exit(2)
	}
	if err := parts[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		os.Exit(9)
	}
}

// run notes in a folder when this attempt of its cookie begins and ends, and whether another
// attempt runs at the same time. It lasts for a given time, or until a file exists.
func run(args []string) error {
	dir, length := args[0], args[1]
	name := nameIn(dir)
	lock, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("two attempts of %s at once: %w: %w", name, err, note(filepath.Join(dir, "violations"), name))
	}
	if err := note(name+".log", "begin"); err != nil {
		return err
	}
	if d, err := time.ParseDuration(length); err == nil {
		time.Sleep(d)
	} else {
		await(length)
	}
	return note(name+".log", "end")
}

// note appends a line with the job's id and this process's pid.
func note(file, what string) error {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, os.Getenv("WEIR_JOB_ID"), os.Getpid(), what); err != nil {
		return err
	}
	return out.Close()
}

// await waits until a file exists, but no longer than `patience`.
func await(file string) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
	}
}

// deaf ignores SIGTERM, and writes its pid to a file.
func deaf(args []string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := note(args[0], "deaf"); err != nil {
		return err
	}
	time.Sleep(patience)
	return nil
}

// breed starts children in sessions of their own, one of them an orphan. It writes all pids to a
// file.
func breed(args []string) error {
	for range 2 {
		if err := start(args[0], "alone"); err != nil {
			return err
		}
	}
	if err := start(args[0], "orphan"); err != nil {
		return err
	}
	return deaf(args)
}

// child runs in a session of its own. An orphan is started by a child that exits.
func child(args []string) error {
	if args[1] == "orphan" {
		return start(args[0], "alone")
	}
	return deaf(args)
}

func start(args ...string) error {
	cmd := exec.Command("/proc/self/exe", append([]string{"child"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// flood prints the given number of MiB to stdout, between two marker lines.
func flood(args []string) error {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	fmt.Println("the first line")
	page := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	for range count {
		if _, err := os.Stdout.Write(page); err != nil {
			return err
		}
	}
	fmt.Println("the last line")
	return nil
}

// hog allocates memory, 4 MiB at a time, up to the given number of MiB, and keeps it.
func hog(args []string) error {
	limit, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var held [][]byte
	for len(held)*4 < limit {
		held = append(held, bytes.Repeat([]byte{1}, 4<<20))
		time.Sleep(time.Millisecond)
	}
	fmt.Println("held", len(held)*4, "MiB")
	time.Sleep(patience)
	runtime.KeepAlive(held)
	return nil
}
