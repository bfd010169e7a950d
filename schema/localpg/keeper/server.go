package keeper

import (
	"fmt"
	"net"
	"strings"
)

// FreePort returns a port of 127.0.0.1 on which nobody listens now.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// LastLines returns the last n lines of a server's log as one.
func LastLines(log []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
