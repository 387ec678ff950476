package devcluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
)

// Ports are taken from here up to where the system takes ports of outgoing
// connections from. Such a port could become a replica's while the replica is down,
// and then it could not come back.
const (
	firstPort       = 10000
	usualOutgoing   = 32768
	leastChoice     = 1000
	outgoingSetting = "/proc/sys/net/ipv4/ip_local_port_range"
)

// freePorts returns n different ports of 127.0.0.1 that are free now, for TCP and
// UDP.
func freePorts(n int) ([]int, error) {
	low, high := choice()
	first := low + rand.IntN(high-low)
	var ports []int
	for i := 0; i < high-low && len(ports) < n; i++ {
		port := low + (first-low+i)%(high-low)
		if isFree(port) {
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		return nil, fmt.Errorf("choose ports: %d of 127.0.0.1 are free between %d and %d, %d are needed", len(ports), low, high, n)
	}
	return ports, nil
}

// choice returns the half-open range of ports to choose from on this machine.
func choice() (low, high int) {
	setting, err := os.ReadFile(outgoingSetting)
	if err != nil {
		setting = nil
	}
	return portRange(string(setting))
}

// jobPorts is how many ports an agent has for its jobs.
const jobPorts = 100

// jobRanges returns the first port of n different ranges of jobPorts ports that are free
// now and have none of taken.
func jobRanges(n int, taken []int) ([]int, error) {
	low, high := choice()
	blocks := (high - low) / jobPorts
	var ranges []int
	for _, block := range rand.Perm(blocks) {
		if len(ranges) == n {
			break
		}
		first := low + block*jobPorts
		within := func(port int) bool { return port >= first && port < first+jobPorts }
		if !slices.ContainsFunc(taken, within) && areFree(first) {
			ranges = append(ranges, first)
		}
	}
	if len(ranges) < n {
		return nil, fmt.Errorf("choose ports for jobs: %d ranges of %d are free between %d and %d, %d are needed", len(ranges), jobPorts, low, high, n)
	}
	return ranges, nil
}

// areFree says whether jobs could listen on all ports of the range from first on.
func areFree(first int) bool {
	for port := first; port < first+jobPorts; port++ {
		if !isFree(port) {
			return false
		}
	}
	return true
}

// portRange returns the half-open range to choose from. setting is the system's
// range of outgoing ports, "low high".
func portRange(setting string) (low, high int) {
	var outgoing, last int
	if n, err := fmt.Sscan(setting, &outgoing, &last); err != nil || n != 2 {
		outgoing = usualOutgoing
	}
	if outgoing-firstPort < leastChoice {
		// Little is left below: share the range with outgoing connections.
		return firstPort, 1 << 16
	}
	return firstPort, outgoing
}

// isFree says whether a replica could listen on the port.
func isFree(port int) bool {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	stream, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	defer stream.Close()
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	return packets.Close() == nil
}
