// Package activities contains the activities of the flows: one file per outside system, and one activity per business
// effect, named as verb and object. Every activity executes its effect through package effect, which claims the
// effect's key in the ledger, so Temporal can call an activity again at any time.
//
// The structs are the receivers of the activities. Workflows use nil pointers of these types to name activities, and
// the worker registers initialised values. Every activity takes one input struct and returns one result struct.
package activities
