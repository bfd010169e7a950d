// Package e2e contains tests that run complete processes. They build pawl, start it with a real Postgres, a real
// Temporal server and the sandbox of external systems, and kill and restart it. The package contains only tests.
//
// Each test has its own database, task queue and sandbox. A checker (check_test.go) verifies the final state. It
// reads database rows, the journals of the sandbox and the responses that the client received. It never relies on
// what pawl reports about itself.
package e2e
