package discovery

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weir/messages/actorpb"
	"weir/messages/discoveryjson"
)

// allowed is the deadline of every wait.
const allowed = 2 * time.Minute

// office is a desk of job a of the operation op, at a real socket.
type office struct {
	*replica
	desk         *Desk
	path         string
	acknowledged chan struct{}
	refusal      error
	said         []string
}

func openOffice(t *testing.T) *office {
	t.Helper()
	o := &office{replica: newReplica(), path: filepath.Join(t.TempDir(), "s"), acknowledged: make(chan struct{}, 1)}
	directory := NewDirectory(o.source)
	o.desk = NewDesk(Asker{Job: "a", Operation: "op", Index: 7, Acknowledge: func() error {
		o.acknowledged <- struct{}{}
		return o.refusal
	}, Say: func(word string) error {
		o.said = append(o.said, word)
		return o.refusal
	}}, directory)
	listener, err := net.Listen("unix", o.path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		Serve(listener, o.desk)
		close(served)
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		select {
		case <-served:
		case <-time.After(allowed):
			t.Error("it serves on without a listener")
		}
		directory.Close()
	})
	return o
}

// client is a job that asks.
type client struct {
	net.Conn
	*bufio.Reader
}

func (o *office) connect(t *testing.T) client {
	t.Helper()
	conn, err := net.Dial("unix", o.path)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(allowed))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return client{conn, bufio.NewReader(conn)}
}

func (c client) say(t *testing.T, line string) {
	t.Helper()
	if _, err := c.Conn.Write([]byte(line + "\n")); err != nil {
		t.Fatal(err)
	}
}

func (c client) hear(t *testing.T) (answer discoveryjson.Answer) {
	t.Helper()
	line, err := c.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &answer)
	}
	if err != nil {
		t.Fatalf("heard %q: %v", line, err)
	}
	return answer
}

func TestAnswers(t *testing.T) {
	o := openOffice(t)
	o.say("op", "v1", false, job("a", "live"), job("b", "draining"))
	tests := map[string]struct {
		line      string
		wantError string
	}{
		"a question nobody knows":      {line: `{"ask":"weather"}`, wantError: `{\"ask\":\"weather\"}`},
		"a deed nobody knows":          {line: `{"do":"dance"}`, wantError: `say "ready", "not_ready" or "draining"`},
		"a word nobody knows":          {line: `{"say":"perhaps"}`, wantError: "not known"},
		"both":                         {line: `{"ask":"peers","do":"acknowledge"}`, wantError: "not known"},
		"nothing":                      {line: `{}`, wantError: "not known"},
		"no JSON":                      {line: `peers?`, wantError: "peers?"},
		"an empty line":                {line: ``, wantError: "EOF"},
		"two in a line":                {line: `{"ask":"notice"}{"ask":"notice"}`, wantError: "more than one"},
		"a field nobody knows":         {line: `{"ask":"peers","of":"other"}`, wantError: `unknown field "of"`},
		"changes of what is told once": {line: `{"ask":"peers","changes":true}`, wantError: "not known"},
		"a question of another shape":  {line: `{"ask":["peers"]}`, wantError: "cannot unmarshal"},
	}
	c := o.connect(t)
	for name, test := range tests {
		c.say(t, test.line)
		if got := c.hear(t); !strings.Contains(got.Error, test.wantError) || got.Peers != nil || got.Notice != nil {
			t.Errorf("%s: answered %+v, want an error with %q", name, got, test.wantError)
		}
	}
	// After all of that it still answers.
	c.say(t, `{"ask":"peers"}`)
	got := c.hear(t).Peers
	if got == nil || got.Operation != "op" || len(got.Instances) != 2 || !got.Instances[0].Self || got.Instances[1].Self || got.Instances[1].State != "draining" || time.Since(got.AsOf) > allowed {
		t.Fatalf("peers %+v", got)
	}
	if address := got.Instances[1].Address(0); address != "127.0.0.1:21000" || got.Instances[1].Address(1) != "" {
		t.Errorf("address %q", address)
	}
	c.say(t, `{"ask":"notice"}`)
	if notice := c.hear(t).Notice; notice == nil || notice.Leaving {
		t.Errorf("notice %+v, want none", notice)
	}
	o.desk.Tell(discoveryjson.Notice{Leaving: true, PreemptedFor: "hungry"})
	c.say(t, `{"ask":"notice"}`)
	if notice := c.hear(t).Notice; notice == nil || !notice.Leaving || notice.PreemptedFor != "hungry" {
		t.Errorf("notice %+v", notice)
	}
	c.say(t, `{"do":"acknowledge"}`)
	if !c.hear(t).Acknowledged || len(o.acknowledged) != 1 {
		t.Error("the acknowledgement has not come through")
	}
	<-o.acknowledged
	o.refusal = errors.New("not asked")
	c.say(t, `{"do":"acknowledge"}`)
	if got := c.hear(t); got.Acknowledged || !strings.Contains(got.Error, "not asked") {
		t.Errorf("answered %+v", got)
	}
}

