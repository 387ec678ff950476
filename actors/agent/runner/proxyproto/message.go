package proxyproto

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
)

// Message is one line: exactly one of its fields is set.
type Message struct {
	// From the agent.
	Renew     *Renew     `json:"renew,omitempty"`
	Interrupt *Interrupt `json:"interrupt,omitempty"`
	Stop      *Stop      `json:"stop,omitempty"`
	Probe     *Probe     `json:"probe,omitempty"`
	Exec      *Exec      `json:"exec,omitempty"`
	HangUp    *HangUp    `json:"hangup,omitempty"`
	Measure   *Measure   `json:"measure,omitempty"`
	Release   *Release   `json:"release,omitempty"`
	Run       *Run       `json:"run,omitempty"`

	// From the proxy.
	Hello    *Hello    `json:"hello,omitempty"`
	Started  *Started  `json:"started,omitempty"`
	Sample   *Sample   `json:"sample,omitempty"`
	Probed   *Probed   `json:"probed,omitempty"`
	Executed *Executed `json:"executed,omitempty"`
	Exited   *Result   `json:"exited,omitempty"`
	Free     *Free     `json:"free,omitempty"`
	Error    *Error    `json:"error,omitempty"`
}

// Renew renews the job's lease: for LeaseMillis from the time when the proxy reads the message, but
// not beyond EndMillis.
type Renew struct {
	LeaseMillis int64 `json:"lease_millis"`
	// EndMillis is the latest end of the lease, in milliseconds since the boot of the machine,
	// suspended time included; 0: there is no such bound. It does not move while the message waits
	// to be read. Only a proxy whose Hello says RenewsUntil understands the field.
	EndMillis int64 `json:"end_millis,omitempty"`
	// Shared says that a descriptor comes with the line: of a file in memory, which cannot shrink, whose first eight
	// bytes are the end of the lease in nanoseconds since the boot, as the processor stores them. The agent renews the
	// lease there from now on, until the connection ends. It also watches the memory of the job's group: while the job is
	// at rest, the proxy may measure it less often. Only a proxy whose Hello says Shares understands the field.
	Shared bool `json:"shared,omitempty"`
}

// SharedSize is the size of what an agent shares with Renew, in bytes.
const SharedSize = 8

// Interrupt asks the job to end by itself: its input ends, and all of its processes, or only
// the root process, get the named signal once; without a name no signal is sent. A job that still
// runs after the grace is stopped for the reason. A job that ends earlier keeps its own outcome. A
// later interrupt sends no signal again; it may shorten the grace, never lengthen it. Proxies of
// version 1 do not know the message, and those before version 4 need a signal.
type Interrupt struct {
	Signal      string `json:"signal"`
	RootOnly    bool   `json:"root_only,omitempty"`
	Reason      string `json:"reason"`
	GraceMillis int64  `json:"grace_millis"`
}

// Stop ends the job: its processes get SIGTERM now and SIGKILL after the
// grace. Without grace they are killed at once. The first reason counts; a
// later stop may shorten the grace, never lengthen it.
type Stop struct {
	Reason      string `json:"reason"`
	GraceMillis int64  `json:"grace_millis"`
}

// Probe runs a program beside the job's command, as one of its processes. Probed is the answer.
// Until it is sent, another Probe is refused. Proxies before version 5 do not know the message.
type Probe struct {
	Argv          []string `json:"argv"`
	TimeoutMillis int64    `json:"timeout_millis"`
}

// Exec runs a command for a person beside the job's own, as one of its processes, until the command ends
// or the connection does. Its standard files come with the line as descriptors (SCM_RIGHTS): standard
// input, output and error, or one terminal, which becomes its controlling terminal. Executed is the answer.
// Only a proxy whose Hello says Execs understands the message.
type Exec struct {
	// Session distinguishes it from others of the job.
	Session  string   `json:"session"`
	Argv     []string `json:"argv"`
	Terminal bool     `json:"terminal,omitempty"`
	// Term is the kind of the terminal, the variable TERM of the command.
	Term string `json:"term,omitempty"`
}

