package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"weir/actors/agent/runner/proxyproto"
)

// TestLastWordsOfAnAgentCount: an agent gives an order and goes before the proxy comes to read
// it, whatever ends the proxy's own side first.
func TestLastWordsOfAnAgentCount(t *testing.T) {
	for name, ends := range map[string]func(*connection){
		"only itself": func(*connection) {},
		"what it is told does not arrive": func(c *connection) {
			c.send(proxyproto.Message{Started: &proxyproto.Started{}})
			c.write()
		},
		"another agent has come": func(c *connection) { c.close() },
		"it is told too much": func(c *connection) {
			for range outbox + 1 {
				c.send(proxyproto.Message{Started: &proxyproto.Started{}})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			agent, proxy := socketPair(t)
			if _, err := agent.Write(line(t, proxyproto.Message{Stop: &proxyproto.Stop{Reason: "late"}})); err != nil {
				t.Fatal(err)
			}
			if err := agent.Close(); err != nil {
				t.Fatal(err)
			}
			s, c := &server{requests: make(chan request)}, newConnection(proxy)
			ends(c)
			done := make(chan struct{})
			go func() {
				s.read(c)
				close(done)
			}()
			select {
			case r := <-s.requests:
				if r.err != nil || r.message.Stop == nil || r.message.Stop.Reason != "late" {
					t.Errorf("read %+v, want the order to stop", r)
				}
				if r := <-s.requests; !r.closed {
					t.Errorf("then %+v, want that the agent has gone", r)
				}
				<-done
			case <-done:
				t.Error("the order was not read")
			}
			if c.listens() {
				t.Error("the agent is taken to listen")
			}
		})
	}
}

func line(t *testing.T, message proxyproto.Message) []byte {
	t.Helper()
	data, err := message.Line()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func socketPair(t *testing.T) (agent, proxy *net.UnixConn) {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if agent, err = net.DialUnix("unix", nil, listener.Addr().(*net.UnixAddr)); err != nil {
		t.Fatal(err)
	}
	if err := listener.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if proxy, err = listener.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Close(); _ = proxy.Close() })
	return agent, proxy
}
