// Package workflows holds the flows: deterministic code that decides what happens because of an
// event, in which order, and what happens when something does not.
//
// A flow reads as the business story. Everything it does goes through activities, whose ledger keys
// make a retry, a reset or a second event for the same fact safe. A run parks when a person must
// decide; it then waits for one of the updates retry, skip or compensate.
package workflows
