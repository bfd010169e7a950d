// Package ledger stores one row per business effect and decides which run may do it.
//
// The key of an effect names the business fact ("receipt-email:stripe:live:in_123"), never the run. A run claims the
// key before it does the effect. Each claim has a lease and a token. After the lease, another claim can take over; the
// token then keeps the earlier holder from writing.
//
//	claimed ──► done ──► compensated
//	   │  └───► skipped
//	   ├──────► failed     transient: claimable again; exhausted, fault or permanent: in a later round
//	   └──────► uncertain  claimable in a later round, after a person decided
//
// A failed or uncertain effect also becomes done if a person records that it has happened: see [Store.Assert].
//
// If an undo is finished, the effect that it undoes becomes compensated. A claimed, failed or uncertain effect also
// becomes compensated, because it may have happened.
//
// An effect that has ended is not repeated by a retry, a reset or another event for the same fact: the claim returns
// the recorded result. Only a later round, which an operator starts, can repeat it.
//
// Claims, marks and finishes of concurrent effects share a commit. Every method is safe for concurrent use. If a method
// returns an error, the change may or may not be committed. It is always safe to call the method again with the same
// arguments.
package ledger
