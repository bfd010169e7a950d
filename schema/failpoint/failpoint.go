//go:build !pawlhooks

// Package failpoint marks the places where a process can be made to die or to stall, so that
// tests can show what a crash between any two steps leaves behind. In an ordinary build
// [Enabled] is false and [Hit] is nothing; a build with the tag pawlhooks reads PAWL_FAIL.
//
// PAWL_FAIL is name:action:nth, several separated by commas. The action exit kills the process as
// kill -9 does, stop stops it as SIGSTOP does; nth counts the hits of that name from 1.
package failpoint

// Enabled reports whether the build has failure hooks.
const Enabled = false

// Hit does nothing.
func Hit(string) {}
