// Package workflows contains the flows: deterministic code that decides which effects an event has, in which order
// they run, and how failures are handled.
//
// A flow reads as the business process. All of its work happens in activities; their ledger keys make a retry, a
// reset or a second event for the same fact safe. A run parks if a person must decide, and then waits for one of the
// updates of [Decisions].
package workflows
