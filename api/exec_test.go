package api

import (
	"fmt"
	"strings"
	"testing"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

const session = `"job_id": "j1", "session": "0123456789abcdef"`

// TestCommandsInJobs starts commands in a job, and gives them input and reads their output: its node is asked for just
// that, in the name of the caller.
func TestCommandsInJobs(t *testing.T) {
	long := strings.Repeat("x", 17<<10)
	for name, test := range map[string]struct {
		call, body string
		// ended says that the job has; refused is the code of the node's answer.
		ended   bool
		refused string
		// wantAsked is what the node was asked for, wantCode the code of an error, wantText in the answer.
		wantAsked, wantCode, wantText string
	}{
		"a command":           {call: "Exec", body: `"command": ["ls", "-l"]`, wantAsked: "start [ls -l] false  0x0"},
		"at a terminal":       {call: "Exec", body: `"command": ["sh"], "terminal": true, "term": "xterm-256color", "size": {"columns": 80, "rows": 24}`, wantAsked: "start [sh] true xterm-256color 80x24"},
		"no command":          {call: "Exec", body: `"command": []`, wantCode: apipb.CodeInvalidArgument, wantText: "the program is missing"},
		"a long command":      {call: "Exec", body: `"command": ["` + long[:9<<10] + `", "` + long[:9<<10] + `"]`, wantCode: apipb.CodeInvalidArgument, wantText: "the limit is 16384"},
		"a zero byte":         {call: "Exec", body: `"command": ["a\u0000b"]`, wantCode: apipb.CodeInvalidArgument, wantText: "zero byte"},
		"a kind of terminal":  {call: "Exec", body: `"command": ["sh"], "term": "x=y"`, wantCode: apipb.CodeInvalidArgument, wantText: "must be letters"},
		"a huge terminal":     {call: "Exec", body: `"command": ["sh"], "size": {"columns": 80000}`, wantCode: apipb.CodeInvalidArgument, wantText: "0 to 10000"},
		"a job that is over":  {call: "Exec", body: `"command": ["ls"]`, ended: true, wantCode: apipb.CodeJobEnded, wantText: "already completed"},
		"too many":            {call: "Exec", body: `"command": ["ls"]`, refused: actorpb.CodeTooMany, wantAsked: "start [ls] false  0x0", wantCode: apipb.CodeTooManySessions, wantText: "the node's reason"},
		"no answer":           {call: "Exec", body: `"command": ["ls"]`, refused: actorpb.CodeUnavailable, wantAsked: "start [ls] false  0x0", wantCode: apipb.CodeUnavailable, wantText: "the node's reason"},
		"input":               {call: "ExecIO", body: `"input": "aGk=", "input_offset": 3, "end_of_input": true`, wantAsked: `input 3 "hi" true false`, wantText: `"input_offset":"5"`},
		"a new size":          {call: "ExecIO", body: `"size": {"columns": 90, "rows": 30}`, wantAsked: `input 0 "" false false 90x30`},
		"the end":             {call: "ExecIO", body: `"hang_up": true, "output_offset": 0`, wantAsked: `input 0 "" false true`},
		"output":              {call: "ExecIO", body: `"output_offset": 7`, wantAsked: `input 0 "" false false; output 7 4096; output 7 131072`, wantText: `"data":"aGk="},{"stderr":true,"data":"IQo="}],"next_offset":"11","end":{"error":"","exit_code":3`},
		"much input":          {call: "ExecIO", body: `"input": "` + strings.Repeat("AAAA", 11<<10) + `"`, wantCode: apipb.CodeInvalidArgument, wantText: "32768"},
		"a negative offset":   {call: "ExecIO", body: `"output_offset": -1`, wantCode: apipb.CodeInvalidArgument, wantText: "negative"},
		"a long wait":         {call: "ExecIO", body: `"wait_millis": 6000`, wantCode: apipb.CodeInvalidArgument, wantText: "0 to 5000"},
		"no session":          {call: "ExecIO", body: `"output_offset": 0`, refused: actorpb.CodeNotFound, wantAsked: `input 0 "" false false; output 0 4096`, wantCode: apipb.CodeNoSuchSession, wantText: "the node's reason"},
		"the rest of one":     {call: "ExecIO", body: `"output_offset": 7`, ended: true, wantAsked: `input 0 "" false false; output 7 4096; output 7 131072`, wantText: `"stderr":true`},
		"a session's name":    {call: "Exec", body: `"session": "short", "command": ["ls"]`, wantCode: apipb.CodeInvalidArgument, wantText: "16 to 64"},
		"a bad one of a node": {call: "ExecIO", body: `"input_offset": 9`, refused: actorpb.CodeBadRequest, wantAsked: `input 9 "" false false`, wantCode: apipb.CodeInvalidArgument, wantText: "the node's reason"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			operation := s.runAs(startBody(1, ""), 1, "j1")
			if test.ended {
				s.must(&commandpb.FinishJobs{OperationId: operation, Epoch: 1, Jobs: []*statepb.FinishedJob{{JobId: "j1", State: "completed", Pid: 42, Statistics: &statepb.JobStatistics{}}}})
			}
			var asked []string
			s.exec = func(m *actorpb.Exec) (*actorpb.ExecPart, error) {
				if m.GetNode() != "n1" || m.GetJobId() != "j1" || m.GetSession() != "0123456789abcdef" || m.GetUser() != "operator oda" {
					t.Errorf("asked for %v", m)
				}
				asked = append(asked, askedText(m)...)
				if test.refused != "" {
					return nil, &actorpb.Refused{Code: test.refused, Reason: "the node's reason"}
				}
				return partOf(m), nil
			}
			body := "{" + session + ", " + test.body + "}"
			if strings.Contains(test.body, `"session"`) {
				body = `{"job_id": "j1", ` + test.body + "}"
			}
			got := s.post("JobService/"+test.call, body)
			if text := strings.Join(asked, "; "); text != test.wantAsked {
				t.Errorf("asked for %q, want %q", text, test.wantAsked)
			}
			if got.header.Get(apipb.HeaderCode) != test.wantCode || !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(got.raw, `": `, `":`), `, "`, `,"`), test.wantText) {
				t.Errorf("got %s %s, want %s with %q", got.header.Get(apipb.HeaderCode), got.raw, test.wantCode, test.wantText)
			}
		})
	}
}

