package proxyproto

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// identityMark begins the line of a proxy's log that says who it is.
const identityMark = "proxy "

// LogLine is the first line of a proxy's log, there before the command starts: a file of
// its own would cost more than all that is in it.
func (id Identity) LogLine() []byte {
	return fmt.Appendf(nil, identityMark+`{"pid":%d,"start_time":%d}`+"\n", id.Pid, id.StartTicks)
}

// CutIdentity reads who the proxy of a log is, and returns what else is in it. It is not ok
// for a proxy that has not come so far, and for one that has its IdentityFile.
func CutIdentity(log []byte) (id Identity, rest []byte, ok bool) {
	line, rest, whole := bytes.Cut(log, []byte("\n"))
	text, marked := bytes.CutPrefix(line, []byte(identityMark))
	if !whole || !marked || json.Unmarshal(text, &id) != nil || id.Pid <= 0 {
		return Identity{}, log, false
	}
	return id, rest, true
}
