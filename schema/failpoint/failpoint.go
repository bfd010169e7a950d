//go:build !pawlhooks

// Package failpoint marks places where a test can kill or stall the process, to show the state after a crash between
// two steps. In an ordinary build [Enabled] is false and [Hit] does nothing. In a build with the tag pawlhooks, the
// variable PAWL_FAIL selects what happens.
//
// The format of PAWL_FAIL is name:action:nth, separated by commas. name is the name of a place. The action exit kills
// the process like kill -9, and the action stop stops it like SIGSTOP. nth is the number of the visit, from 1.
package failpoint

// Enabled reports whether the build has failure hooks.
const Enabled = false

// Hit does nothing in an ordinary build.
func Hit(string) {}
