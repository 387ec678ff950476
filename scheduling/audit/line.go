// Package audit decides what the audit log of a replica says: which decisions become lines of their
// own, which are counted together, and whose lines give way when there is no room for all (T8). The
// package is pure.
package audit

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Outcome is how a call ended.
type Outcome string

const (
	// Allowed calls were carried out.
	Allowed Outcome = "allowed"
	// Denied calls lacked a right.
	Denied Outcome = "denied"
	// Failed calls ended with another error. With the code outcome_unknown the change may have been
	// made nevertheless.
	Failed Outcome = "failed"
	// Lost stands for lines that are missing: Count tells how many, Why tells the reason.
	Lost Outcome = "lost"
)

// Line is one line of the audit log: a decision, or several equal ones within a second.
type Line struct {
	// Seq grows from line to line of a replica, also over restarts. It is the time at which the line
	// was written in microseconds since 1970, or a little more if lines are written faster.
	Seq uint64 `json:"seq"`
	// Time is when the call ended; of several calls the first one.
	Time time.Time `json:"time"`
	// Replica is the replica that decided.
	Replica string `json:"replica"`
	// Role and User are from the certificate of the caller. If a gateway made the call, User and Groups
	// are what the gateway tells.
	Role string `json:"role,omitempty"`
	User string `json:"user,omitempty"`
	// Groups are separated by commas.
	Groups  string `json:"groups,omitempty"`
	Gateway string `json:"gateway,omitempty"`
	// Address is the host that the call came from.
	Address string `json:"address,omitempty"`
	// Method is the call, such as OperationService/Abort.
	Method string `json:"method,omitempty"`
	// Object is what the call was about, such as `operation ID`. It is empty if the line counts calls
	// about several objects, which Various says.
	Object  string `json:"object,omitempty"`
	Various bool   `json:"various,omitempty"`
	// Change is what the call changed or would have changed: "weight 1 -> 5 on pool ads". It is empty if
	// Method and Object say it.
	Change string `json:"change,omitempty"`
	// Right is the right that the call needs.
	Right   string  `json:"right,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Code is the stable code of the error, and Why its text.
	Code string `json:"code,omitempty"`
	Why  string `json:"why,omitempty"`
	// Request is the id of the call; of several calls that of the first one.
	Request string `json:"request,omitempty"`
	// Count is the number of calls, if it is more than 1. Until is when the last one ended.
	Count int64     `json:"count,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

// The largest sizes of texts in a line, in bytes.
const (
	maxText   = 256
	maxWhy    = 512
	maxChange = 1024
)

// Cut returns the line with texts of bounded length.
func (l Line) Cut() Line {
	for _, text := range []*string{&l.Role, &l.User, &l.Groups, &l.Gateway, &l.Address, &l.Method, &l.Object, &l.Right, &l.Code, &l.Request} {
		*text = cut(*text, maxText)
	}
	l.Why, l.Change = cut(l.Why, maxWhy), cut(l.Change, maxChange)
	return l
}

func cut(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
		for len(text) > 0 && !utf8.ValidString(text[max(0, len(text)-utf8.UTFMax):]) {
			text = text[:len(text)-1]
		}
		text += "…"
	}
	return strings.ToValidUTF8(text, "?")
}

// key returns the line without what differs between equal decisions.
func (l Line) key() Line {
	l.Seq, l.Time, l.Why, l.Request, l.Count, l.Until = 0, time.Time{}, "", "", 0, time.Time{}
	return l
}

// changed reports whether something was changed that the line describes.
func (l Line) changed() bool { return l.Outcome == Allowed && l.Change != "" }

// coarse returns the line without what a caller can vary as often as he likes.
func (l Line) coarse() Line {
	l.Object, l.Address, l.Various, l.Why, l.Change = "", "", true, "", ""
	return l
}

// read is the right of calls that change nothing.
const read = "read"

// Account returns the account whose budget a line is charged to: that of its subject. Changes that
// were made have an account of their own, so that a subject cannot hide them behind refused calls.
func (l Line) Account() string {
	account := l.Role + " " + l.User
	if l.Outcome == Allowed && l.Right != read {
		account += " changed"
	}
	return account
}