// Descriptors is how many descriptors come with the line.
func (m *Message) Descriptors() int {
	switch {
	case m.Run != nil && m.Run.Secrets && m.Run.Claim:
		return 2
	case m.Run != nil && (m.Run.Secrets || m.Run.Claim), m.Exec != nil && m.Exec.Terminal, m.Renew != nil && m.Renew.Shared:
		return 1
	case m.Exec != nil:
		return 3
	}
	return 0
}

// HangUp kills the command of a session with its process group. It does nothing once the command has ended.
type HangUp struct {
	Session string `json:"session"`
}

// Measure asks for a Sample now: the memory of the job has changed. Only a proxy whose Hello says Shares
// understands the message.
type Measure struct{}

// Release says that the result is safe elsewhere, so that the proxy can exit.
// It is refused while the job runs.
type Release struct {
	// Stay asks the proxy to wait for another job instead, on the same connection. If it can, it answers
	// with Free, and exits otherwise. Only a proxy whose Hello says Stays understands the field.
	Stay bool `json:"stay,omitempty"`
}

// Run gives the next job to a proxy that has said Free. Two descriptors may come with the line: a file as
// that at SecretsDescriptor, and the claim to a user of the job's own, for the proxy to hold open.
type Run struct {
	// Folder is the job's. The proxy's log and socket are in it.
	Folder  string `json:"folder"`
	Secrets bool   `json:"secrets,omitempty"`
	Claim   bool   `json:"claim,omitempty"`
}

// Hello is the first message of a proxy.
type Hello struct {
	Version int    `json:"version"`
	JobID   string `json:"job_id"`
	Identity
	// RenewsUntil says that the proxy understands Renew.EndMillis.
	RenewsUntil bool `json:"renews_until,omitempty"`
	// Execs says that the proxy understands Exec and HangUp.
	Execs bool `json:"execs,omitempty"`
	// Stays says that the proxy understands Release.Stay and Run.
	Stays bool `json:"stays,omitempty"`
	// Shares says that the proxy understands Renew.Shared and Measure.
	Shares bool `json:"shares,omitempty"`
}

// Identity distinguishes a process from all others since the machine booted.
type Identity struct {
	Pid int `json:"pid"`
	// StartTicks is field 22 of /proc/pid/stat: clock ticks since boot.
	StartTicks uint64 `json:"start_time"`
}

// Started says that the command is running.
type Started struct {
	Identity
	Time time.Time `json:"time"`
}

// Sample is a measurement of a running job.
type Sample struct {
	// MemoryBytes is the memory of the job, tmpfs included. ProxyMemoryBytes is that of the proxy.
	MemoryBytes      int64 `json:"memory_bytes"`
	ProxyMemoryBytes int64 `json:"proxy_memory_bytes,omitempty"`
	Statistics
}

// Probed is the outcome of a Probe.
type Probed struct {
	// Error is empty if the program exited with 0 in time.
	Error string `json:"error,omitempty"`
}

// Executed is the end of the command of an Exec.
type Executed struct {
	Session string `json:"session"`
	// Error is why the command was not started; empty: it was.
	Error string `json:"error,omitempty"`
	// ExitCode is that of the command; -1 if the Signal, such as SIGKILL, has killed it.
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
}

// Free says that nothing is left of the job that was released, and that the proxy can run another. If the
// connection ends before it has one, the proxy exits.
type Free struct{}

// Error answers a message that could not be carried out.
type Error struct {
	// Message is the name of the message. It is empty when the line was not a
	// message; Error then quotes its beginning.
	Message string `json:"message,omitempty"`
	Error   string `json:"error"`
}

// ErrBadMessage is returned, wrapped, when a line is not a message. Reading can
// go on with the next line.
var ErrBadMessage = errors.New("bad message")

// Parse parses one line. An unknown field is an error.
func Parse(line []byte) (Message, error) { return parse(line, true) }

