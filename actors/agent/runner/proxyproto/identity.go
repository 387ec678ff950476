package proxyproto

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// identityMark begins the line of a proxy's log that holds its Identity.
const identityMark = "proxy "

// LogLine is the first line of a proxy's log, written before the command starts. It takes the place
// of a file, which would cost far more.
func (id Identity) LogLine() []byte {
	return fmt.Appendf(nil, identityMark+`{"pid":%d,"start_time":%d}`+"\n", id.Pid, id.StartTicks)
}

// CutIdentity splits a proxy's log into its Identity and the rest. The result `ok` is false if the
// proxy has not written its Identity yet, or has an IdentityFile; `rest` is then the whole log.
func CutIdentity(log []byte) (id Identity, rest []byte, ok bool) {
	line, rest, whole := bytes.Cut(log, []byte("\n"))
	text, marked := bytes.CutPrefix(line, []byte(identityMark))
	if !whole || !marked || json.Unmarshal(text, &id) != nil || id.Pid <= 0 {
		return Identity{}, log, false
	}
	return id, rest, true
}
