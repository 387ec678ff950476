package agent

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
)

// Ports is a range of TCP ports; the zero value is the empty range.
type Ports struct{ First, Count int }

// ParsePorts reads a range from "21000-21999"; the empty text is the empty range.
func ParsePorts(text string) (Ports, error) {
	if text == "" {
		return Ports{}, nil
	}
	low, high, ok := strings.Cut(text, "-")
	first, errFirst := strconv.Atoi(low)
	last, errLast := strconv.Atoi(high)
	if !ok || errors.Join(errFirst, errLast) != nil {
		return Ports{}, fmt.Errorf("ports %q: must be first-last, such as 21000-21999", text)
	}
	if last < first {
		return Ports{}, fmt.Errorf("ports %q: the last one is before the first", text)
	}
	ports := Ports{First: first, Count: last - first + 1}
	return ports, ports.Validate()
}

// Validate returns an error that says what is wrong with the range; nil if it is valid.
func (p Ports) Validate() error {
	switch last := p.First + p.Count - 1; {
	case p == Ports{}:
		return nil
	case p.Count <= 0:
		return fmt.Errorf("ports: %d from port %d on: must be at least 1", p.Count, p.First)
	case p.First < lowestPort || last > highestPort:
		return fmt.Errorf("ports %d-%d: must be from %d to %d: lower ports are reserved by the system", p.First, last, lowestPort, highestPort)
	}
	return nil
}

const (
	lowestPort  = 1024
	highestPort = 1<<16 - 1
)

// checkPorts returns an error if another process on this machine listens on one of the ports.
func checkPorts(ports []int32) error {
	for _, port := range ports {
		listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(int(port))))
		if err == nil {
			err = listener.Close()
		}
		if err != nil {
			return fmt.Errorf("port %d assigned to the job is unusable on this node: %w", port, err)
		}
	}
	return nil
}

// withPorts returns the environment with variables for the job's ports and for the host at which
// others reach those ports.
func withPorts(environment map[string]string, host string, ports []int32) map[string]string {
	all := make(map[string]string, len(environment)+len(ports)+2)
	maps.Copy(all, environment)
	all["WEIR_HOST"], all["WEIR_PORTS"] = host, strconv.Itoa(len(ports))
	for i, port := range ports {
		all["WEIR_PORT_"+strconv.Itoa(i)] = strconv.Itoa(int(port))
	}
	return all
}
