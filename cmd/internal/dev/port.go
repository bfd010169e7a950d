package dev

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// CheckPort returns nil if it can listen on addr ("127.0.0.1:7233"). Otherwise it returns an error of one sentence,
// with the port and the flag that sets the port.
func CheckPort(flag, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not an address (flag %s): write HOST:PORT, e.g. 127.0.0.1:8080", addr, flag)
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %s is taken (flag %s): stop the program that listens on %s, or move "+
			"all ports with --port-base", port, flag, addr)
	}
	if err != nil {
		return fmt.Errorf("cannot listen on %s (flag %s): %w", addr, flag, err)
	}
	return l.Close()
}
