// Package flowtest holds the tests that run every flow and every branch of it on real parts: a worker and a
// dispatcher as a process has them, Postgres, a Temporal dev server, and the sandbox of outside systems, which counts
// effects. There is nothing in it but tests. The first command records the histories, for the tests of package
// workflows, that are missing or no longer replay. The second records the histories that you name:
//
//	go test ./cmd/internal/flowtest -run EveryBranch -update
//	go test ./cmd/internal/flowtest -run EveryBranch -record 'InvoicePaid/.*|Relay/delivered'
//
// Tests that kill whole processes and start them again are in e2e.
package flowtest
