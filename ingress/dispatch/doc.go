// Package dispatch starts the workflow of each receipt. It is the only starter.
//
// A committed event comes in by [Dispatcher.Offer], in memory and without waiting. The sweep finds in the table the
// receipts that were not started so, after a full queue, a crash, or while Temporal was down or slow. Starting twice
// is harmless, because the workflow ID is the event's and Temporal refuses the second start, which counts as success.
// So a receipt is started at least once, and runs once.
//
// A second start costs Temporal as much as the first, though, and would come just when Temporal is slow. So queue and
// sweep share one lease, [receipt.Lease]: a receipt that waits in memory is not due, and a worker leaves a receipt to
// the sweep if it waited so long that it may soon become due.
//
// While Temporal is down nothing is lost, and nothing floods it: only the sweep tries, one receipt at a time with
// growing pauses. When one start succeeds, it works off the backlog.
package dispatch
