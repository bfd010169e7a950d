// Package e2e holds the tests that need whole processes: the built pawl, killed, stopped and started again,
// between a real Postgres, a real Temporal server and the sandbox of outside systems. There is nothing in
// it but tests.
//
// Each test has a world of its own: a database, a task queue and a sandbox. What is true in the end is
// said by one checker (check_test.go), which reads rows, the sandbox's journals and the log of what the
// client was answered, and never pawl's own opinion of itself.
package e2e
