package proxyproto

import "testing"

func TestCutIdentity(t *testing.T) {
	who := Identity{Pid: 12, StartTicks: 34}
	tests := map[string]struct {
		log      string
		wantID   Identity
		wantRest string
		wantOK   bool
	}{
		"alone":                       {log: string(who.LogLine()), wantID: who, wantOK: true},
		"before complaints":           {log: string(who.LogLine()) + "first\nsecond\n", wantID: who, wantRest: "first\nsecond\n", wantOK: true},
		"of a proxy that had no more": {log: `proxy {"pid":12`, wantRest: `proxy {"pid":12`},
		"a line without its end":      {log: `proxy {"pid":12,"start_time":34}`, wantRest: `proxy {"pid":12,"start_time":34}`},
		"of an earlier build":         {log: "2026-11-21 a complaint\n", wantRest: "2026-11-21 a complaint\n"},
		"zeros":                       {log: "\x00\x00\x00\n", wantRest: "\x00\x00\x00\n"},
		"nobody":                      {log: "proxy {}\n", wantRest: "proxy {}\n"},
		"nothing":                     {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			id, rest, ok := CutIdentity([]byte(test.log))
			if id != test.wantID || string(rest) != test.wantRest || ok != test.wantOK {
				t.Errorf("CutIdentity: %+v, %q, %t, want %+v, %q, %t", id, rest, ok, test.wantID, test.wantRest, test.wantOK)
			}
		})
	}
}
