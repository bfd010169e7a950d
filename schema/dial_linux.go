package schema

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundUnanswered gives a connection up on which nothing that was sent is acknowledged for eight seconds: TCP alone
// tries for a quarter of an hour.
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
