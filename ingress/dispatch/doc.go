// Package dispatch starts the workflow of each receipt. It is the only package that does.
//
// [Dispatcher.Offer] queues a committed event in memory without waiting. The sweep reads the receipts that were not
// started this way from the table: after a full queue, a crash, or while Temporal was down or slow. A second start is
// harmless: the workflow ID belongs to the event, Temporal rejects the second start, and the rejection counts as
// success. So each receipt is started at least once and runs once.
//
// A second start costs Temporal as much as the first, and it would arrive when Temporal is slow. Queue and sweep
// therefore share one lease, [receipt.Lease]: a receipt that waits in memory is not due, and a worker leaves a receipt
// to the sweep if the receipt may soon become due.
//
// While Temporal is down, no event is lost and Temporal is not flooded: only the sweep tries, one receipt at a time,
// with growing pauses. After one start succeeds, the sweep works off the backlog.
package dispatch
