// Package discovery lets a job find its peers, the other jobs of its operation, and learn
// when it has to stop.
//
// It talks to the agent of the job's node through the socket that the job's environment
// names. docs/discovery.md describes the protocol for other languages. The package needs
// only the standard library.
package discovery

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"slices"
	"time"

	"weir/messages/discoveryjson"
)

type (
	// Peers are the jobs of the operation, including the job itself.
	Peers = discoveryjson.Peers
	// Instance is one of the Peers.
	Instance = discoveryjson.Instance
	// Notice says whether the job has to stop, and why.
	Notice = discoveryjson.Notice
)

// States of an Instance.
const (
	// Live means that the job has its resources and need not stop. Send work to instances
	// that are also Ready.
	Live = discoveryjson.Live
	// Draining means that the job was asked to stop and is finishing its work.
	Draining = discoveryjson.Draining
	// Gone means that the job has ended.
	Gone = discoveryjson.Gone
)

// The words that a job can report about itself.
const (
	// SayReady means that the job accepts requests.
	SayReady = discoveryjson.SayReady
	// SayNotReady means that the job accepts no requests for now.
	SayNotReady = discoveryjson.SayNotReady
	// SayDraining means that the job accepts no further requests, since it is about to
	// stop by itself.
	SayDraining = discoveryjson.SayDraining
)

// Variables in the environment of a job.
const (
	// SocketVariable names the socket.
	SocketVariable = "WEIR_DISCOVERY"
	// NoticeVariable names the file that holds the Notice once the job has to stop.
	NoticeVariable = "WEIR_NOTICE"
)

var (
	// ErrNoJob is returned by Open in a process that is not a job of Weir.
	ErrNoJob = errors.New(SocketVariable + " is not set: not running as a job of Weir")
	// ErrRefused is returned, wrapped with the agent's message, when the agent rejects
	// a request.
	ErrRefused = errors.New("refused")
)

// The pause before the next attempt to reach the agent grows from firstPause to longPause.
const (
	firstPause = 20 * time.Millisecond
	longPause  = time.Second
)

// Client is the client of one job. It is safe for concurrent use and keeps no connection
// open between calls. While the agent is down, for example during an upgrade, calls wait for
// it as long as their context allows.
type Client struct{ path string }

// Open returns the client of the job that this process belongs to.
func Open() (*Client, error) {
	path := os.Getenv(SocketVariable)
	if path == "" {
		return nil, ErrNoJob
	}
	return At(path), nil
}

// At returns a client that uses the socket at path.
func At(path string) *Client { return &Client{path: path} }

// Peers returns the jobs of the operation: those that run, those that have to stop and,
// for a while, those that have ended.
func (c *Client) Peers(ctx context.Context) (Peers, error) {
	answer, err := c.ask(ctx, discoveryjson.Request{Ask: discoveryjson.AskPeers})
	if err != nil || answer.Peers == nil {
		return Peers{}, fmt.Errorf("ask for peers: %w", unexpected(err))
	}
	return *answer.Peers, nil
}

// Notice returns whether the job has to stop.
func (c *Client) Notice(ctx context.Context) (Notice, error) {
	answer, err := c.ask(ctx, discoveryjson.Request{Ask: discoveryjson.AskNotice})
	if err != nil || answer.Notice == nil {
		return Notice{}, fmt.Errorf("ask for notice: %w", unexpected(err))
	}
	return *answer.Notice, nil
}

// Acknowledge reports that the job, which has to stop, has saved its state. The agent then
// ends the job, most likely before this returns. Its cookie runs again elsewhere.
func (c *Client) Acknowledge(ctx context.Context) error {
	answer, err := c.ask(ctx, discoveryjson.Request{Do: discoveryjson.DoAcknowledge})
	if err != nil || !answer.Acknowledged {
		return fmt.Errorf("acknowledge: %w", unexpected(err))
	}
	return nil
}

// Say reports whether the job accepts requests: SayReady, SayNotReady or SayDraining. Its
// peers, and all clients that watch instances, learn of it within about ten milliseconds. The
// last word holds until the job says another one, also across a restart of the agent.
func (c *Client) Say(ctx context.Context, word string) error {
	answer, err := c.ask(ctx, discoveryjson.Request{Say: word})
	if err != nil || answer.Said != word {
		return fmt.Errorf("say %s: %w", word, unexpected(err))
	}
	return nil
}

// Change is a change that Watch yields. One of its fields is set.
type Change struct {
	Peers  *Peers
	Notice *Notice
}