// askedText says what a node is asked for.
func askedText(m *actorpb.Exec) (parts []string) {
	size := func(s *actorpb.TerminalSize) string { return fmt.Sprintf("%dx%d", s.GetColumns(), s.GetRows()) }
	if c := m.GetStart(); c != nil {
		parts = append(parts, fmt.Sprintf("start %v %t %s %s", c.GetArgv(), c.GetTerminal(), c.GetTerm(), size(c.GetSize())))
	}
	if in := m.GetInput(); in != nil {
		text := fmt.Sprintf("input %d %q %t %t", in.GetOffset(), in.GetData(), in.GetEnd(), in.GetHangUp())
		if in.GetSize() != nil {
			text += " " + size(in.GetSize())
		}
		parts = append(parts, text)
	}
	if out := m.GetOutput(); out != nil {
		parts = append(parts, fmt.Sprintf("output %d %d", out.GetOffset(), out.GetLimit()))
	}
	return parts
}

// partOf is a node whose command has written two bytes to one stream and two to the other, and ended.
func partOf(m *actorpb.Exec) *actorpb.ExecPart {
	part := &actorpb.ExecPart{InputOffset: m.GetInput().GetOffset() + int64(len(m.GetInput().GetData()))}
	switch out := m.GetOutput(); {
	case out.GetLimit() == promptBytes:
		part.Pieces, part.NextOffset, part.More = []*actorpb.ExecPiece{{Data: []byte("hi")}}, out.GetOffset()+2, true
	case out != nil:
		part.Pieces = []*actorpb.ExecPiece{{Data: []byte("hi")}, {Stderr: true, Data: []byte("!\n")}}
		part.NextOffset, part.End = out.GetOffset()+4, &actorpb.ExecEnd{ExitCode: 3}
	}
	return part
}

// TestWhoMayEnterJobs (T2, T3): it takes what it would take to start the job. Who may not, or no longer, has no command
// there: what that user has started is ended.
func TestWhoMayEnterJobs(t *testing.T) {
	for name, test := range map[string]struct {
		more, want string
		// accounts are granted to manager; gone says that manager may no longer manage.
		accounts []string
		gone     bool
	}{
		"one who manages":          {},
		"one who does no longer":   {gone: true, want: "this needs the right manage"},
		"secrets":                  {more: `, "secure_vault": {"TOKEN": "x"}`, want: `which has secrets of user \"ann\"`},
		"an account, not granted":  {more: `, "account": true`, want: "weir account allow user:manager --as build"},
		"an account, granted":      {more: `, "account": true`, accounts: []string{"build"}},
		"another account, granted": {more: `, "account": true`, accounts: []string{"other"}, want: "weir account allow user:manager --as build"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.get("TreeService/Set", `{"options": {"acl": {"use": []}}}`)
			s.get("PoolService/Edit", `{"edits": [{"create": {"name": "ads", "options": {"acl": {"use": ["user:ann"], "manage": ["user:manager"]}}}}]}`)
			s.must(&commandpb.EditAccounts{Subject: "user:ann", Accounts: []string{"build"}})
			if len(test.accounts) > 0 {
				s.must(&commandpb.EditAccounts{Subject: "user:manager", Accounts: test.accounts})
			}
			task, more := "", test.more
			if strings.Contains(more, "account") {
				task, more = `, "user": "build"`, ""
			}
			body := `{"spec": {"pool": "ads", "tasks": {"t": {"job_count": 1, "command": ["x"], "memory_limit": "1MiB"` + task + `}}` + more + `}}`
			operation := at(t, s.get("OperationService/Start", body, roleHeader, "user/ann"), "operation_id").(string)
			s.leadsTo(operation, 1, "j1")
			if test.gone {
				s.get("PoolService/Edit", `{"edits": [{"change": {"name": "ads", "options": {"acl": {"use": ["user:ann"]}}}}]}`)
			}
			var asked []string
			s.exec = func(m *actorpb.Exec) (*actorpb.ExecPart, error) {
				asked = append(asked, m.GetUser()+": "+strings.Join(askedText(m), "; "))
				return &actorpb.ExecPart{}, nil
			}
			started := s.post("JobService/Exec", "{"+session+`, "command": ["ls"]}`, roleHeader, "user/manager")
			read := s.post("JobService/ExecIO", "{"+session+`, "output_offset": 0}`, roleHeader, "user/manager")
			want := []string{"user manager: start [ls] false  0x0", `user manager: input 0 "" false false; output 0 4096`}
			if test.want != "" {
				want = []string{`user manager: input 0 "" false true`}
			}
			if got := strings.Join(asked, " | "); got != strings.Join(want, " | ") {
				t.Errorf("its node was asked for %q, want %q", got, want)
			}
			for _, got := range []string{started.raw, read.raw} {
				if !strings.Contains(got, test.want) || (test.want == "") != !strings.Contains(got, "message") {
					t.Errorf("answered %s, want %q", got, test.want)
				}
			}
			if got := s.post("JobService/Exec", "{"+session+`, "command": ["ls"]}`, roleHeader, "user/ann"); got.status != 200 {
				t.Errorf("its user is answered %s", got.raw)
			}
		})
	}
}
