package runner_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
	"weir/cluster/clock"
)

// TestSecondVersion holds conversations with a proxy of version 2, as one was recorded:
// lines with ">" are what it was told, those with "<" what it said.
func TestSecondVersion(t *testing.T) {
	tests := map[string]struct {
		recording       string
		tell            func(f *fixture, job *runner.Job) error
		wantOutcome     proxyproto.Outcome
		wantCode        int
		wantReason      string
		wantInterrupted bool
	}{
		"its job ends by itself": {
			recording: "v2-ended.txt",
			tell: func(f *fixture, _ *runner.Job) error {
				f.RenewAll(clock.Boot() + time.Minute)
				return nil
			},
			wantOutcome: proxyproto.OutcomeExited, wantCode: 7,
		},
		"it interrupts": {
			recording: "v2-interrupted.txt",
			tell: func(_ *fixture, job *runner.Job) error {
				return job.Interrupt(runner.Interruption{Signal: "SIGINT", RootOnly: true, Reason: "preemption", Grace: 10 * time.Second})
			},
			wantOutcome: proxyproto.OutcomeExited, wantInterrupted: true,
		},
		"it stops": {
			recording:   "v2-stopped.txt",
			tell:        func(_ *fixture, job *runner.Job) error { return job.Stop("user_request", 0) },
			wantOutcome: proxyproto.OutcomeStopped, wantCode: -1, wantReason: "user_request",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, backends["as a process tree"])
			if err := f.Leave(); err != nil {
				t.Fatal(err)
			}
			folder := filepath.Join(f.config.Root, "jobs", "job")
			over := converse(t, folder, filepath.Join("testdata", test.recording))
			if err := os.MkdirAll(filepath.Join(folder, proxyproto.WorkspaceFolder), 0o700); err != nil {
				t.Fatal(err)
			}
			job := f.reopen(t)
			if _, is := (<-job.Events()).(runner.Started); !is {
				t.Fatal("the first event is not its start")
			}
			if err := test.tell(f, job); err != nil {
				t.Fatal(err)
			}
			_, result := events(t, job)
			if result == nil || result.Outcome != test.wantOutcome || result.ExitCode != test.wantCode || result.Reason != test.wantReason || result.Interrupted != test.wantInterrupted {
				t.Errorf("result %+v, want %s with code %d, reason %q, interrupted %t", result, test.wantOutcome, test.wantCode, test.wantReason, test.wantInterrupted)
			}
			if err := job.Release(); err != nil {
				t.Errorf("Release: %v", err)
			}
			if err := <-over; err != "" {
				t.Error(err)
			}
		})
	}
}

// converse is a proxy that speaks as the recording does, and goes at its end. What is
// wrong with the answers that it got is told at the end; empty: nothing.
func converse(t *testing.T, folder, recording string) <-chan string {
	t.Helper()
	text, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	process, listener := stageProxy(t, folder)
	over := make(chan string, 1)
	process.served.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			over <- err.Error()
			return
		}
		over <- follow(conn, strings.Split(strings.TrimSpace(string(text)), "\n"))
		process.kill()
		_ = conn.Close()
	})
	return over
}

// follow says the proxy's lines and hears the agent's.
func follow(conn net.Conn, lines []string) (wrong string) {
	_ = conn.SetDeadline(time.Now().Add(patience))
	heard := bufio.NewReader(conn)
	for _, line := range lines {
		who, what := line[0], line[2:]
		if who == '<' {
			if _, err := conn.Write([]byte(what + "\n")); err != nil {
				return err.Error()
			}
			continue
		}
		got, err := heard.ReadString('\n')
		if err != nil {
			return "waiting for " + what + ": " + err.Error()
		}
		if !sameMessage(got, what) {
			return "told " + got + ", want " + what
		}
	}
	return ""
}

// sameMessage says whether a line is the one that is wanted. A lease is shorter by what it took
// to tell it.
func sameMessage(got, want string) bool {
	a, err := proxyproto.Parse([]byte(got))
	b, wrong := proxyproto.Parse([]byte(want))
	if err != nil || wrong != nil {
		return false
	}
	if a.Renew != nil && b.Renew != nil && a.Renew.LeaseMillis > 0 && a.Renew.LeaseMillis < b.Renew.LeaseMillis {
		b.Renew.LeaseMillis = a.Renew.LeaseMillis
	}
	return reflect.DeepEqual(a, b)
}

// playback is a proxy that says what was recorded and goes when it is released. What it is
// told goes to told, which may be nil.
func playback(t *testing.T, folder, recording string, told chan<- string) {
	t.Helper()
	lines, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	process, listener := stageProxy(t, folder)
	process.served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				// As the kernel does for a proxy that has gone.
				<-process.ended
				_ = conn.Close()
			}()
			_, _ = conn.Write(lines)
			heard, _ := bufio.NewReader(conn).ReadString('\n')
			select {
			case told <- heard:
			default:
			}
			if strings.HasPrefix(heard, `{"release":`) {
				process.kill()
			}
			_ = conn.Close()
		}
	})
}

// stagedProxy is a process that does nothing but live, in the place of a proxy.
type stagedProxy struct {
	kill  func()
	ended chan struct{}
	// served are those who speak for it.
	served sync.WaitGroup
}

// stageProxy makes the folder of a job that has such a proxy, and its socket. All ends with
// the test.
func stageProxy(t *testing.T, folder string) (*stagedProxy, net.Listener) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	process := exec.Command("sleep", "1000")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	p := &stagedProxy{kill: func() { _ = process.Process.Kill() }, ended: make(chan struct{})}
	go func() {
		_ = process.Wait()
		close(p.ended)
	}()
	listener, err := net.Listen("unix", filepath.Join(folder, proxyproto.SocketFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = listener.Close()
		p.kill()
		<-p.ended
		p.served.Wait()
	})
	who, err := proctree.Read(process.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, proxyproto.IdentityFile), mustJSON(who.Identity), 0o600); err != nil {
		t.Fatal(err)
	}
	return p, listener
}
