// Package discovery lets a job find its peers, the other jobs of its operation, and hear
// when it has to leave.
//
// It speaks with the agent of the job's node on the socket that is named in the job's
// environment: see docs/discovery.md, by which other languages can do the same. It needs
// the standard library only.
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
	// Peers are the jobs of the operation, the one that asks among them.
	Peers = discoveryjson.Peers
	// Instance is one of them.
	Instance = discoveryjson.Instance
	// Notice says whether the job has to leave, and why.
	Notice = discoveryjson.Notice
)

// States of an Instance.
const (
	// Live: it has a place to run, and need not leave. Send work to those that are Ready.
	Live = discoveryjson.Live
	// Draining: it has been told to go, and ends what it has.
	Draining = discoveryjson.Draining
	// Gone: it has ended.
	Gone = discoveryjson.Gone
)

// What a job says of itself.
const (
	// SayReady: it takes requests.
	SayReady = discoveryjson.SayReady
	// SayNotReady: it takes none for now.
	SayNotReady = discoveryjson.SayNotReady
	// SayDraining: it takes none any more, since it is about to leave by itself.
	SayDraining = discoveryjson.SayDraining
)

// Variables in the environment of a job.
const (
	// SocketVariable names the socket.
	SocketVariable = "WEIR_DISCOVERY"
	// NoticeVariable names the file that holds the Notice once the job has to leave.
	NoticeVariable = "WEIR_NOTICE"
)

var (
	// ErrNoJob is returned by Open in a process that is not a job of Weir.
	ErrNoJob = errors.New(SocketVariable + " is not set: not running as a job of Weir")
	// ErrRefused is returned, wrapped, with what the agent says is wrong.
	ErrRefused = errors.New("refused")
)

// The pause before the agent is sought again grows between these.
const (
	firstPause = 20 * time.Millisecond
	longPause  = time.Second
)

// Client asks for one job. It may be used by several goroutines. It holds nothing open
// between calls. While the agent is away, as when it is installed anew, calls wait for it
// as long as their context allows.
type Client struct{ path string }

// Open returns the client of the job that this process belongs to.
func Open() (*Client, error) {
	path := os.Getenv(SocketVariable)
	if path == "" {
		return nil, ErrNoJob
	}
	return At(path), nil
}

// At returns a client that asks on the socket at path.
func At(path string) *Client { return &Client{path: path} }

// Peers returns the jobs of the operation: those that run, those that have to leave and,
// for a while, those that have gone.
func (c *Client) Peers(ctx context.Context) (Peers, error) {
	answer, err := c.ask(ctx, discoveryjson.Request{Ask: discoveryjson.AskPeers})
	if err != nil || answer.Peers == nil {
		return Peers{}, fmt.Errorf("ask for peers: %w", unexpected(err))
	}
	return *answer.Peers, nil
}

// Notice returns whether the job has to leave.
func (c *Client) Notice(ctx context.Context) (Notice, error) {
	answer, err := c.ask(ctx, discoveryjson.Request{Ask: discoveryjson.AskNotice})
	if err != nil || answer.Notice == nil {
		return Notice{}, fmt.Errorf("ask for notice: %w", unexpected(err))
	}
	return *answer.Notice, nil
}

// Acknowledge says that the job, which has to leave, has saved what it needs to. It is
// then ended, most likely before this returns. Its cookie runs again elsewhere.
func (c *Client) Acknowledge(ctx context.Context) error {
	answer, err := c.ask(ctx, discoveryjson.Request{Do: discoveryjson.DoAcknowledge})
	if err != nil || !answer.Acknowledged {
		return fmt.Errorf("acknowledge: %w", unexpected(err))
	}
	return nil
}

// Say says whether the job takes requests: SayReady, SayNotReady or SayDraining. Its peers,
// and who watches instances anywhere, hear of it within some ten milliseconds. What was said
// last holds until the job says something else, also when the agent is started again.
func (c *Client) Say(ctx context.Context, word string) error {
	answer, err := c.ask(ctx, discoveryjson.Request{Say: word})
	if err != nil || answer.Said != word {
		return fmt.Errorf("say %s: %w", word, unexpected(err))
	}
	return nil
}

// Change is what Watch has to tell: one of the two is set.
type Change struct {
	Peers  *Peers
	Notice *Notice
}

// Watch yields the peers and the notice as they are now, and again whenever one of them
// changes, until ctx is done or the operation is over. It connects again when it has
// lost the agent, and then tells both anew. Changes that come faster than they are taken
// may be told as one.
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

// watch watches on one connection. heard: it has heard something; over: there will be
// nothing more.
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
			// An agent that knows no changes tells all peers each time.
			plain = true
			if say(conn, discoveryjson.Request{Ask: discoveryjson.AskWatch}) != nil {
				return false, false
			}
			continue
		}
		if err == nil && answer.Changes != nil {
			var ok bool
			if answer.Peers, ok = answer.Changes.After(known); !ok {
				// Who asks anew is told all.
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

// clone returns peers that may be changed.
func clone(known *Peers) *Peers {
	peers := *known
	peers.Revision = 0
	peers.Instances = slices.Clone(known.Instances)
	return &peers
}

// ask asks until there is an answer.
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
			// That ctx ends says nothing about the agent.
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

// connect sends a request on a connection of its own, which ends with ctx, or by end.
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

// unexpected is err, or that of an answer that is to another question.
func unexpected(err error) error {
	if err == nil {
		return errors.New("response to another request")
	}
	return err
}

// rest waits, but not longer than ctx.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
