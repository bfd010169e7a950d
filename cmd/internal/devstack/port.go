package devstack

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// portPatience is how long CheckPort waits for a port to become free: a server of the run before,
// whose pawl was killed, may still be on its way down.
const portPatience = 2 * time.Second

// CheckPort returns nil when addr ("127.0.0.1:7233") can be listened on, and else one sentence
// that names the port and the flag that sets it.
func CheckPort(flag, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is no address (flag %s): write HOST:PORT, e.g. 127.0.0.1:8080", addr, flag)
	}
	for deadline := time.Now().Add(portPatience); ; {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			return l.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("cannot listen on %s (flag %s): %w", addr, flag, err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("port %s is taken (flag %s): stop what listens on %s, or choose another port", port,
				flag, addr)
		}
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // nothing tells when another process lets go of a port
	}
}
