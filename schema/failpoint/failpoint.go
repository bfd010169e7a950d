//go:build !pawlhooks

// Package failpoint marks the places where a process can be made to die or to stall, so that tests can show the state
// after a crash between any two steps. In an ordinary build [Enabled] is false and [Hit] does nothing. A build with the
// tag pawlhooks reads PAWL_FAIL.
//
// PAWL_FAIL is name:action:nth; several are separated by commas. The action exit kills the process like kill -9; stop
// stops it like SIGSTOP. nth counts the hits of that name from 1.
package failpoint

// Enabled reports whether the build has failure hooks.
const Enabled = false

// Hit does nothing.
func Hit(string) {}
