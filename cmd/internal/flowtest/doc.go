// Package flowtest holds the tests that run every flow and every branch of it on real parts: a worker and a
// dispatcher as a process has them, Postgres, a Temporal dev server, and the sandbox of outside systems, which counts
// effects. There is nothing in it but tests. With -update they record the histories that workflows replays:
//
//	go test ./cmd/internal/flowtest -run EveryBranch -update
//
// Tests that kill whole processes and start them again are in e2e.
package flowtest
