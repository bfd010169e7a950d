// Package receipt stores the events of providers. Each event has one receipt, which is kept forever, with the raw bytes
// and a list of all deliveries. Package schema/run stores the runs.
//
// The unique key (provider, account, mode, event ID) finds duplicates. If an insert conflicts with this key, the event
// is a duplicate, and its first delivery is committed. Only [Store.Insert] creates receipts. The ingress may answer a
// delivery with 2xx only after Insert returned nil.
//
// Writes on the hot path (insert, duplicate) are group-committed: concurrent callers share one statement. Every
// statement is one round trip in a transaction of its own and needs no session state, so a transaction-mode pooler may
// be used.
package receipt
