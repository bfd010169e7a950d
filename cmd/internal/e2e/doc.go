// Package e2e holds the tests that need whole processes: the built pawl, killed, stopped and started again,
// between a real Postgres, a real Temporal server and the sandbox of outside systems. There is nothing in
// it but tests.
//
// Each test has a world of its own: a database, a task queue and a sandbox. One checker (check_test.go) says how
// things stand in the end. It reads rows, the sandbox's journals and the answers that the client got, and never asks
// pawl about itself.
package e2e
