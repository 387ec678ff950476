package agent

import (
	"maps"
	"net"
	"strconv"
	"strings"
	"testing"

	"weir/messages/actorpb"
)

func itoa(port int32) string { return strconv.Itoa(int(port)) }

// takePort has the test listen at a port of this machine.
func takePort(t *testing.T) int32 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

// withPort gives a job of a plan another port.
func withPort(job string, port int32) planOption {
	return func(p *actorpb.NodePlan) {
		for _, start := range p.GetStart() {
			if start.GetJobId() == job {
				start.Ports = append(start.Ports, port)
			}
		}
	}
}

func TestParsePorts(t *testing.T) {
	tests := map[string]struct {
		text      string
		want      Ports
		wantError string
	}{
		"none":                   {},
		"a thousand":             {text: "21000-21999", want: Ports{21000, 1000}},
		"one":                    {text: "21000-21000", want: Ports{21000, 1}},
		"one without an end":     {text: "21000", wantError: "must be first-last"},
		"words":                  {text: "a-b", wantError: "must be first-last"},
		"backwards":              {text: "21999-21000", wantError: "before the first"},
		"the system's":           {text: "80-90", wantError: "from 1024 to 65535"},
		"more than there are":    {text: "65000-65536", wantError: "from 1024 to 65535"},
		"a number that is large": {text: "21000-99999999999999999999", wantError: "must be first-last"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParsePorts(test.text)
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("ParsePorts: %v, want an error with %q", err, test.wantError)
				}
			} else if err != nil || got != test.want {
				t.Errorf("ParsePorts: %v, %v, want %v", got, err, test.want)
			}
		})
	}
	for _, ports := range []Ports{{First: 21000}, {First: 21000, Count: -1}, {Count: 3}} {
		if ports.Validate() == nil {
			t.Errorf("%+v is valid", ports)
		}
	}
}

func TestCheckPorts(t *testing.T) {
	taken := takePort(t)
	if err := checkPorts([]int32{taken}); err == nil || !strings.Contains(err.Error(), itoa(taken)) {
		t.Errorf("checkPorts: %v, want an error that names %d", err, taken)
	}
	// Any other process may take one that is free, but not all of them in a moment.
	var free []net.Listener
	for range 16 {
		listener, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		free = append(free, listener)
	}
	var refusals []error
	for _, listener := range free {
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		if err := checkPorts([]int32{int32(listener.Addr().(*net.TCPAddr).Port)}); err != nil {
			refusals = append(refusals, err)
		}
	}
	if len(refusals) == len(free) {
		t.Errorf("checkPorts of free ones: %v", refusals)
	}
}

func TestWithPorts(t *testing.T) {
	got := withPorts(map[string]string{"A": "b", "WEIR_PORTS": "mine"}, "host1", []int32{21000, 21007})
	want := map[string]string{"A": "b", "WEIR_HOST": "host1", "WEIR_PORTS": "2", "WEIR_PORT_0": "21000", "WEIR_PORT_1": "21007"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
