// Package e2e contains the tests that need complete processes. They kill, stop and restart the built pawl against a
// real Postgres, a real Temporal server and the sandbox of outside systems. The package contains only tests.
//
// Each test has its own database, task queue and sandbox. One checker (check_test.go) verifies the final state. It
// reads rows, the sandbox's journals and the responses that the client received, and never relies on pawl's own
// reports.
package e2e
