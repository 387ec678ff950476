package devcluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
)

// Ports are chosen from firstPort up to the system's range for outgoing connections. A
// connection could take a port from that range while its replica is down, and the replica
// could not restart.
const (
	firstPort       = 10000
	usualOutgoing   = 32768
	leastChoice     = 1000
	outgoingSetting = "/proc/sys/net/ipv4/ip_local_port_range"
)

// jobPorts is how many ports an agent has for its jobs.
const jobPorts = 100

// freeRanges returns the first ports of n distinct ranges of size ports. All ports are free
// on 127.0.0.1 now, for TCP and UDP, and none is in taken.
func freeRanges(n, size int, taken []int) ([]int, error) {
	setting, err := os.ReadFile(outgoingSetting)
	if err != nil {
		setting = nil
	}
	low, high := portRange(string(setting))
	var ranges []int
	for _, block := range rand.Perm((high - low) / size) {
		if len(ranges) == n {
			break
		}
		first := low + block*size
		within := func(port int) bool { return port >= first && port < first+size }
		if !slices.ContainsFunc(taken, within) && areFree(first, size) {
			ranges = append(ranges, first)
		}
	}
	if len(ranges) < n {
		return nil, fmt.Errorf("choose ports: %d ranges of %d are free between %d and %d, %d are needed", len(ranges), size, low, high, n)
	}
	return ranges, nil
}

// areFree reports whether processes could listen on all size ports from first on.
func areFree(first, size int) bool {
	for port := first; port < first+size; port++ {
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
		// Too few ports are left below: share the range with outgoing connections.
		return firstPort, 1 << 16
	}
	return firstPort, outgoing
}

// isFree says whether a process could listen on the port.
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
