//go:build !linux

package schema

import "syscall"

// boundUnanswered does nothing where TCP cannot be told: every call has a deadline all the same.
func boundUnanswered(_, _ string, _ syscall.RawConn) error { return nil }