// Watch yields the peers and the notice as they are now, and again whenever one of them
// changes, until ctx is done or the operation is over. If it loses the agent it reconnects,
// and then yields both again. Changes that come faster than the caller handles them may be
// merged.
func (c *Client) Watch(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, longPause) {
			heard, over := c.watch(ctx, yield)
			if over {
				return
			}
			if heard {
				pause = firstPause
			}
			rest(ctx, pause)
		}
	}
}

// watch reads changes from one connection. The result heard says that an answer was received. The
// result over says that Watch must end.
func (c *Client) watch(ctx context.Context, yield func(Change) bool) (heard, over bool) {
	conn, answers, end, err := c.connect(ctx, discoveryjson.Request{Ask: discoveryjson.AskWatch, Changes: true})
	if err != nil {
		return false, false
	}
	defer end()
	var known *Peers
	for plain := false; ; {
		answer, err := read(answers)
		if err == nil && answer.Error != "" && !heard && !plain {
			// An older agent does not support changes: ask for all peers each time.
			plain = true
			if say(conn, discoveryjson.Request{Ask: discoveryjson.AskWatch}) != nil {
				return false, false
			}
			continue
		}
		if err == nil && answer.Changes != nil {
			var ok bool
			if answer.Peers, ok = answer.Changes.After(known); !ok {
				// Reconnect: a new watch starts with all peers.
				return heard, false
			}
		}
		if err != nil || answer.Peers == nil && answer.Notice == nil {
			return heard, false
		}
		heard = true
		change := Change{Notice: answer.Notice}
		if answer.Peers != nil {
			known, change.Peers = answer.Peers, clone(answer.Peers)
		}
		if !yield(change) {
			return true, true
		}
		if known != nil && known.Over {
			return true, true
		}
	}
}

// clone returns a copy that the caller may change.
func clone(known *Peers) *Peers {
	peers := *known
	peers.Revision = 0
	peers.Instances = slices.Clone(known.Instances)
	return &peers
}

// ask sends a request again and again until there is an answer or ctx is done.
func (c *Client) ask(ctx context.Context, request discoveryjson.Request) (discoveryjson.Answer, error) {
	var cause error
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		answer, err := c.once(ctx, request)
		if err == nil && answer.Error != "" {
			return answer, fmt.Errorf("%w: %s", ErrRefused, answer.Error)
		}
		if err == nil {
			return answer, nil
		}
		if over := ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded); cause == nil || !over {
			// The end of ctx says nothing about the agent, so keep the earlier cause.
			cause = err
		}
		rest(ctx, pause)
		if ctx.Err() != nil {
			return answer, errors.Join(ctx.Err(), cause)
		}
	}
}

func (c *Client) once(ctx context.Context, request discoveryjson.Request) (discoveryjson.Answer, error) {
	_, answers, end, err := c.connect(ctx, request)
	if err != nil {
		return discoveryjson.Answer{}, err
	}
	defer end()
	return read(answers)
}

// connect sends a request on a new connection. The connection is closed when ctx is done or the
// function `end` is called.
func (c *Client) connect(ctx context.Context, request discoveryjson.Request) (conn net.Conn, answers *bufio.Reader, end func(), err error) {
	conn, err = (&net.Dialer{}).DialContext(ctx, "unix", c.path)
	if err != nil {
		return nil, nil, nil, err
	}
	forget := context.AfterFunc(ctx, func() { _ = conn.Close() })
	end = func() {
		forget()
		_ = conn.Close()
	}
	if err := say(conn, request); err != nil {
		end()
		return nil, nil, nil, err
	}
	return conn, bufio.NewReader(conn), end, nil
}

func say(conn net.Conn, request discoveryjson.Request) error {
	line, err := json.Marshal(request)
	if err == nil {
		_, err = conn.Write(append(line, '\n'))
	}
	return err
}

// read reads an answer.
func read(answers *bufio.Reader) (discoveryjson.Answer, error) {
	var answer discoveryjson.Answer
	var line []byte
	for {
		part, err := answers.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > discoveryjson.MaxAnswer:
			return answer, fmt.Errorf("answer is longer than %d bytes", discoveryjson.MaxAnswer)
		case err == nil:
			return answer, json.Unmarshal(line, &answer)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return answer, io.ErrUnexpectedEOF
		default:
			return answer, err
		}
	}
}

// unexpected returns err, or if it is nil, the error for an answer to another request.
func unexpected(err error) error {
	if err == nil {
		return errors.New("response to another request")
	}
	return err
}

// rest waits for d, or until ctx is done.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
