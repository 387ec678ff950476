package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"weir/api/discovery"
)

// leave runs until SIGTERM, and then exits with the given code. It records its start and the signal
// in a folder.
func leave(args []string) error {
	code, err := strconv.Atoi(args[1])
	if err == nil {
		err = attend(args[0])
	}
	if err == nil {
		os.Exit(code)
	}
	return err
}

// attend records the start of this process in a folder, waits for SIGTERM, records the signal too,
// and returns.
func attend(dir string) error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	if err := note(nameIn(dir)+".log", "begin"); err != nil {
		return err
	}
	select {
	case <-asked:
	case <-time.After(patience):
	}
	return note(nameIn(dir)+".log", "asked")
}

// serve is an instance of a service. It writes what it hears of its peers, its start and SIGTERM to
// a folder. After SIGTERM it exits once a file exists.
func serve(args []string) error {
	client, err := discovery.Open()
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	heard := make(chan error, 1)
	go func() { heard <- listen(ctx, client, filepath.Join(args[0], os.Getenv("WEIR_JOB_ID"))) }()
	if err := attend(args[0]); err != nil {
		return err
	}
	await(args[1])
	stop()
	return <-heard
}

// listen writes each change of its peers as a line of JSON.
func listen(ctx context.Context, client *discovery.Client, name string) error {
	out, err := os.OpenFile(name+".heard", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer out.Close()
	for change := range client.Watch(ctx) {
		if err := json.NewEncoder(out).Encode(change); err != nil {
			return fmt.Errorf("write down %v: %w", change, err)
		}
	}
	return nil
}

// nameIn is the path of this cookie's files in a folder, without suffix.
func nameIn(dir string) string {
	return filepath.Join(dir, os.Getenv("WEIR_TASK_NAME")+"-"+os.Getenv("WEIR_JOB_COOKIE"))
}
