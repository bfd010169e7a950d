// Package dispatch starts the workflow of each receipt. No other package starts these workflows.
//
// [Dispatcher.Offer] queues a committed event in memory without waiting. The sweep reads all other receipts from the
// table: the queue was full, the process crashed, or Temporal was down or slow. A second start of a receipt is
// harmless: both starts have the same workflow ID, so Temporal rejects the second one, and the dispatcher treats this
// rejection as success. So each receipt is started at least once and runs once.
//
// A second start costs Temporal as much as the first, and it would happen when Temporal is slow. Each receipt therefore
// has a lease, [receipt.Lease]. The sweep skips a queued receipt until its lease ends. The workers of the queue skip a
// receipt if its lease ends soon.
//
// While Temporal is down, only the sweep tries to start receipts, one at a time and with growing pauses. After one
// start succeeds, the sweep starts the backlog.
package dispatch
