package keeper

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
)

// given contains the ports that FreePorts has already returned.
var given sync.Map

// FreePorts returns n free ports of 127.0.0.1. They are below 32768, because most systems use higher ports for outgoing
// connections. An outgoing connection could take such a port before the caller does. It never returns a port twice in
// one process.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		port := 16384 + rand.IntN(16384)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		_ = l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no free ports below 32768 found in a thousand attempts")
}

// FreePort returns one port; see [FreePorts].
func FreePort() (int, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// longLine is the maximum length of a log line in an error. The message is at the start of the line, and a stack trace
// may follow.
const longLine = 400

// LastLines returns the last n lines of a server's log as one line.
func LastLines(log []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		lines[i] = line[:min(len(line), longLine)]
	}
	return strings.Join(lines, "; ")
}
