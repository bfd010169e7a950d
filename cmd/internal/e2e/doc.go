// Package e2e contains tests that run complete processes. They start, kill and restart the built pawl with a real
// Postgres, a real Temporal server and the sandbox of external systems. The package contains only tests.
//
// Each test has a database, a task queue and a sandbox of its own. A checker (check_test.go) verifies the final state.
// It reads database rows, the journals of the sandbox and the responses that the client got. It never relies on what
// pawl reports about itself.
package e2e
