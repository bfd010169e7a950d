package devstack

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// CheckPort returns nil when addr ("127.0.0.1:7233") can be listened on, and else one sentence
// that names the port and the flag that sets it.
func CheckPort(flag, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is no address (flag %s): write HOST:PORT, e.g. 127.0.0.1:8080", addr, flag)
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %s is taken (flag %s): stop what listens on %s, or choose another port", port, flag,
			addr)
	}
	if err != nil {
		return fmt.Errorf("cannot listen on %s (flag %s): %w", addr, flag, err)
	}
	return l.Close()
}
