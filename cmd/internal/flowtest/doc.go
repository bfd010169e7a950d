// Package flowtest contains tests that run every branch of every flow with real components: a worker and a
// dispatcher, Postgres, a Temporal dev server, and the sandbox of external systems, which counts effects. The package
// contains only tests. The tests of package workflows replay recorded histories. The first command below records the
// histories that are missing or cannot be replayed any more. The second command records the histories that you name:
//
//	go test ./cmd/internal/flowtest -run EveryBranch -update
//	go test ./cmd/internal/flowtest -run EveryBranch -record 'InvoicePaid/.*|Relay/delivered'
//
// Tests that kill and restart whole processes are in package e2e.
package flowtest
