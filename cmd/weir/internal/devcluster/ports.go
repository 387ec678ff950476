package devcluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

// Ports are chosen from firstPort up to the range that Linux uses for outgoing connections by
// default. A connection could take a port from that range while its replica is down, and the
// replica could not restart.
const (
	firstPort     = 10000
	firstOutgoing = 32768
)

// jobPorts is how many ports an agent has for its jobs.
const jobPorts = 100

// freeRanges returns the first ports of `n` distinct ranges of `size` ports each. All ports are
// free on 127.0.0.1 now, for TCP and UDP, and none is in `taken`.
func freeRanges(n, size int, taken []int) ([]int, error) {
	var ranges []int
	for _, block := range rand.Perm((firstOutgoing - firstPort) / size) {
		if len(ranges) == n {
			break
		}
		first := firstPort + block*size
		within := func(port int) bool { return port >= first && port < first+size }
		if !slices.ContainsFunc(taken, within) && areFree(first, size) {
			ranges = append(ranges, first)
		}
	}
	if len(ranges) < n {
		return nil, fmt.Errorf("choose ports: only %d free ranges of %d ports between %d and %d, need %d", len(ranges), size, firstPort, firstOutgoing, n)
	}
	return ranges, nil
}

// areFree reports whether processes could listen on all ports of the range that begins at `first`.
func areFree(first, size int) bool {
	for port := first; port < first+size; port++ {
		if !isFree(port) {
			return false
		}
	}
	return true
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
