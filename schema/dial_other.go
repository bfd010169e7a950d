//go:build !linux

package schema

import "syscall"

// boundUnanswered does nothing on systems without such a TCP option. Every call has a deadline in any case.
func boundUnanswered(_, _ string, _ syscall.RawConn) error { return nil }
