// Package receipt keeps what providers sent: one receipt per event, for ever, with its raw bytes and
// every delivery of it. Its runs are schema/run's.
//
// The row is the dedupe authority: (provider, account, mode, event ID) is unique, and an event
// whose insert meets that key is a duplicate whose first delivery is committed. Only
// [Store.Insert] makes receipts, and only a nil error of it may be answered with 2xx.
//
// Writes on the hot path (insert, duplicate) are group-committed: callers that
// come at the same moment share one statement. Every statement is one round trip in an implicit
// transaction and needs no session state, so a transaction-mode pooler may sit between.
package receipt
