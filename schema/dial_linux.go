package schema

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundUnanswered closes a connection if the peer does not acknowledge sent data for eight seconds. Without this limit,
// TCP would retry for a quarter of an hour.
func boundUnanswered(network, _ string, conn syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	if failed := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 8000)
	}); failed != nil {
		return failed
	}
	return err
}
