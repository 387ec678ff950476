package devcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// What the test binary does instead of tests, by this variable: be a member of a
// cluster, or be the owner of one.
const (
	partVariable = "WEIR_DEVCLUSTER_TEST_PART"
	memberPart   = "member"
	ownerPart    = "owner"
	// faultVariable names a member that ends at once.
	faultVariable = "WEIR_DEVCLUSTER_TEST_FAULT"
)

func TestMain(m *testing.M) {
	switch os.Getenv(partVariable) {
	case memberPart:
		os.Exit(playMember(os.Args[1:]))
	case ownerPart:
		os.Exit(playOwner())
	}
	// What is passable for other users is looked at.
	syscall.Umask(0o022)
	// Every child of a test plays a member. One with a race detector would wait for a
	// second before it ends.
	for name, value := range map[string]string{partVariable: memberPart, "GORACE": "atexit_sleep_ms=0"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// playMember is a process that is up at once and stops when told.
func playMember(arguments []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	name := arguments[2]
	if os.Getenv(faultVariable) == name {
		fmt.Println("listen tcp: address already in use")
		return 1
	}
	fmt.Println("ready:", name)
	<-ctx.Done()
	return 0
}

// playOwner starts the cluster whose Config is in the environment, and keeps it.
func playOwner() int {
	config := Default()
	if err := json.Unmarshal([]byte(os.Getenv("CONFIG")), &config.Dir); err != nil {
		panic(err)
	}
	if err := os.Setenv(partVariable, memberPart); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	complete(&config)
	cluster, err := Start(config, func(string) {})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("started")
	if err := cluster.Run(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	if err := cluster.Stop(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// complete sets what has no default.
func complete(c *Config) {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	c.Program, c.JobProxy = program, program
	c.Replicas, c.Agents = 3, 2
	c.Insecure = true
	c.Share = ShareOut(2, 1<<30, 2)
	c.ReadyTimeout = patience
	c.Sweep = func(Member) error { return nil }
}
