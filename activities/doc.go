// Package activities contains the activities of the flows: one file per outside system, and one activity per business
// effect, named as verb and object. Every effect goes through package effect, which claims its key in the ledger, so
// every activity can be called again at any time.
//
// The structs are the receivers of the activities. Workflows name activities through nil pointers, and the worker
// registers initialised ones. Every activity takes one input struct and returns one result struct.
package activities