func parse(line []byte, strict bool) (Message, error) {
	if message, ok := parsePlain(line, strict); ok {
		return message, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(line, &keys); err != nil {
		return Message{}, fmt.Errorf("%w %.60q: %w", ErrBadMessage, line, err)
	}
	if len(keys) != 1 {
		return Message{}, fmt.Errorf("%w %.60q: has %d keys, want only the message name", ErrBadMessage, line, len(keys))
	}
	var message Message
	for name, value := range keys {
		into := message.field(name)
		if into == nil {
			return Message{}, fmt.Errorf("%w %.60q: unknown field %.60q", ErrBadMessage, line, name)
		}
		decoder := json.NewDecoder(bytes.NewReader(value))
		if strict {
			decoder.DisallowUnknownFields()
		}
		if err := decoder.Decode(into); err != nil {
			return Message{}, fmt.Errorf("%w %.60q: %w", ErrBadMessage, line, err)
		}
	}
	if message.Name() == "" {
		return Message{}, fmt.Errorf("%w %.60q: is null", ErrBadMessage, line)
	}
	return message, nil
}

// parsePlain parses a line as Message.Line writes it. It takes half as long as to look for all that a line may hold.
func parsePlain(line []byte, strict bool) (message Message, ok bool) {
	begin, end := []byte(`{"`), []byte(`}`)
	if !bytes.HasPrefix(line, begin) || !bytes.HasSuffix(line, end) {
		return Message{}, false
	}
	name, value, found := bytes.Cut(line[len(begin):len(line)-len(end)], []byte(`":`))
	into := message.field(string(name))
	if !found || into == nil {
		return Message{}, false
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	if strict {
		decoder.DisallowUnknownFields()
	}
	if decoder.Decode(into) != nil || decoder.InputOffset() != int64(len(value)) || message.Name() == "" {
		return Message{}, false
	}
	return message, true
}

// field returns a pointer to the field of the message with that name; nil: the name is unknown.
// Encoding that field alone spares a proxy, which sends only about three lines, the analysis
// of all message types by encoding/json.
func (m *Message) field(name string) any {
	for field, value := range reflect.ValueOf(m).Elem().Fields() {
		if strings.EqualFold(field.Name, name) {
			return value.Addr().Interface()
		}
	}
	return nil
}

// Name is the message's name on the wire.
func (m *Message) Name() string {
	for field, value := range reflect.ValueOf(m).Elem().Fields() {
		if !value.IsNil() {
			return strings.ToLower(field.Name)
		}
	}
	return ""
}

// Line is the message as it goes over the wire, newline included.
func (m *Message) Line() ([]byte, error) {
	name := m.Name()
	value, err := json.Marshal(m.field(name))
	if err != nil {
		return nil, fmt.Errorf("encode message %s: %w", name, err)
	}
	line := fmt.Appendf(make([]byte, 0, len(value)+len(name)+6), `{"%s":%s}`, name, value)
	if len(line) >= MaxLine {
		return nil, fmt.Errorf("encode message %s: %d bytes, the limit is %d", m.Name(), len(line), MaxLine)
	}
	return append(line, '\n'), nil
}

// Reader reads messages from a connection.
type Reader struct {
	lines  *bufio.Reader
	strict bool
}

// NewReader returns a Reader that reads from r.
func NewReader(r io.Reader) *Reader {
	return &Reader{lines: bufio.NewReaderSize(r, 4<<10), strict: true}
}

// NewTolerantReader returns a Reader that ignores unknown fields: a proxy of a
// later build may send more.
func NewTolerantReader(r io.Reader) *Reader {
	return &Reader{lines: bufio.NewReaderSize(r, 4<<10)}
}

// Read returns the next message. After ErrBadMessage it may be called again;
// after any other error the connection is unusable.
func (r *Reader) Read() (Message, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.lines.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			tooLong = true
			line = append(line, part...)[:min(len(line)+len(part), 60)]
		} else if !tooLong {
			line = append(line, part...)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return Message{}, err
		}
	}
	if tooLong {
		return Message{}, fmt.Errorf("%w %.60q: longer than %d bytes", ErrBadMessage, line, MaxLine)
	}
	return parse(bytes.TrimSuffix(line, []byte("\n")), r.strict)
}