// TestAnswerToOneWhoHasSaidAll hears a job that has closed its side already.
func TestAnswerToOneWhoHasSaidAll(t *testing.T) {
	o := openOffice(t)
	o.say("op", "v1", false, job("a", "live"))
	c := o.connect(t)
	c.say(t, `{"ask":"peers"}`)
	if err := c.Conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if c.hear(t).Peers == nil {
		t.Error("not answered")
	}
}

func TestLongRequest(t *testing.T) {
	c := openOffice(t).connect(t)
	c.say(t, strings.Repeat("x", discoveryjson.MaxRequest))
	if got := c.hear(t); !strings.Contains(got.Error, "longer than") {
		t.Errorf("answered %+v", got)
	}
	if _, err := c.ReadByte(); err == nil {
		t.Error("the connection goes on")
	}
}

func TestWatch(t *testing.T) {
	o := openOffice(t)
	o.say("op", "v1", false, job("a", "live"))
	c := o.connect(t)
	c.say(t, `{"ask":"watch"}`)
	if notice := c.hear(t).Notice; notice == nil || notice.Leaving {
		t.Errorf("notice %+v", notice)
	}
	if peers := c.hear(t).Peers; peers == nil || len(peers.Instances) != 1 {
		t.Fatalf("peers %+v", peers)
	}
	o.say("op", "v2", false, job("a", "live"), job("b", "live"))
	if peers := c.hear(t).Peers; peers == nil || len(peers.Instances) != 2 {
		t.Fatalf("peers %+v after a change", peers)
	}
	o.desk.Tell(discoveryjson.Notice{Leaving: true})
	if notice := c.hear(t).Notice; notice == nil || !notice.Leaving {
		t.Errorf("notice %+v after a change", notice)
	}
	// It may ask other things meanwhile.
	c.say(t, `{"ask":"notice"}`)
	if notice := c.hear(t).Notice; notice == nil || !notice.Leaving {
		t.Errorf("notice %+v", notice)
	}
	o.say("op", "v3", true)
	if peers := c.hear(t).Peers; peers == nil || !peers.Over {
		t.Errorf("peers %+v at the end", peers)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	o := openOffice(t)
	var all []client
	for range maxConnections {
		c := o.connect(t)
		c.say(t, `{"ask":"notice"}`)
		c.hear(t)
		all = append(all, c)
	}
	if got := o.connect(t).hear(t); !strings.Contains(got.Error, fmt.Sprint(maxConnections, " connections are already open")) {
		t.Errorf("one more: %+v", got)
	}
	if err := all[0].Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(allowed); ; {
		c := o.connect(t)
		// Who is refused may find the connection closed before it has said anything.
		_, _ = c.Conn.Write([]byte(`{"ask":"notice"}` + "\n"))
		if got := c.hear(t); got.Error == "" {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("no place after one has gone: %+v", got)
		}
	}
}

// askAsAnother asks for the notice and prints the first line that it hears.
func askAsAnother(path string) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintln(conn, `{"ask":"notice"}`)
	line, err := bufio.NewReader(conn).ReadString('\n')
	fmt.Println(line, err)
}

