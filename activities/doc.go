// Package activities holds what flows do: one file per outside system, one activity per business
// effect, named as verb and object. Every effect goes through activities/effect, which claims its
// key in the ledger, so that any activity here may be called again at any time.
//
// The structs are the activities' receivers. Workflows name them through nil pointers and the
// worker registers filled ones; every activity takes one input struct and returns one result struct.
package activities
