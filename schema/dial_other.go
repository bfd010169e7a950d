//go:build !linux

package schema

import "syscall"

// boundUnanswered does nothing, because this system has no such TCP option. Every call has a deadline anyway.
func boundUnanswered(_, _ string, _ syscall.RawConn) error { return nil }