// TestJobsOfOtherUsersAreAnswered, to whom their socket is open.
func TestJobsOfOtherUsersAreAnswered(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	o := openOffice(t)
	folder, err := os.MkdirTemp("/tmp", "weir-another")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test's own folders are closed to others.
	program, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "another"), program, 0o755) //nolint:gosec // others are to run it
	}
	if err == nil {
		err = os.Rename(o.path, filepath.Join(folder, "s"))
	}
	for _, path := range []string{folder, filepath.Join(folder, "s")} {
		err = errors.Join(err, os.Chmod(path, 0o777)) //nolint:gosec // others are to reach it
	}
	if err != nil {
		t.Fatal(err)
	}
	another := exec.Command(filepath.Join(folder, "another"))
	another.Dir = "/"
	another.Env = []string{"WEIR_TEST_ANOTHER=" + filepath.Join(folder, "s")}
	another.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if heard, err := another.CombinedOutput(); err != nil || !strings.Contains(string(heard), `{"notice":`) {
		t.Errorf("heard %q, %v, want the notice", heard, err)
	}
}

// TestPeersOfASilentReplica is an error that says so, and not one who has heard of them.
func TestPeersOfASilentReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica()
		directory := NewDirectory(r.source)
		defer directory.Close()
		c := &connection{desk: NewDesk(Asker{Job: "a", Operation: "op", Index: 7}, directory)}
		r.fail(errors.New("r1 is away"))
		if got := c.peers(t.Context()); !strings.Contains(got.Error, "r1 is away") {
			t.Errorf("answered %+v", got)
		}
		// A replica that does not know of the job yet is waited for, but not for ever.
		r.fail(nil)
		r.say("op", "v1", false, job("b", "live"))
		began := time.Now()
		if got := c.peers(t.Context()).Peers; got == nil || len(got.Instances) != 1 || got.Instances[0].Self {
			t.Errorf("answered %+v", got)
		}
		if took := time.Since(began); took != selfPatience {
			t.Errorf("it took %v, want %v", took, selfPatience)
		}
	})
}

func TestManyPeersAreCut(t *testing.T) {
	all := make([]*actorpb.Instance, maxInstances+5)
	for i := range all {
		all[i] = job(fmt.Sprint("j", i), "live")
		for len(all[i].Ports) < 100 {
			all[i].Ports = append(all[i].Ports, 65535)
		}
	}
	p := peers(View{Instances: &actorpb.Instances{Instances: all}}, "j1")
	if len(p.Instances) != maxInstances || p.Omitted != 5 {
		t.Errorf("%d instances, %d omitted", len(p.Instances), p.Omitted)
	}
	if line := encode(discoveryjson.Answer{Peers: p}); len(line) > discoveryjson.MaxAnswer || strings.Contains(string(line[:20]), "error") {
		t.Errorf("a line of %d bytes: %.60s", len(line), line)
	}
	if line := encode(discoveryjson.Answer{Error: strings.Repeat("x", discoveryjson.MaxAnswer)}); len(line) > 1000 || !json.Valid(line) {
		t.Errorf("an answer that is too long becomes %.100s", line)
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{`{"ask":"peers"}`, `{"do":"acknowledge"}`, `{"ask":"peers"} {}`, `{"ask":null}`, `{"ask":"watch","changes":true}`, "\x00", `{"ASK":"watch"}`} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		request, err := parse(line)
		if (err == nil) == (request.Ask == "" && request.Do == "") && err == nil {
			t.Fatalf("%q: %+v, %v", line, request, err)
		}
		if err != nil && !json.Valid(encode(failure(err))) {
			t.Fatalf("%q: an answer that is no JSON", line)
		}
	})
}
