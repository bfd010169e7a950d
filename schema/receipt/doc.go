// Package receipt stores the events of providers: one receipt per event, for ever, with its raw bytes and all of its
// deliveries. Package schema/run stores the runs.
//
// The row deduplicates: (provider, account, mode, event ID) is unique. If an insert conflicts with that key, the event
// is a duplicate, and its first delivery is committed. Only [Store.Insert] creates receipts. A delivery may be answered
// with 2xx only after Insert returned nil.
//
// Writes on the hot path (insert, duplicate) are group-committed: concurrent callers share one statement. Every
// statement is one round trip in an implicit transaction and needs no session state, so a transaction-mode pooler may
// be used.
package receipt
